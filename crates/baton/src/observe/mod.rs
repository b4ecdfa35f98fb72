//! Reading a fleet: a snapshot of one moment, a watch that takes one every second, and the trend
//! and health that follow from several snapshots.

pub(crate) mod durability;
pub(crate) mod health;
pub(crate) mod partitions;
pub(crate) mod snapshot;
pub(crate) mod trend;
pub(crate) mod watch;
