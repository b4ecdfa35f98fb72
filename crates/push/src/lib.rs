//! A handler that posts each message to a URL: the service behind it does the work, in any language.
//!
//! ```no_run
//! # use baton_push::Push;
//! let push = Push::to("http://127.0.0.1:8080/job")?.build()?;
//! # Ok::<(), baton_push::PushError>(())
//! ```
//!
//! Give it to a node as its handler. [`Push`] has the rules: what the service gets, and what its
//! answers mean.
//!
//! From the top down: `push` sends a message and asks again on another connection if the first was
//! closed before the request left; `response` says what an answer means; `pool` keeps idle
//! connections; `dialer` makes new ones, and `verifier` says which services they trust; `wire` knows
//! whether a request has left this machine.

mod body;
mod connection;
mod dialer;
mod error;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod header_lines;
mod pool;
mod push;
mod response;
mod roots;
mod tls_error;
mod url;
mod verifier;
mod wire;

pub use error::PushError;
pub use push::{Push, PushBuilder};
