//! One connection to the service.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use crate::wire::Departure;

/// Max bytes of a response's headers, and of the part of its body that hyper reads ahead.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

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
    ) -> hyper::Result<Response<Incoming>> {
        self.departure.begin(self.is_first);
        self.is_first = false;
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    /// Whether the server may have seen some of the request.
    pub(crate) fn has_sent(&self) -> bool {
        self.departure.has_left()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}
