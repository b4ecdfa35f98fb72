//! Start any number of identical copies of one program against one Redis. One copy is the
//! **generator** and makes messages; every other copy is a **worker** and handles them. Each message
//! is committed exactly once, whatever crashes.
//!
//! # A fleet in thirty lines
//!
//! Bring a [`Source`] that makes messages and a handler for them, and run a [`Node`] in every copy:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use baton::{Effects, FleetName, Json, Node, Rejected, Target, handler, interval};
//!
//! #[derive(serde::Deserialize)]
//! struct Order {
//!     customer: String,
//!     amount: i64,
//! }
//!
//! # async fn run() -> Result<(), baton::Error> {
//! let orders = interval(Duration::from_millis(500), |seq, text| {
//!     text.extend_from_slice(format!(r#"{{"customer": "Ada", "amount": {seq}}}"#).as_bytes());
//! });
//! let total = handler(|Json(order): Json<Order>| async move {
//!     if order.amount > 1_000_000 {
//!         return Err(Rejected::new("too much").into());
//!     }
//!     let mut effects = Effects::default();
//!     effects.hincr_by("totals", order.customer, order.amount);
//!     Ok(effects)
//! });
//! let target = Target::parse("redis://localhost")?;
//! let node = Node::builder(FleetName::new("orders")?).build(target, orders, total)?;
//! node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await
//! # }
//! ```
//!
//! # The tour
//!
//! 1. **Who generates.** Every node beats. The beat of the node that holds the *lease* renews it; any
//!    node's beat takes it when its holder is gone. Each new lease has a higher *epoch*, and Redis
//!    refuses a publish of an older one, so a generator that wakes up late does no harm.
//!    It publishes what its [`Source`] makes. Where the source stands is stored in the step that
//!    accepts its messages, so the next generator continues exactly there. [`interval`] and [`lines`] make
//!    sources; with the features `cron` and `postgres` there are `Cron` and `Outbox`.
//! 2. **Who handles.** A worker *claims* messages, runs the handler, and *commits*. The commit ends
//!    the claim, counts the outcomes and writes the staged [`Effects`] in one atomic step. When a
//!    worker dies, its claim returns to the queue. A generator handles messages, too, if
//!    [`NodeBuilder::generator_works`] says so.
//! 3. **What fails.** A handler returns an error, and a worker tries the message again later; after
//!    the last attempt, or if the handler returns [`Rejected`], it goes to the errors store with the
//!    reason. [`Inspector`] reads, retries, drops and takes failed messages.
//! 4. **What a handler is.** [`handler`] makes one from an async closure, [`blocking`] from a closure
//!    that blocks its thread; both take a [`Payload`], such as [`Json`]. A type that implements
//!    [`Handler`] is the fastest: it reads the text in place.
//! 5. **What happens.** [`NodeBuilder::on_event`] reports each [`Event`] of this node.
//!    [`inspect::Watch`] follows the whole fleet: snapshots, rates, health. With the feature
//!    `tracing` each attempt at a message has a span `message` of the target `baton`, with the fields
//!    `fleet`, `seq`, `key`, `attempt`, `node`, `outcome` (done, retry, rejected or given back) and
//!    `reason`; its handler runs in that span.
//! 6. **How it is paused.** [`Inspector::pause`] stops the generator, the workers or both without
//!    ending a node; Redis refuses the calls, so a node that starts meanwhile is paused, too.
//! 7. **How it ends.** [`Node::run`] takes a future; when it resolves, the node resigns, finishes or
//!    gives back its messages, and leaves.
//!
//! # Examples
//!
//! `cargo run --example NAME -- redis://localhost`, with these names:
//! `readme` is the smallest fleet;
//! [count](https://docs.rs/crate/baton-fleet/latest/source/examples/count.rs) is a whole fleet member;
//! `graceful_stop` stops on SIGTERM within a bounded time; `effects` keeps exact totals in Redis;
//! `orders` handles JSON with a closure; `outbox` (feature `postgres`) relays a table; `blocking` calls code that blocks its thread; `drain` takes
//! all failed messages; `watch` prints the health of a fleet.
//!
//! # Tests of your own
//!
//! With the feature `testing`, the module `testing` starts a private server and a fleet of nodes in
//! the process of your test, and kills nodes when you say so.
//! [Here is such a test](https://docs.rs/crate/baton-fleet/latest/source/tests/testing.rs).
//!
//! # What it needs
//!
//! A tokio runtime of the caller's choice, and Redis from 6.2 or Valkey. One thread is enough for a
//! node; a handler that blocks its thread delays the node's beat, unless [`blocking`] made it.

// docs.rs marks what needs a feature; that takes a nightly compiler.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod closure;
mod failed;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod inspector;
mod node;
mod observe;
mod payload;
mod source;
#[cfg(feature = "testing")]
pub mod testing;

pub use baton_protocol::{
    CertificateProblem, Durability, Effects, EffectsError, Error, FailedMessage, FleetName, Key,
    Part, Setting, Target, TlsFiles,
};
pub use closure::{blocking, handler};
pub use inspector::Inspector;
pub use node::Node;
pub use node::backoff::Backoff;
pub use node::builder::NodeBuilder;
pub use node::config::{GeneratorWorks, Roles};
pub use node::event::Event;
pub use node::handler::{Handler, Message};
pub use node::handler_error::{HandlerError, Rejected};
pub use node::rate::Rate;
pub use node::warning::Warning;
pub use payload::{Json, OwnedMessage, Payload};
pub use source::{
    Batch, FleetClock, Flow, Interval, Lines, Missed, Position, Source, SourceError, interval,
    lines,
};
#[cfg(feature = "cron")]
pub use source::{Cron, CronError, CronSpec};
#[cfg(feature = "postgres")]
pub use source::{Outbox, OutboxError};

/// What an [`Inspector`] and a watch return.
pub mod inspect {
    pub use baton_protocol::audit::{Audit, Finding};
    pub use baton_protocol::{
        ErrorsCommit, Extend, FailedPreview, Paused, Replica, ServerInfo, Takeover, TakeoverCause,
    };

    pub use crate::failed::{
        Drain, Failed, FailedCursor, FailedId, FailedPage, Settlement, Take, Taken,
    };
    pub use crate::node::meter::{BOUNDS, Counters, Histogram, Meter};
    pub use crate::observe::durability::DurabilityStatus;
    pub use crate::observe::health::{Health, Limits};
    pub use crate::observe::partitions::PartitionSnapshot;
    pub use crate::observe::snapshot::{GeneratorStatus, NodeRole, NodeStatus, Snapshot};
    pub use crate::observe::trend::{Point, Trend};
    pub use crate::observe::watch::{View, Views, Watch};
}
