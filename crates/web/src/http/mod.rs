//! HTTP itself: accepting connections, bounding what a client may send and how long it may take,
//! headers of every answer, refusals.

mod connections;
pub(crate) mod layers;
mod refusal;
pub(crate) mod server;
mod write_timeout;

pub(crate) use refusal::Refusal;
