//! The settings that are explored: each with the faults that matter to it, small enough to be
//! finished.

use crate::explore::{Fate, Setting};
use crate::flaw::Flaw;

/// A setting without limits to the queue.
fn setting(name: &'static str, fate: Fate) -> Setting {
    Setting {
        name,
        max_open: u64::MAX,
        want: 2,
        fate,
        ..Setting::default()
    }
}

/// Two nodes that generate two messages.
fn generators(name: &'static str, fate: Fate) -> Setting {
    Setting {
        generators: 2,
        texts: 2,
        ..setting(name, fate)
    }
}

/// Two nodes that work on given packs.
fn workers(name: &'static str, given: &[u64], fate: Fate) -> Setting {
    Setting {
        workers: 2,
        given: given.to_vec(),
        ..setting(name, fate)
    }
}

/// Four nodes that work on a message, of which three die.
fn killers(name: &'static str) -> Setting {
    let fate = Fate {
        crashes: 3,
        cuts: 1,
        waits: 1,
        ..Fate::default()
    };
    Setting {
        workers: 4,
        in_turn: true,
        given: vec![1],
        ..setting(name, fate)
    }
}

/// What every test run explores, with the number of states of each. Another number means that
/// the protocol, or a client's way with it, is another.
pub fn small() -> Vec<(Setting, usize)> {
    let takeover = Fate {
        crashes: 1,
        silences: 1,
        twins: 1,
        lapses: 1,
        ..Fate::default()
    };
    let deaths = Fate {
        crashes: 1,
        cuts: 1,
        lapses: 1,
        ..Fate::default()
    };
    let clocks = Fate {
        silences: 1,
        cuts: 1,
        jumps: 1,
        ..Fate::default()
    };
    let failover = Fate {
        failovers: 1,
        ..Fate::default()
    };
    let work = Fate {
        crashes: 1,
        silences: 1,
        jumps: 1,
        ..Fate::default()
    };
    let twins = Fate {
        twins: 1,
        cuts: 1,
        ..Fate::default()
    };
    let returns = Fate {
        twins: 1,
        cuts: 1,
        returns: 1,
        ..Fate::default()
    };
    let singles = Fate {
        twins: 1,
        singles: 2,
        ..Fate::default()
    };
    let drains = Fate {
        silences: 1,
        twins: 1,
        returns: 1,
        ..Fate::default()
    };
    let settles = Fate {
        settles: 2,
        twins: 1,
        ..Fate::default()
    };
    let deaths_at_work = Fate {
        crashes: 1,
        returns: 1,
        ..Fate::default()
    };
    let restart = Fate {
        crashes: 1,
        silences: 1,
        restarts: 1,
        ..Fate::default()
    };
    let lapse = Fate {
        crashes: 1,
        lapses: 1,
        ..Fate::default()
    };
    let wrong_clock = Fate {
        crashes: 2,
        restarts: 1,
        days: 2,
        ..Fate::default()
    };
    vec![
        (
            Setting {
                texts: 3,
                max_open: 2,
                ..generators("takeover", takeover)
            },
            168_667,
        ),
        (generators("deaths", deaths), 33_394),
        (generators("clocks", clocks), 62_812),
        (
            Setting {
                workers: 1,
                ..generators("failover", failover)
            },
            169_398,
        ),
        (
            Setting {
                failing: true,
                ..workers("work", &[2], work)
            },
            149_881,
        ),
        (workers("twins", &[2, 1], twins), 88_122),
        (workers("returns", &[2], returns), 71_450),
        (
            Setting {
                want: 3,
                ..workers("singles", &[3], singles)
            },
            4_226,
        ),
        (
            Setting {
                last_words_lost: true,
                ..killers("poison")
            },
            74_806,
        ),
        (
            Setting {
                workers: 1,
                drains: 2,
                given: vec![2],
                failing: true,
                ..setting("drains", drains)
            },
            157_115,
        ),
        (
            Setting {
                workers: 1,
                drains: 1,
                given: vec![2],
                failing: true,
                ..setting("settles", settles)
            },
            66_044,
        ),
        (
            Setting {
                failing: true,
                to_the_end: true,
                ..workers("work, to the end", &[3], deaths_at_work)
            },
            160_284,
        ),
        (
            Setting {
                generators: 1,
                workers: 1,
                texts: 2,
                failing: true,
                to_the_end: true,
                ..setting("restart, to the end", restart)
            },
            66_486,
        ),
        (
            Setting {
                workers: 1,
                to_the_end: true,
                ..generators("lapse, to the end", lapse)
            },
            27_595,
        ),
        (
            Setting {
                generators: 1,
                workers: 1,
                texts: 1,
                to_the_end: true,
                ..setting("clock set right, to the end", wrong_clock)
            },
            87_209,
        ),
    ]
}

