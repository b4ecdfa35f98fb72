//! The protocol's model, explored in full; and with each flaw, until the flaw shows.

use baton_model::explore::explore;
use baton_model::flaw::Flaw;
use baton_model::settings;

/// At least so many states are looked at, or it is not the model that it was.
const LEAST_STATES: usize = 1_000_000;

#[test]
fn the_protocol_holds_in_every_state_that_can_be_reached() {
    let mut total = 0;
    for (setting, states) in settings::small() {
        let report = explore(setting);
        println!("{report}");
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.states, states, "states of {}", report.name);
        total += states;
    }
    assert!(total >= LEAST_STATES, "only {total} states in all");
    println!("{total} states in all");
}

#[test]
fn every_flaw_shows() {
    for flaw in Flaw::ALL {
        let report = explore(settings::with(flaw));
        println!("{flaw:?}: {}", report.to_string().replace('\n', "\n  "));
        assert!(!report.is_clean(), "nobody noticed {flaw:?}");
    }
}
