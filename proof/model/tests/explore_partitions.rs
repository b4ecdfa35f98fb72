//! Explores a fleet with two partitions in full; and with each flaw, until the flaw shows.

use baton_model::explore::Report;
use baton_model::partitions::{Flaw, explore, explore_until, small, unconfirmed, with};

#[test]
fn two_partitions_hold_in_every_state_that_can_be_reached() {
    let mut total = 0;
    for (scenario, states) in small() {
        let report = explore(scenario);
        println!("{report}");
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.states, states, "states of {}", report.name);
        total += states;
    }
    println!("{total} states in all");
}

#[test]
fn every_flaw_of_a_fleet_with_partitions_shows() {
    for flaw in Flaw::ALL {
        let (scenario, noticed) = with(flaw);
        let report = explore_until(scenario, noticed);
        println!("{flaw:?}: {}", report.to_string().replace('\n', "\n  "));
        let unnoticed = unbroken(&report, noticed);
        assert!(unnoticed.is_empty(), "with {flaw:?}, always {unnoticed:?}");
    }
}

/// A single partition forgets its last messages together with its fence and its cursor. Of two, the
/// other one remembers. If this test fails, docs/testing.md promises too little.
#[test]
fn a_partition_that_forgets_unconfirmed_writes_breaks_what_one_partition_keeps() {
    let (scenario, broken) = unconfirmed();
    let report = explore_until(scenario, broken);
    println!("{report}");
    let kept = unbroken(&report, broken);
    assert!(kept.is_empty(), "always {kept:?}");
}

/// Those of the properties that nothing broke.
fn unbroken<'a>(report: &Report, properties: &[&'a str]) -> Vec<&'a str> {
    let is_broken = |name: &str| report.broken.iter().any(|it| it.starts_with(name));
    let unbroken = properties.iter().filter(|name| !is_broken(name));
    unbroken.copied().collect()
}
