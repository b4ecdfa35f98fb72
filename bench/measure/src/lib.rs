//! A million messages, timed and audited: what `baton bench` measures.
//!
//! [`run`] times one run of a fleet of real processes, and [`floor`] times the same messages
//! through an unsafe queue. [`FleetProbe`] reads what the servers of a fleet used, [`ServerProbe`] what one
//! server used. [`Timeline`] has a run's latency and pace, which it reads from the ledgers. [`burst()`] times messages that arrive at once.

mod burst;
mod fleet_probe;
pub mod floor;
mod run;
mod server_probe;
mod timed_fleet;
mod timeline;

pub use burst::{burst, floor_burst};
pub use fleet_probe::{FleetProbe, Shards};
pub use run::{Kill, Run, bytes_per_pending, run};
pub use server_probe::{Memory, ServerProbe};
pub use timed_fleet::{Progress, Usage};
pub use timeline::{Latency, Reign, Slice, Timeline};

use std::path::PathBuf;

use baton::{FleetName, Target};

/// The settings of a bench.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `baton` program.
    pub program: PathBuf,
    /// The server, or the servers of a cluster.
    pub target: Target,
    /// Environment variables with which copies of the program find it.
    pub env: Vec<(String, String)>,
    /// How many messages.
    pub messages: u64,
    /// Bytes of each text.
    pub size: usize,
    /// How many copies are workers; one more is the generator.
    pub workers: usize,
    /// How often a copy is killed with -9.
    pub kills: usize,
    /// Share of messages that the handler rejects.
    pub error_rate: f64,
    /// More flags for every copy.
    pub flags: Vec<String>,
}

/// The name of a fleet that does not exist yet.
fn fresh_fleet() -> anyhow::Result<FleetName> {
    Ok(FleetName::new(&format!(
        "bench-{}",
        baton_protocol::new_name()
    ))?)
}
