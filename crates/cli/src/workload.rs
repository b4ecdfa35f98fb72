//! The workload of `baton run` and `baton bench`: what they generate and how they handle it.

#[cfg(feature = "chaos")]
mod hostile_text;
mod node_handler;
mod node_source;
mod pretended_work;
mod random_text;

#[cfg(feature = "chaos")]
pub(crate) use hostile_text::HostileText;
pub(crate) use node_handler::{NodeHandler, SUPERVISOR};
pub(crate) use node_source::NodeSource;
pub(crate) use pretended_work::PretendedWork;
pub(crate) use random_text::RandomText;
