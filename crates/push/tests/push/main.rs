//! The push handler against real connections: what a service gets, and what its answers and its
//! failures do to a message.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod hostile;
mod requests;
mod reuse;
mod service;
mod tls;
