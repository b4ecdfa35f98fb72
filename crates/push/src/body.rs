//! The body of a response, as much of it as matters.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::{Instant, timeout_at};

/// Max bytes of a body that are read. What is longer is cut off, and its connection closed.
pub(crate) const MAX_BODY_BYTES: usize = 1 << 20;

/// A body that was read.
pub(crate) struct ReadBody {
    /// Its beginning.
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: End,
}

/// How a body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// It was read to its end.
    Complete,
    /// It has more than [`MAX_BODY_BYTES`].
    Beyond,
    /// The connection broke.
    Broken(String),
    /// The time of the attempt was over.
    TimedOut,
}

/// Reads a body until its end, the bound or the deadline. Keeps the first `keep` bytes.
pub(crate) async fn read<B>(mut body: B, keep: usize, deadline: Instant) -> ReadBody
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut bytes = Vec::new();
    let mut total = 0;
    let end = loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => break End::Broken(error.to_string()),
            Ok(None) => break End::Complete,
            Err(_) => break End::TimedOut,
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        total += data.len();
        let room = keep.saturating_sub(bytes.len()).min(data.len());
        bytes.extend_from_slice(&data[..room]);
        if total > MAX_BODY_BYTES {
            break End::Beyond;
        }
    };
    ReadBody { bytes, end }
}
