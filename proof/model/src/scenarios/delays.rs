//! Scenarios of messages whose attempts may end with an error.

use super::{NONE, drains, killers, with_liveness, workers};
use crate::explore::{Faults, Scenario};

/// Messages whose attempts may end with an error, and claims that shrink.
pub(super) fn with_faults() -> Vec<(Scenario, usize)> {
    let duplicates = Faults {
        duplicates: 1,
        ..NONE
    };
    let deaths = Faults {
        crashes: 1,
        lost_replies: 1,
        ..NONE
    };
    let shrinking = Faults {
        duplicates: 1,
        give_backs: 1,
        disconnects: 1,
        ..NONE
    };
    let settles = Faults { settles: 1, ..NONE };
    let kills = Faults {
        crashes: 3,
        long_waits: 1,
        ..NONE
    };
    let delays = Scenario {
        attempts: 2,
        in_turn: true,
        ..workers("delays", &[2], duplicates)
    };
    let deaths = Scenario {
        attempts: 2,
        in_turn: true,
        ..workers("delays, deaths", &[2], deaths)
    };
    let shrinking = Scenario {
        want: 3,
        in_turn: true,
        shrinking: true,
        ..workers("shrinking", &[3], shrinking)
    };
    let settles = Scenario {
        attempts: 2,
        failing: false,
        ..drains("delays, settles", 1, settles)
    };
    let kills = Scenario {
        attempts: 2,
        faults: kills,
        calls_die_with_node: true,
        ..killers("delays, poison")
    };
    vec![
        (delays, 88_805),
        (deaths, 310_651),
        (shrinking, 342_141),
        (settles, 12_357),
        (kills, 23_389),
    ]
}

/// Scenarios that also check liveness.
pub(super) fn to_the_end() -> Vec<(Scenario, usize)> {
    let delays = Faults {
        crashes: 1,
        lost_replies: 1,
        restarts: 1,
        ..NONE
    };
    let delays = Scenario {
        workers: 1,
        attempts: 2,
        ..workers("delays, to the end", &[2], delays)
    };
    let wrong_clock = Faults {
        day_jumps: 2,
        crashes: 1,
        ..NONE
    };
    let wrong_clock = Scenario {
        workers: 1,
        attempts: 2,
        ..workers("delays, clock set right, to the end", &[2], wrong_clock)
    };
    [(delays, 26_183), (wrong_clock, 133_693)]
        .map(|(scenario, states)| (with_liveness(scenario), states))
        .into()
}
