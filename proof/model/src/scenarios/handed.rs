//! Scenarios in which publishes hand messages over to idle workers.

use super::{NONE, scenario, with_liveness};
use crate::explore::{Faults, Scenario};

/// A generator of two rows, and a worker that sleeps and takes one message at a time.
fn handed(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        generators: 1,
        workers: 1,
        rows: 2,
        want: 1,
        hands_over: true,
        ..scenario(name, faults)
    }
}

/// A ring that is lost with its connection, a claim that expires under its worker, a failover that
/// forgets what was handed over; and two workers, of which one may die.
pub(super) fn with_faults() -> Vec<(Scenario, usize)> {
    let lost_rings = Faults {
        disconnects: 1,
        lost_replies: 1,
        ..NONE
    };
    let expired = Faults {
        duplicates: 1,
        clock_jumps: 1,
        ..NONE
    };
    let failover = Faults {
        failovers: 1,
        ..NONE
    };
    let two = Faults {
        crashes: 1,
        pauses: 1,
        ..NONE
    };
    let failover = Scenario {
        generators: 2,
        rows: 1,
        ..handed("handed, failover", failover)
    };
    let two = Scenario {
        workers: 2,
        ..handed("handed to two", two)
    };
    vec![
        (handed("handed, lost rings", lost_rings), 35_439),
        (handed("handed, expired", expired), 81_576),
        (failover, 79_605),
        (two, 152_880),
    ]
}

/// Scenarios that also check liveness.
pub(super) fn to_the_end() -> Vec<(Scenario, usize)> {
    let deaths = Faults {
        crashes: 1,
        disconnects: 1,
        ..NONE
    };
    [(handed("handed, to the end", deaths), 22_793)]
        .map(|(scenario, states)| (with_liveness(scenario), states))
        .into()
}
