//! The protocol as a pure function, for tests only.
//!
//! [`step`] is docs/protocol.md in Rust: a call changes a [`State`](state::State) and gets its
//! answer. Two tests use it. The first explores it exhaustively, with nodes that crash, calls that
//! are lost and repeated, clocks that jump and servers that lose writes: it shows that the protocol
//! is right. The second sends random calls to it and to the real scripts on real servers, and
//! compares every answer and the whole state: it shows that the scripts are that protocol.

pub mod call;
pub mod explore;
pub mod flaw;
pub mod partitions;
pub mod scenarios;
pub mod state;
mod step;

pub use step::step;
