//! A TCP connection that knows whether a request has left this machine.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Some of the request has left, or there is none.
const LEFT: u8 = 0;
/// No byte of the connection's first request has left.
const FIRST_STAYS: u8 = 1;
/// No byte of a later request has left.
const NEXT_STAYS: u8 = 2;

/// How far the current request of a connection is. Its sender and the wire share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departure(Arc<AtomicU8>);

impl Departure {
    /// A request begins.
    pub(crate) fn begin(&self, is_first: bool) {
        let stays = if is_first { FIRST_STAYS } else { NEXT_STAYS };
        self.0.store(stays, Ordering::Relaxed);
    }

    /// Whether some of the request may have reached the server.
    pub(crate) fn has_left(&self) -> bool {
        self.0.load(Ordering::Relaxed) == LEFT
    }
}

/// The connection. Before the first byte of a request leaves, it checks that the server has not hung
/// up meanwhile. A request that the server cannot have seen costs its message no attempt.
pub(crate) struct Wire {
    stream: TcpStream,
    departure: Departure,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, departure: Departure) -> Self {
        Self { stream, departure }
    }

    fn depart(&self) -> io::Result<()> {
        if self.departure.has_left() {
            return Ok(());
        }
        let is_first = self.departure.0.load(Ordering::Relaxed) == FIRST_STAYS;
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let is_open = match recv(&self.stream, &mut byte, flags) {
            Ok((_, 0)) => false,
            // A TLS server may have sent tickets behind the handshake. Later, a server that sends
            // something unasked is about to hang up.
            Ok(_) => is_first,
            Err(error) => io::Error::from(error).kind() == io::ErrorKind::WouldBlock,
        };
        if !is_open {
            let problem = "the server closed the connection before the request";
            return Err(io::Error::new(io::ErrorKind::NotConnected, problem));
        }
        self.departure.0.store(LEFT, Ordering::Relaxed);
        Ok(())
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.depart()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.depart()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
