//! Explores the model in full; and with each flaw, until the flaw shows.

use baton_model::explore::explore;
use baton_model::flaw::Flaw;
use baton_model::scenarios;

/// Fewer states in all would not be the same proof.
const MIN_STATES: usize = 1_000_000;

#[test]
fn the_protocol_holds_in_every_state_that_can_be_reached() {
    let mut total = 0;
    for (scenario, states) in scenarios::small() {
        let report = explore(scenario);
        println!("{report}");
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.states, states, "states of {}", report.name);
        total += states;
    }
    assert!(total >= MIN_STATES, "only {total} states in all");
    println!("{total} states in all");
}

#[test]
fn every_flaw_shows() {
    for flaw in Flaw::ALL {
        let report = explore(scenarios::with(flaw));
        println!("{flaw:?}: {}", report.to_string().replace('\n', "\n  "));
        assert!(!report.is_clean(), "no property noticed {flaw:?}");
    }
}
