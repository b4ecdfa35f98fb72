//! What is explored: how many nodes there are, and which faults may happen.

use super::{Flaw, property};
use crate::flaw::Flaw as ScriptFlaw;
use crate::state::Node;

/// Nodes, rows, and the faults that may happen.
#[derive(Debug, Clone, Default)]
pub struct Scenario {
    /// Its name, for reports.
    pub name: &'static str,
    /// How many nodes beat and generate.
    pub nodes: Node,
    /// How many rows the source has.
    pub rows: u64,
    /// Max rows in a pack.
    pub max_pack: u64,
    /// Whether nodes believe an answer only when a replica has what it stands for.
    pub confirms: bool,
    /// How often each fault may happen.
    pub faults: Faults,
    /// Whether it is checked that the fleet publishes all rows once it is left alone.
    pub check_liveness: bool,
    /// A deliberate break.
    pub flaw: Option<Flaw>,
}

/// How often each fault may happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A node dies.
    pub crashes: u8,
    /// An answer is lost.
    pub lost_replies: u8,
    /// A node sends a call again while the first is still on its way.
    pub duplicates: u8,
    /// The lease ends while its holder sleeps.
    pub lease_ends: u8,
    /// A generator's lease lapses on its own clock, though no node took it.
    pub lapses: u8,
    /// A source finds no row, and only its cursor is stored.
    pub empty_batches: u8,
    /// A partition does not answer in time, and its generator parks what it sent there.
    pub stalls: u8,
    /// The server of the control keys is replaced by a replica that lacks the last writes.
    pub control_failovers: u8,
    /// The server of a partition is replaced by a replica that lacks the last writes.
    pub failovers: u8,
}

const NONE: Faults = Faults {
    crashes: 0,
    lost_replies: 0,
    duplicates: 0,
    lease_ends: 0,
    lapses: 0,
    empty_batches: 0,
    stalls: 0,
    control_failovers: 0,
    failovers: 0,
};

/// Two nodes, and a source of three rows, which they publish one by one.
fn scenario(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        name,
        nodes: 2,
        rows: 3,
        max_pack: 1,
        confirms: false,
        faults,
        check_liveness: true,
        flaw: None,
    }
}

/// Two nodes, of which one sleeps while the lease ends, and a server that is replaced.
fn failover(name: &'static str, confirms: bool) -> Scenario {
    let faults = Faults {
        lost_replies: 2,
        lease_ends: 1,
        failovers: 1,
        ..NONE
    };
    Scenario {
        confirms,
        ..scenario(name, faults)
    }
}

/// What partitions cannot do without confirmations: a partition that forgets breaks the properties
/// that come with it.
pub fn unconfirmed() -> (Scenario, &'static [&'static str]) {
    let mut scenario = failover("partitions: failover, unconfirmed", false);
    scenario.faults.lost_replies = 0;
    scenario.check_liveness = false;
    let broken = &[
        property::ONE_GENERATOR,
        property::NO_ROW_TWICE,
        property::NO_ROW_MISSING,
        property::CONFIRMED_STAYS,
        property::ONE_ROW_PER_NUMBER,
    ];
    (scenario, broken)
}

