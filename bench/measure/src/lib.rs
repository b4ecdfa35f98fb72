//! A million messages, timed and audited: what `baton bench` measures.
//!
//! [`run`] times one run of a fleet of real processes, [`floor`] the same messages through an
//! unsafe queue, [`Gauge`] reads what the server used, [`Course`] is what the ledger tells of
//! a run's latency and pace.

mod course;
pub mod floor;
mod gauge;
mod race;
mod run;

pub use course::{Course, Latency, Reign, Slice};
pub use gauge::{Gauge, Memory};
pub use race::{Progress, Usage};
pub use run::{Kill, Run, bytes_per_pending, run};

use std::path::PathBuf;

use baton::{FleetName, Target};

/// What a bench does, and with what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `baton` program.
    pub program: PathBuf,
    /// The server.
    pub target: Target,
    /// Variables that let copies of the program find the same server.
    pub env: Vec<(String, String)>,
    /// How many messages.
    pub messages: u64,
    /// Bytes of each text.
    pub size: usize,
    /// How many copies work, beside the one that generates.
    pub workers: usize,
    /// How often a copy is killed with -9.
    pub kills: usize,
    /// Share of messages that the handler rejects.
    pub error_rate: f64,
    /// More flags for every copy of ours.
    pub flags: Vec<String>,
}

/// A fleet that nobody else uses.
fn fresh_fleet() -> anyhow::Result<FleetName> {
    Ok(FleetName::new(&format!(
        "bench-{}",
        baton_protocol::new_name()
    ))?)
}
