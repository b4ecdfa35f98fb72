//! Scenarios in which an operator pauses parts of the fleet.

use super::{NONE, generators, scenario, with_liveness};
use crate::explore::{Faults, Scenario};

/// A generator that is paused, dies, and has a successor; and a failover that may forget a pause.
pub(super) fn with_faults() -> Vec<(Scenario, usize)> {
    let pauses = Faults {
        crashes: 1,
        lost_replies: 1,
        empty_batches: 1,
        pauses: 1,
        ..NONE
    };
    let failover = Faults {
        failovers: 1,
        pauses: 1,
        ..NONE
    };
    let failover = Scenario {
        generators: 1,
        workers: 1,
        rows: 2,
        ..scenario("pauses, failover", failover)
    };
    vec![(generators("pauses", pauses), 50_313), (failover, 101_873)]
}

/// Pauses of both parts, which end, and then every message does.
pub(super) fn to_the_end() -> Vec<(Scenario, usize)> {
    let pauses = Faults {
        crashes: 1,
        lost_replies: 1,
        pauses: 2,
        ..NONE
    };
    let pauses = Scenario {
        generators: 1,
        workers: 1,
        rows: 2,
        ..scenario("pauses, to the end", pauses)
    };
    vec![(with_liveness(pauses), 20_824)]
}