/// The scenarios of every test run, each with its number of states. Another number means that the
/// protocol, or a client of it, has changed.
pub fn small() -> Vec<(Scenario, usize)> {
    let takeover = Faults {
        crashes: 1,
        lost_replies: 1,
        ..NONE
    };
    let sleepers = Faults {
        lost_replies: 1,
        duplicates: 1,
        lease_ends: 1,
        ..NONE
    };
    let lapses = Faults {
        lost_replies: 1,
        duplicates: 1,
        lapses: 1,
        ..NONE
    };
    let three_nodes = Faults {
        crashes: 1,
        lease_ends: 1,
        ..NONE
    };
    let empty_batches = Faults {
        crashes: 1,
        lost_replies: 1,
        empty_batches: 1,
        ..NONE
    };
    let control = Faults {
        lost_replies: 1,
        control_failovers: 1,
        ..NONE
    };
    let parking = Faults {
        crashes: 1,
        lost_replies: 1,
        stalls: 1,
        ..NONE
    };
    let parking_sleepers = Faults {
        lease_ends: 1,
        stalls: 1,
        ..NONE
    };
    let parking_lapses = Faults {
        lapses: 1,
        stalls: 1,
        ..NONE
    };
    let parking_cursors = Faults {
        crashes: 1,
        empty_batches: 1,
        stalls: 1,
        ..NONE
    };
    let takeover = Scenario {
        max_pack: 2,
        ..scenario("partitions: takeover", takeover)
    };
    let three_nodes = Scenario {
        nodes: 3,
        rows: 2,
        ..scenario("partitions: three nodes", three_nodes)
    };
    let parking = Scenario {
        rows: 2,
        ..scenario("partitions: parking", parking)
    };
    let parking_cursors = Scenario {
        rows: 2,
        ..scenario("partitions: parking, empty batches", parking_cursors)
    };
    vec![
        (takeover, 16_427),
        (scenario("partitions: sleepers", sleepers), 135_535),
        (scenario("partitions: lapses", lapses), 58_219),
        (three_nodes, 195_628),
        (scenario("partitions: empty batches", empty_batches), 76_059),
        (scenario("partitions: control failover", control), 46_526),
        (failover("partitions: failover", true), 74_641),
        (parking, 28_623),
        (
            scenario("partitions: parking, sleepers", parking_sleepers),
            81_089,
        ),
        (
            scenario("partitions: parking, lapses", parking_lapses),
            32_613,
        ),
        (parking_cursors, 84_087),
    ]
}

/// Scenarios that take longer: more of everything.
pub fn large() -> Vec<Scenario> {
    let many_faults = Faults {
        crashes: 1,
        lost_replies: 1,
        duplicates: 1,
        lease_ends: 1,
        ..NONE
    };
    let two_deaths = Faults {
        crashes: 2,
        lease_ends: 1,
        ..NONE
    };
    let two_deaths = Scenario {
        nodes: 3,
        rows: 2,
        ..scenario("partitions: two deaths", two_deaths)
    };
    let empty_batches = Faults {
        crashes: 1,
        lease_ends: 1,
        empty_batches: 2,
        ..NONE
    };
    let mut scenarios = vec![
        scenario("partitions: many faults", many_faults),
        two_deaths,
        scenario("partitions: many empty batches", empty_batches),
    ];
    scenarios.extend(large_parking());
    scenarios
}

fn large_parking() -> Vec<Scenario> {
    let faults = Faults {
        crashes: 1,
        lost_replies: 1,
        lease_ends: 1,
        stalls: 1,
        ..NONE
    };
    let repeats = Faults {
        lost_replies: 1,
        duplicates: 1,
        lease_ends: 1,
        stalls: 1,
        ..NONE
    };
    let two_stalls = Faults {
        crashes: 1,
        lapses: 1,
        stalls: 2,
        ..NONE
    };
    let empty_batches = Faults {
        crashes: 1,
        empty_batches: 2,
        stalls: 1,
        ..NONE
    };
    let control = Faults {
        lost_replies: 1,
        control_failovers: 1,
        stalls: 1,
        ..NONE
    };
    let failover = Faults {
        lost_replies: 1,
        lease_ends: 1,
        stalls: 1,
        failovers: 1,
        ..NONE
    };
    let confirms = |scenario| Scenario {
        confirms: true,
        ..scenario
    };
    let scenarios = [
        scenario("partitions: parking, many faults", faults),
        scenario("partitions: parking, repeats", repeats),
        scenario("partitions: parking, two stalls", two_stalls),
        scenario("partitions: parking, many empty batches", empty_batches),
        scenario("partitions: parking, control failover", control),
        confirms(scenario("partitions: parking, failover", failover)),
    ];
    let two_rows = |scenario| Scenario {
        rows: 2,
        ..scenario
    };
    let lost_replies = Faults {
        lease_ends: 0,
        ..faults
    };
    let three_rows = scenario("partitions: parking, three rows", lost_replies);
    let scenarios = scenarios.into_iter().map(two_rows);
    scenarios.chain([three_rows]).collect()
}

