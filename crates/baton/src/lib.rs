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

mod audit;
mod clock;
mod config;
mod context;
#[doc(hidden)]
pub mod crash;
mod drain;
mod effects;
mod election;
mod error;
mod event;
mod failed;
mod generator;
mod handler;
mod health;
mod held;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod hostile;
mod keep;
mod keys;
mod ledger;
mod link;
mod meter;
mod metrics;
mod node;
mod outbox;
mod outcome;
mod pace;
mod pack;
mod pack_cache;
pub mod protocol;
mod schedule;
mod scripts;
mod server;
pub mod show;
mod snapshot;
mod target;
mod trend;
mod watch;
mod witness;
mod worker;

pub use audit::{Audit, Finding};
pub use clock::Cursor;
pub use config::{Config, Missed};
pub use drain::{Drain, Take, Taken};
pub use effects::Effects;
pub use error::Error;
pub use event::Event;
pub use failed::FailedMessage;
pub use handler::{Handler, Message, Rejected, Source};
pub use health::{Health, Limits};
pub use keys::{FleetName, Keys};
pub use ledger::{Digest, Entry, Ledger};
pub use link::LinkState;
pub use meter::{BOUNDS, Histogram, Meter};
pub use metrics::exposition;
pub use node::{Node, new_name};
pub use pack::{Pack, PackBuilder, Range};
pub use server::ServerInfo;
pub use snapshot::{FailedGlance, GeneratorStatus, How, NodeStatus, Snapshot, Takeover};
pub use target::Target;
pub use trend::{Point, Trend};
pub use watch::{Seen, Watch};
