//! Reading a fleet: a snapshot of one moment, a watch of many, and what they tell together.

pub(crate) mod health;
pub(crate) mod snapshot;
pub(crate) mod trend;
pub(crate) mod watch;
