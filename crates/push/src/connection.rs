//! One connection to the service.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::wire::Departure;

/// Max bytes of a response's headers, and of the part of its body that hyper reads ahead.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// Max headers of a response. This is hyper's own number: any other costs an allocation a response.
const MAX_HEADERS: usize = 100;

/// How long a connection may be busy with the last request after its response has ended. A server that
/// answers early may never read the rest of the request.
const MAX_BUSY: Duration = Duration::from_millis(100);

/// Why a request has no response.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The server cannot have seen the request.
    Unsent(String),
    /// The server may have seen it.
    Sent(String),
}

/// A connection on which one request is under way at a time. It closes when it is dropped.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    departure: Departure,
    is_first: bool,
    task: AbortHandle,
}

impl Connection {
    /// Speaks HTTP on a stream whose writes `departure` follows.
    pub(crate) async fn open<S>(stream: S, departure: Departure) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        let task = tokio::spawn(async {
            // The request under way hears of an error, too.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            departure,
            is_first: true,
            task: task.abort_handle(),
        })
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        self.departure.begin(self.is_first);
        self.is_first = false;
        let answered = match timeout(MAX_BUSY, self.sender.ready()).await {
            Ok(Ok(())) => self.sender.send_request(request).await,
            Ok(Err(closed)) => Err(closed),
            Err(_) => return Err(Unanswered::Unsent("the connection is busy".to_owned())),
        };
        answered.map_err(|error| match self.departure.has_left() {
            false => Unanswered::Unsent(words(&error)),
            true => Unanswered::Sent(words(&error)),
        })
    }
}

/// The words of an error and of its causes.
fn words(error: &hyper::Error) -> String {
    if error.is_parse_too_large() {
        let kib = MAX_HEAD_BYTES >> 10;
        return format!("its head has more than {MAX_HEADERS} headers or {kib} KiB");
    }
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}
