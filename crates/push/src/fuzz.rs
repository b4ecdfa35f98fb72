//! What hostile bytes meet: a response of the service.
//!
//! `response` takes any bytes, reads them as the handler would, and panics if the outcome is not
//! sound. The fuzz target in `proof/fuzz/` calls it; the tests below replay its corpus.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use baton::{Effects, HandlerError};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::connection::Connection;
use crate::wire::Departure;
use crate::{body, response};

/// Longest reason: 4 KiB, in which every byte may become a character of three, and the status.
const MAX_REASON_BYTES: usize = 3 * 4096 + 200;
/// The bytes end before, and then the response does.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A response, as it comes over the wire.
pub fn response(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let Ok(runtime) = runtime else {
        return;
    };
    if let Some(Err(error)) = runtime.block_on(answer(data)) {
        assert!(!error.reason().is_empty());
        let length = error.reason().len();
        assert!(length <= MAX_REASON_BYTES, "{length} bytes of reason");
    }
}

/// The outcome of a message whose response has these bytes. None if they have no head.
async fn answer(data: &[u8]) -> Option<Result<Effects, HandlerError>> {
    let stream = Canned {
        response: data.to_vec(),
        at: 0,
        is_asked: false,
        reader: Waker::noop().clone(),
    };
    let mut connection = Connection::open(stream, Departure::default()).await.ok()?;
    let request = Request::new(Full::new(Bytes::from_static(b"text")));
    let answer = connection.send(request).await.ok()?;
    let (head, body) = answer.into_parts();
    let keep = response::bytes_to_keep(head.status, &head.headers);
    let body = body::read(body, keep, Instant::now() + TIMEOUT).await;
    Some(response::outcome(head.status, &head.headers, &body))
}

/// A server that gives one response to whatever it is asked, and hangs up.
struct Canned {
    response: Vec<u8>,
    at: usize,
    is_asked: bool,
    reader: Waker,
}

impl AsyncRead for Canned {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_asked {
            self.reader = cx.waker().clone();
            return Poll::Pending;
        }
        let rest = &self.response[self.at..];
        let count = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..count]);
        self.at += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Canned {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_asked = true;
        self.reader.wake_by_ref();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[path = "../../../proof/fuzz/replay.rs"]
mod replay;
#[cfg(test)]
mod tests;
