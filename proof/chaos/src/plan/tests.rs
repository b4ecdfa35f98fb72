//! The promises of a plan: every kind comes, the same for a seed, and no two that must not meet.

use std::collections::HashMap;

use super::*;

/// About what ten minutes have.
const TEN_MINUTES: usize = 240;

const RUNS: [Setup; 7] = [
    setup(Topology::Single, HandlerKind::Pretended, SourceKind::Random),
    setup(Topology::Single, HandlerKind::Pretended, SourceKind::Rows),
    setup(Topology::Single, HandlerKind::Exec, SourceKind::Random),
    setup(Topology::Single, HandlerKind::Push, SourceKind::Rows),
    GROUP,
    CLUSTER,
    Setup {
        partitions: 1,
        ..CLUSTER
    },
];
const GROUP: Setup = setup(
    Topology::Sentinel,
    HandlerKind::Pretended,
    SourceKind::Random,
);

const CLUSTER: Setup = setup(
    Topology::Cluster,
    HandlerKind::Pretended,
    SourceKind::Random,
);

const fn setup(topology: Topology, handler: HandlerKind, source: SourceKind) -> Setup {
    let partitions = match topology {
        Topology::Single | Topology::Sentinel => 1,
        Topology::Cluster => 16,
    };
    Setup {
        topology,
        partitions,
        handler,
        source,
    }
}

fn counts(seed: u64, setup: Setup) -> HashMap<Kind, usize> {
    let mut counts = HashMap::new();
    let faults = Plan::new(seed, setup, &[])
        .flat_map(|step| step.faults)
        .take(TEN_MINUTES);
    faults.for_each(|fault| *counts.entry(fault.kind).or_default() += 1);
    counts
}

#[test]
fn every_kind_is_in_the_table_once_under_a_name_of_its_own() {
    let mut names: Vec<&str> = KINDS.iter().map(|facts| facts.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), KINDS.len());
    for facts in KINDS {
        assert_eq!(facts.kind.facts().name, facts.name);
        assert_eq!(Kind::named(facts.name), Some(facts.kind));
    }
    assert_eq!(KINDS.len(), Kind::ScaleOut as usize + 1);
}

#[test]
fn the_same_seed_makes_the_same_plan_and_another_seed_another() {
    let plan = |seed| {
        let plan = Plan::new(seed, Setup::default(), &[]);
        plan.take(100).collect::<Vec<_>>()
    };
    assert_eq!(plan(7), plan(7));
    assert_ne!(plan(7), plan(8));
}

#[test]
fn ten_minutes_have_every_kind_three_times_whatever_the_seed() {
    for (seed, setup) in (0..200).flat_map(|seed| RUNS.map(|run| (seed, run))) {
        let counts = counts(seed, setup);
        for facts in KINDS {
            let times = counts.get(&facts.kind).copied().unwrap_or_default();
            let name = facts.name;
            match facts.misses(setup) {
                None => assert!(times >= 3, "seed {seed}: {name} only {times} times"),
                Some(_) => assert_eq!(times, 0, "seed {seed}: {name} with {setup:?}"),
            }
        }
    }
}

#[test]
fn some_faults_overlap_and_the_ones_that_must_be_alone_are() {
    let all = setup(Topology::Single, HandlerKind::Exec, SourceKind::Rows);
    for setup in [all, GROUP, CLUSTER] {
        pairs_mix(setup);
    }
}

fn pairs_mix(setup: Setup) {
    let steps: Vec<Step> = Plan::new(3, setup, &[]).take(1000).collect();
    let pairs = steps
        .iter()
        .map(|step| &step.faults)
        .filter(|faults| faults.len() == 2);
    let pairs: Vec<&Vec<Planned>> = pairs.collect();
    assert!((100..300).contains(&pairs.len()), "{}", pairs.len());
    for pair in pairs {
        assert!(pair.iter().all(|fault| fault.kind.facts().with_others));
        assert_ne!(pair[0].kind, pair[1].kind);
        assert!(!pair.iter().all(|fault| fault.kind.facts().is_of_group()));
    }
}

#[test]
fn the_plan_of_a_group_begins_with_a_lossy_failover_whatever_the_seed() {
    for (seed, setup) in (0..20).flat_map(|seed| [(seed, GROUP), (seed, CLUSTER)]) {
        let first = Plan::new(seed, setup, &[]).next().unwrap();
        assert_eq!(first.faults[0].kind, Kind::Lossy);
    }
}

#[test]
fn a_plan_of_some_kinds_has_no_others() {
    let only = [Kind::KillAll, Kind::Cut];
    let faults = Plan::new(1, Setup::default(), &only).flat_map(|step| step.faults);
    let faults: Vec<Planned> = faults.take(50).collect();
    assert!(faults.iter().all(|fault| only.contains(&fault.kind)));
    assert!(
        only.iter()
            .all(|kind| faults.iter().any(|fault| fault.kind == *kind))
    );
}
