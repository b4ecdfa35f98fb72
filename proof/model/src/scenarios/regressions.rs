//! Scenarios of servers that forget: failovers, what the nodes know then, and confirmations.

use super::{NONE, generators, scenario, with_liveness, workers};
use crate::explore::{Faults, Scenario, SourceKind};

/// One failover, and nothing else.
const FAILOVER: Faults = Faults {
    failovers: 1,
    ..NONE
};

/// Two nodes whose source does not replay.
fn voids(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        source: SourceKind::MakesOnce,
        ..generators(name, faults)
    }
}

/// Nodes that believe an answer when it is confirmed.
fn confirmed(unconfirmed: Scenario) -> Scenario {
    Scenario {
        confirms: true,
        ..unconfirmed
    }
}

/// Servers that forget.
pub(super) fn with_faults() -> Vec<(Scenario, usize)> {
    let wait = Faults {
        lease_ends: 1,
        ..FAILOVER
    };
    let death = Faults {
        crashes: 1,
        ..FAILOVER
    };
    let lost_answers = Faults {
        lost_replies: 1,
        duplicates: 1,
        pauses: 1,
        ..FAILOVER
    };
    let twice = Faults {
        failovers: 2,
        ..NONE
    };
    let wait = Scenario {
        rows: 1,
        ..voids("the holder's wait", wait)
    };
    let death = Scenario {
        workers: 1,
        rows: 1,
        ..voids("void, a worker knows", death)
    };
    let lost_answers = Scenario {
        generators: 1,
        ..voids("void, lost answers", lost_answers)
    };
    let late = Faults {
        lost_replies: 1,
        ..FAILOVER
    };
    let void = Scenario {
        generators: 1,
        rows: 3,
        ..voids("void", late)
    };
    let again = Scenario {
        generators: 1,
        ..voids("void, again", twice)
    };
    let and_back = Scenario {
        workers: 1,
        ..workers("failover and back", &[1], twice)
    };
    let no_cursor = Scenario {
        generators: 1,
        rows: 3,
        source: SourceKind::NoCursor,
        ..voids("void without cursors", late)
    };
    let publishes = Scenario {
        generators: 1,
        rows: 3,
        ..voids("confirmed publishes", FAILOVER)
    };
    let commits = Scenario {
        failing: true,
        ..workers("confirmed commits", &[2], FAILOVER)
    };
    vec![
        (void, 12_264),
        (again, 13_257),
        (no_cursor, 11_455),
        (lost_answers, 42_192),
        (wait, 35_814),
        (death, 99_925),
        (and_back, 923),
        (confirmed(publishes), 5_225),
        (confirmed(commits), 42_898),
    ]
}

/// Scenarios that also check liveness.
pub(super) fn to_the_end() -> Vec<(Scenario, usize)> {
    let death = Faults {
        crashes: 1,
        ..FAILOVER
    };
    let void = Scenario {
        generators: 1,
        workers: 1,
        ..voids("void, to the end", death)
    };
    [(void, 92_066)]
        .map(|(scenario, states)| (with_liveness(scenario), states))
        .into()
}

/// Scenarios that take minutes.
pub(super) fn large() -> Vec<Scenario> {
    let takeover = Faults {
        lease_ends: 1,
        ..FAILOVER
    };
    let twice = Faults {
        lease_lapses: 1,
        failovers: 2,
        ..NONE
    };
    let twice = Scenario {
        generators: 1,
        rows: 3,
        ..voids("void, two failovers", twice)
    };
    let wait = Faults {
        lease_ends: 2,
        ..FAILOVER
    };
    let wait = Scenario {
        rows: 1,
        ..voids("after the holder's wait", wait)
    };
    let roles = Scenario {
        generators: 1,
        workers: 1,
        rows: 2,
        ..scenario("confirmations of both roles", FAILOVER)
    };
    vec![
        voids("void, takeover", takeover),
        Scenario {
            source: SourceKind::NoCursor,
            ..voids("void without cursors, takeover", takeover)
        },
        twice,
        wait,
        confirmed(roles),
        confirmed(voids("confirmations, takeover", takeover)),
    ]
}
