//! The protocol's model, explored in full; and with each flaw, until the flaw shows.

use baton_model::explore::{Setting, explore};
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

/// The setting in which a flaw must show.
fn where_it_shows(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::NoFence | Flaw::NumbersWithHoles | Flaw::CursorNotKept => "takeover",
        Flaw::RetryUnderNewNumber => "takeover",
        Flaw::EpochOnlyFence => "failover",
        Flaw::ClaimLeavesQueue | Flaw::CommitKeepsClaim | Flaw::ReclaimLeavesClaim => "work",
        Flaw::CommitForgets | Flaw::CommitUnheard => "work",
        Flaw::CommitDropsPack | Flaw::CommitEndsAll => "returns",
        Flaw::CommitAnyClaim => "twins",
        Flaw::CommitAnyRange => "singles",
        Flaw::ReclaimWithoutBlame => "poison",
        Flaw::DrainWithoutClaim | Flaw::DrainDropsRest => "drains",
    }
}

fn with_flaw(flaw: Flaw) -> Setting {
    let mut settings = settings::small().into_iter().map(|(setting, _)| setting);
    let name = where_it_shows(flaw);
    let setting = settings.find(|setting| setting.name == name);
    Setting {
        flaw: Some(flaw),
        ..setting.unwrap()
    }
}

#[test]
fn every_flaw_shows() {
    for flaw in Flaw::ALL {
        let report = explore(with_flaw(flaw));
        println!("{flaw:?}: {}", report.to_string().replace('\n', "\n  "));
        assert!(!report.is_clean(), "nobody noticed {flaw:?}");
    }
}
