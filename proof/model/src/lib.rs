//! The protocol as a pure function, for tests alone.
//!
//! [`step`] is docs/protocol.md in Rust: a call changes a [`State`](state::State) and gets its
//! answer. Two things are done with it. It is explored exhaustively, with nodes that crash,
//! wires that lose and repeat, clocks that jump and servers that forget; and random calls are
//! sent to it and to the real scripts on real servers, and every answer and the whole state
//! must agree. The first shows that the protocol is right, the second that it is what runs.

pub mod call;
pub mod explore;
pub mod flaw;
pub mod settings;
pub mod state;
mod step;

pub use step::step;
