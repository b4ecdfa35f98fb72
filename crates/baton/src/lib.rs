//! Start any number of identical copies of one program against one Redis: one of them is the
//! **generator**, all others are **workers**, and every message is committed exactly once.
//!
//! Bring a [`Source`] that makes messages and a [`Handler`] that handles them, and run a
//! [`Node`] in every copy:
//!
//! ```no_run
//! use std::io::Write;
//!
//! use baton::{Config, Effects, FleetName, Handler, Message, Node, Rejected, Source, Target};
//!
//! struct Hello;
//!
//! impl Source for Hello {
//!     async fn generate(&mut self, seq: u64, text: &mut Vec<u8>) {
//!         text.extend_from_slice(format!("hello {seq}").as_bytes());
//!     }
//! }
//!
//! struct Count;
//!
//! impl Handler for Count {
//!     async fn handle(&self, message: Message<'_>, effects: &mut Effects) -> Result<(), Rejected> {
//!         if message.text.is_empty() {
//!             return Err("nothing to count".into());
//!         }
//!         // Written in the very step that commits the message: once per message.
//!         effects.incr_by("hellos", 1);
//!         Ok(())
//!     }
//! }
//!
//! # async fn run() -> Result<(), baton::Error> {
//! let config = Config::new(FleetName::new("hello")?);
//! let target = Target::parse("redis://localhost")?;
//! // Called on the node's own thread: it may neither block nor panic.
//! let observe = |event: &baton::Event| drop(writeln!(std::io::stderr(), "{event:?}"));
//! let node = Node::new(target, config, Hello, Count, observe)?;
//! node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await
//! # }
//! ```
//!
//! The tour: [`protocol`] has one typed function per script and is all that writes to Redis;
//! `link` owns the connection; `election` beats and knows the role; `generator` publishes;
//! `worker` claims, handles and commits; [`Node`] puts them together. [`Snapshot`] reads a
//! fleet, [`Drain`] takes its failed messages.

mod failed;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod inspector;
mod node;
mod observe;

pub use baton_protocol::{Effects, Error, FailedMessage, FleetName, Setting, Target};
pub use inspector::Inspector;
pub use node::Node;
pub use node::builder::NodeBuilder;
pub use node::config::Missed;
pub use node::event::Event;
pub use node::handler::{Handler, Message, Rejected, Source};

/// What an [`Inspector`] and a watch return.
pub mod inspect {
    pub use baton_protocol::audit::{Audit, Finding};
    pub use baton_protocol::{ErrorsCommit, Extend, FailedGlance, How, ServerInfo, Takeover};

    pub use crate::failed::{Drain, Failed, FailedId, FailedPage, Settlement, Take, Taken};
    pub use crate::node::meter::{BOUNDS, Counters, Histogram, Meter};
    pub use crate::observe::health::{Health, Limits};
    pub use crate::observe::snapshot::{GeneratorStatus, NodeRole, NodeStatus, Snapshot};
    pub use crate::observe::trend::{Point, Trend};
    pub use crate::observe::watch::{View, Views, Watch};
}
