//! What partitions cost, and what they are good for: a fleet of 16 partitions over the masters of a
//! cluster, beside a fleet of one partition on one server.
//!
//! Each file has one figure. `server_group` starts the servers and reads what they used, `bench_fleet`
//! runs a fleet at full speed on them.

mod bench_fleet;
mod ceiling;
mod cost;
mod crowd;
mod failover;
mod idle;
mod latency;
mod sent_commands;
mod server_group;

pub(crate) use ceiling::of_one_generator;
pub(crate) use cost::per_message;
pub(crate) use crowd::of_a_thousand_nodes;
pub(crate) use failover::of_a_shard;
pub(crate) use idle::of_many_nodes;
pub(crate) use latency::publish_to_handler;

use baton_report::stats::Spread;

/// What a new fleet has in a cluster.
const PARTITIONS: u32 = 16;
/// Masters of a cluster.
const MASTERS: usize = 3;
/// Nodes of a fleet: one generator, the others work.
const NODES: usize = 3;
/// Bytes of a text.
const TEXT_BYTES: usize = 64;

/// The median, and the least and the most in parentheses.
fn in_words(spread: &Spread) -> String {
    let Spread {
        median, min, max, ..
    } = spread;
    format!("{median:.2} ({min:.2}–{max:.2})")
}