/// The scenario in which a flaw must show, with that flaw, and the properties that must notice it.
pub fn with(flaw: Flaw) -> (Scenario, &'static [&'static str]) {
    use property::*;
    let (name, noticed): (_, &[_]) = match flaw {
        Flaw::PublishesBeforeSealed => ("partitions: sleepers", &[ONE_GENERATOR, NO_ROW_TWICE]),
        Flaw::SkipsSecondSeal => ("partitions: sleepers", &[ONE_GENERATOR, NO_ROW_TWICE]),
        Flaw::NumbersFromOther => (
            "partitions: takeover",
            &[OWN_NUMBERS, TRUE_ANSWERS, NO_ROW_MISSING],
        ),
        Flaw::PositionOfFirst => ("partitions: takeover", &[NEWEST_POSITION, NO_ROW_TWICE]),
        Flaw::ChangesEarly => ("partitions: takeover", &[NEWEST_POSITION, NO_ROW_MISSING]),
        Flaw::CountsOwnOnly => ("partitions: takeover", &[TRUE_COUNT]),
        Flaw::OrdersByMessages => ("partitions: empty batches", &[NEWEST_POSITION]),
        Flaw::FencedGoesOn => ("partitions: sleepers", &[NO_ROW_TWICE]),
        Flaw::SealsUnderSameEpoch => ("partitions: control failover", &[LIVENESS]),
        Flaw::SealUnconfirmed => (
            "partitions: failover",
            &[ONE_GENERATOR, NO_ROW_TWICE, NO_ROW_MISSING],
        ),
        Flaw::ChangesUnconfirmed => ("partitions: failover", &[NO_ROW_MISSING]),
        Flaw::GoesOnUnparked => ("partitions: parking", &[NO_ROW_MISSING]),
        Flaw::ParksSome => ("partitions: parking, sleepers", &[NO_ROW_MISSING]),
        Flaw::IgnoresParked => (
            "partitions: parking, sleepers",
            &[NEWEST_POSITION, NO_ROW_TWICE, NO_ROW_MISSING],
        ),
        Flaw::RenumbersParked => ("partitions: parking", &[NO_ROW_TWICE]),
        Flaw::RemovesEarly => ("partitions: parking", &[NO_ROW_MISSING]),
        Flaw::CursorRemovesCopy => ("partitions: parking, empty batches", &[NO_ROW_MISSING]),
        Flaw::ReadsParkedEarly => (
            "partitions: parking, sleepers",
            &[NEWEST_POSITION, NO_ROW_TWICE, NO_ROW_MISSING],
        ),
        Flaw::ReopensBeforeParked => ("partitions: parking", &[NO_ROW_TWICE]),
        Flaw::StoredGoesBack => ("partitions: parking", &[NO_ROW_TWICE]),
        Flaw::GoesOnBesideKept => ("partitions: lapses", &[NO_ROW_MISSING]),
        Flaw::Script(ScriptFlaw::NumbersWithHoles) => ("partitions: takeover", &[GAPLESS]),
        Flaw::Script(ScriptFlaw::EpochOnlyFence) => {
            ("partitions: control failover", &[ONE_PUBLISHER])
        }
        Flaw::Script(ScriptFlaw::ParkUnfenced) => {
            ("partitions: parking, sleepers", &[NO_ROW_TWICE])
        }
        Flaw::Script(_) => ("partitions: sleepers", &[ONE_GENERATOR]),
    };
    let scenarios = small().into_iter().map(|(scenario, _)| scenario);
    let mut wanted = scenarios.filter(|scenario| scenario.name == name);
    let scenario = Scenario {
        check_liveness: noticed.contains(&LIVENESS),
        flaw: Some(flaw),
        ..wanted.next().unwrap_or_default()
    };
    (scenario, noticed)
}