/// The setting in which a flaw must show, with that flaw.
pub fn with(flaw: Flaw) -> Setting {
    let name = match flaw {
        Flaw::NoFence | Flaw::NumbersWithHoles | Flaw::CursorNotKept => "takeover",
        Flaw::RetryUnderNewNumber => "takeover",
        Flaw::EpochOnlyFence => "failover",
        Flaw::ClaimLeavesQueue | Flaw::CommitKeepsClaim | Flaw::ReclaimLeavesClaim => "work",
        Flaw::CommitForgets | Flaw::CommitUnheard => "work",
        Flaw::CommitDropsPack | Flaw::CommitEndsAll => "returns",
        Flaw::CommitAnyClaim => "twins",
        Flaw::CommitAnyRange => "singles",
        Flaw::ForgetSuspects | Flaw::BlameTheLiving => "poison",
        Flaw::BelieveFarFuture => "clock set right, to the end",
        Flaw::DrainWithoutClaim | Flaw::DrainTakesHeld | Flaw::DrainDropsRest => "drains",
        Flaw::SettleTakesHeld
        | Flaw::RetryKeepsRecord
        | Flaw::RetryUncounted
        | Flaw::RetryOutnumbersPack => "settles",
    };
    let settings = small().into_iter().map(|(setting, _)| setting);
    let mut wanted = settings.filter(|setting| setting.name == name);
    Setting {
        flaw: Some(flaw),
        ..wanted.next().unwrap_or_default()
    }
}

/// What takes minutes: more of everything.
pub fn large() -> Vec<Setting> {
    let storm = Fate {
        crashes: 1,
        silences: 1,
        cuts: 1,
        jumps: 1,
        lapses: 1,
        ..Fate::default()
    };
    let work = Fate {
        crashes: 1,
        silences: 1,
        jumps: 1,
        returns: 1,
        ..Fate::default()
    };
    let drains = Fate {
        crashes: 1,
        twins: 1,
        jumps: 1,
        ..Fate::default()
    };
    let settles = Fate {
        settles: 2,
        twins: 1,
        silences: 1,
        ..Fate::default()
    };
    let failover = Fate {
        failovers: 1,
        silences: 1,
        lapses: 1,
        ..Fate::default()
    };
    vec![
        generators("storm over generators", storm),
        Setting {
            failing: true,
            ..workers("storm over workers", &[2], work)
        },
        Setting {
            workers: 1,
            drains: 2,
            given: vec![2],
            failing: true,
            ..setting("storm over drains", drains)
        },
        Setting {
            workers: 1,
            drains: 1,
            given: vec![2],
            failing: true,
            ..setting("storm over what is settled", settles)
        },
        Setting {
            workers: 1,
            ..generators("failover in a storm", failover)
        },
        killers("poison, with the last words of the dead"),
        Setting {
            generators: 2,
            workers: 1,
            texts: 2,
            to_the_end: true,
            ..setting(
                "all roles, to the end",
                Fate {
                    crashes: 1,
                    silences: 1,
                    jumps: 1,
                    ..Fate::default()
                },
            )
        },
    ]
}
