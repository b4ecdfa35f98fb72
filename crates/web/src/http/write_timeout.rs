//! A timeout for writes. A client that asks for much and does not read it would otherwise occupy a
//! connection, and its answer the memory, for ever.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use tokio::time::{Sleep, sleep};

/// A connection that fails when the client reads nothing for too long.
pub(crate) struct WriteTimeout<T, F> {
    inner: T,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    on_stall: F,
}

impl<T, F: Fn(bool)> WriteTimeout<T, F> {
    /// Every write must make progress within this time. Calls `on_stall(true)` when a write begins
    /// to wait for the client, and `on_stall(false)` when it makes progress again.
    pub(crate) fn new(inner: T, timeout: Duration, on_stall: F) -> Self {
        Self {
            inner,
            timeout,
            stalled: None,
            on_stall,
        }
    }

    fn timed<R>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            if self.stalled.take().is_some() {
                (self.on_stall)(false);
            }
            return poll;
        }
        if self.stalled.is_none() {
            (self.on_stall)(true);
        }
        let timeout = self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: Read + Unpin, F: Unpin> Read for WriteTimeout<T, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin, F: Fn(bool) + Unpin> Write for WriteTimeout<T, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.timed(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.timed(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.timed(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.timed(cx, poll)
    }
}
