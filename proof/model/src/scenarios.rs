//! The scenarios that are explored: each has the faults that matter to it, and is small enough to
//! be explored in full.

mod delays;
mod handed;
mod pauses;
mod regressions;

use crate::explore::{Faults, Scenario};
use crate::flaw::Flaw;

/// No fault at all.
const NONE: Faults = Faults::NONE;

/// A scenario without backpressure.
fn scenario(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        name,
        max_open: u64::MAX,
        want: 2,
        faults,
        ..Scenario::default()
    }
}

/// Two nodes that generate the messages of two rows.
fn generators(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        generators: 2,
        rows: 2,
        ..scenario(name, faults)
    }
}

/// Two nodes that generate the messages of three rows, of which two may be open.
fn takeovers(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        rows: 3,
        max_open: 2,
        ..generators(name, faults)
    }
}

/// Two nodes that stage the packs of two rows.
fn staged(name: &'static str, faults: Faults) -> Scenario {
    Scenario {
        stages_packs: true,
        ..generators(name, faults)
    }
}

/// Two nodes that work on given packs.
fn workers(name: &'static str, given: &[u64], faults: Faults) -> Scenario {
    Scenario {
        workers: 2,
        given: given.to_vec(),
        ..scenario(name, faults)
    }
}

/// One worker, whose two messages may fail, and drains.
fn drains(name: &'static str, drains: u8, faults: Faults) -> Scenario {
    Scenario {
        workers: 1,
        drains,
        given: vec![2],
        failing: true,
        ..scenario(name, faults)
    }
}

/// Four nodes that work on one message, of which three die.
fn killers(name: &'static str) -> Scenario {
    let faults = Faults {
        crashes: 3,
        disconnects: 1,
        long_waits: 1,
        ..NONE
    };
    Scenario {
        workers: 4,
        in_turn: true,
        given: vec![1],
        ..scenario(name, faults)
    }
}

/// The scenarios of every test run, each with its number of states. Another number means that the
/// protocol, or a client of it, has changed.
pub fn small() -> Vec<(Scenario, usize)> {
    let mut scenarios = of_generators();
    scenarios.extend(of_staging());
    scenarios.extend(regressions::with_faults());
    scenarios.extend(of_workers());
    scenarios.extend(pauses::with_faults());
    scenarios.extend(of_drains());
    scenarios.extend(delays::with_faults());
    scenarios.extend(handed::with_faults());
    scenarios.extend(to_the_end());
    scenarios.extend(delays::to_the_end());
    scenarios.extend(handed::to_the_end());
    scenarios.extend(pauses::to_the_end());
    scenarios.extend(regressions::to_the_end());
    scenarios
}

fn of_generators() -> Vec<(Scenario, usize)> {
    let takeover = Faults {
        crashes: 1,
        lost_replies: 1,
        duplicates: 1,
        ..NONE
    };
    let lapses = Faults {
        crashes: 1,
        lost_replies: 1,
        lease_lapses: 1,
        ..NONE
    };
    let deaths = Faults {
        crashes: 1,
        disconnects: 1,
        lease_lapses: 1,
        ..NONE
    };
    let clocks = Faults {
        lost_replies: 1,
        disconnects: 1,
        clock_jumps: 1,
        ..NONE
    };
    let failover = Faults {
        failovers: 1,
        ..NONE
    };
    let failover = Scenario {
        workers: 1,
        ..generators("failover", failover)
    };
    let late_failover = Faults {
        duplicates: 1,
        failovers: 1,
        ..NONE
    };
    let late_failover = Scenario {
        generators: 1,
        rows: 3,
        ..generators("failover, late publishes", late_failover)
    };
    let source_failures = Faults {
        lost_replies: 1,
        duplicates: 1,
        source_failures: 1,
        ..NONE
    };
    let source_failures = Scenario {
        generators: 1,
        rows: 3,
        ..generators("source failures", source_failures)
    };
    let empty_batches = Faults {
        crashes: 1,
        lost_replies: 1,
        duplicates: 1,
        empty_batches: 1,
        ..NONE
    };
    let empty_failover = Faults {
        failovers: 1,
        empty_batches: 1,
        ..NONE
    };
    vec![
        (takeovers("takeover", takeover), 41_985),
        (takeovers("lapses", lapses), 132_257),
        (generators("deaths", deaths), 105_054),
        (generators("clocks", clocks), 156_318),
        (failover, 332_180),
        (late_failover, 14_851),
        (source_failures, 2_760),
        (generators("empty batches", empty_batches), 79_129),
        (
            generators("empty batches, failover", empty_failover),
            86_530,
        ),
    ]
}

fn of_staging() -> Vec<(Scenario, usize)> {
    let staging = Faults {
        crashes: 1,
        lost_replies: 1,
        splits: 1,
        expiries: 1,
        ..NONE
    };
    let lapses = Faults {
        crashes: 0,
        lease_lapses: 1,
        ..staging
    };
    let failover = Faults {
        failovers: 1,
        splits: 1,
        ..NONE
    };
    let failover = Scenario {
        generators: 1,
        workers: 1,
        rows: 2,
        max_open: 1,
        stages_packs: true,
        ..scenario("staging, failover", failover)
    };
    vec![
        (staged("staging", staging), 33_205),
        (staged("staging, lapses", lapses), 55_661),
        (failover, 98_701),
    ]
}

fn of_workers() -> Vec<(Scenario, usize)> {
    let work = Faults {
        crashes: 1,
        lost_replies: 1,
        clock_jumps: 1,
        ..NONE
    };
    let duplicates = Faults {
        duplicates: 1,
        disconnects: 1,
        ..NONE
    };
    let give_backs = Faults {
        give_backs: 1,
        ..duplicates
    };
    let single_commits = Faults {
        duplicates: 1,
        single_commits: 2,
        ..NONE
    };
    let work = Scenario {
        failing: true,
        ..workers("work", &[2], work)
    };
    let single_commits = Scenario {
        want: 3,
        ..workers("single commits", &[3], single_commits)
    };
    let poison = Scenario {
        calls_die_with_node: true,
        ..killers("poison")
    };
    vec![
        (work, 149_881),
        (workers("duplicates", &[2, 1], duplicates), 88_122),
        (workers("give-backs", &[2], give_backs), 71_450),
        (single_commits, 4_226),
        (poison, 74_806),
    ]
}

fn of_drains() -> Vec<(Scenario, usize)> {
    let two_drains = Faults {
        lost_replies: 1,
        duplicates: 1,
        give_backs: 1,
        ..NONE
    };
    let settles = Faults {
        settles: 2,
        duplicates: 1,
        ..NONE
    };
    vec![
        (drains("drains", 2, two_drains), 157_115),
        (drains("settles", 1, settles), 66_044),
    ]
}

/// Scenarios that also check liveness.
fn to_the_end() -> Vec<(Scenario, usize)> {
    let work = Faults {
        crashes: 1,
        give_backs: 1,
        ..NONE
    };
    let restart = Faults {
        crashes: 1,
        lost_replies: 1,
        restarts: 1,
        ..NONE
    };
    let lapse = Faults {
        crashes: 1,
        lease_lapses: 1,
        ..NONE
    };
    let wrong_clock = Faults {
        crashes: 2,
        restarts: 1,
        day_jumps: 2,
        ..NONE
    };
    let work = Scenario {
        failing: true,
        ..workers("work, to the end", &[3], work)
    };
    let restart = Scenario {
        generators: 1,
        workers: 1,
        rows: 2,
        failing: true,
        ..scenario("restart, to the end", restart)
    };
    let lapse = Scenario {
        workers: 1,
        ..generators("lapse, to the end", lapse)
    };
    let staging = Faults {
        lost_replies: 1,
        splits: 1,
        expiries: 1,
        ..NONE
    };
    let staging = Scenario {
        generators: 1,
        workers: 1,
        rows: 3,
        max_open: 2,
        stages_packs: true,
        ..scenario("staging, to the end", staging)
    };
    let wrong_clock = Scenario {
        generators: 1,
        workers: 1,
        rows: 1,
        ..scenario("clock set right, to the end", wrong_clock)
    };
    let declining = Faults {
        crashes: 1,
        disconnects: 1,
        declines: 1,
        ..NONE
    };
    let declining = Scenario {
        workers: 1,
        rows: 1,
        ..generators("declining, to the end", declining)
    };
    [
        (declining, 32_049),
        (work, 160_284),
        (restart, 86_332),
        (lapse, 60_205),
        (staging, 46_978),
        (wrong_clock, 102_351),
    ]
    .map(|(scenario, states)| (with_liveness(scenario), states))
    .into()
}

fn with_liveness(scenario: Scenario) -> Scenario {
    Scenario {
        check_liveness: true,
        ..scenario
    }
}

/// The scenario in which a flaw must show, with that flaw.
pub fn with(flaw: Flaw) -> Scenario {
    let name = match flaw {
        Flaw::NoFence | Flaw::NumbersWithHoles => "takeover",
        Flaw::CursorNotKept | Flaw::CursorWithoutPack | Flaw::SealForgetsCursor => "takeover",
        Flaw::PublishWhilePaused | Flaw::CursorWhilePaused | Flaw::SealEndsPause => "pauses",
        Flaw::ClaimWhilePaused => "pauses, to the end",
        Flaw::HandsOutOfTurn | Flaw::HandsWhilePaused => "handed to two",
        Flaw::HandsUnclaimed
        | Flaw::HandsWithoutRest
        | Flaw::HandsOverAnother
        | Flaw::HandsToTheAbsent => "handed, lost rings",
        Flaw::CursorGoesBack => "empty batches",
        Flaw::AcceptedGoesBack => "source failures",
        Flaw::DeclinerTakesLease | Flaw::DeclinerKeepsLease => "declining, to the end",
        Flaw::RetryUnderNewNumber => "takeover",
        Flaw::EpochOnlyFence | Flaw::GapRenumbers => "failover",
        Flaw::OpensUnderOldEpoch => "failover, late publishes",
        Flaw::StageByNumber => "staging, failover",
        Flaw::SendsUnconfirmed
        | Flaw::KnownNotKept
        | Flaw::SealForgetsKnown
        | Flaw::VoidUnfenced => "the holder's wait",
        Flaw::NumbersGivenAgain | Flaw::VoidUncounted | Flaw::VoidLeavesLast => "void",
        Flaw::VoidsKept | Flaw::KeptOutOfOrder | Flaw::VoidTakesRoom | Flaw::VoidWithHoles => {
            "void"
        }
        Flaw::KnowsOnlyOnce => "void, again",
        Flaw::VoidWhilePaused => "void, lost answers",
        Flaw::NoWaitForHolder => "the holder's wait",
        Flaw::WaitsForEver => "restart, to the end",
        Flaw::WaitConfirmsNothing | Flaw::ConfirmsTooMuch => "confirmed publishes",
        Flaw::ConfirmsAcrossFailover => "confirmed commits",
        Flaw::NameWithoutPromotion => "failover and back",
        Flaw::ClaimLeavesQueue | Flaw::CommitKeepsClaim | Flaw::ReclaimLeavesClaim => "work",
        Flaw::CommitForgets | Flaw::CommitUnheard => "work",
        Flaw::EmptyNotIdle | Flaw::RingTheDead => "work",
        Flaw::ParkUnfenced | Flaw::ParkKeepsRemoved => "work",
        Flaw::CommitDropsPack | Flaw::CommitEndsAll => "give-backs",
        Flaw::CommitAnyClaim => "duplicates",
        Flaw::CommitAnyRange => "single commits",
        Flaw::ForgetSuspects | Flaw::BlameTheLiving => "poison",
        Flaw::BelieveFarFuture => "clock set right, to the end",
        Flaw::DrainWithoutClaim | Flaw::DrainTakesHeld | Flaw::DrainDropsRest => "drains",
        Flaw::DelayedIsDone
        | Flaw::DelayedLeavesItsPack
        | Flaw::DelayedLeavesTwice
        | Flaw::DelayedWithoutPack
        | Flaw::DelayUncounted
        | Flaw::DelayWithoutNote
        | Flaw::EndKeepsNote
        | Flaw::WakeKeepsDelayed
        | Flaw::WakeEarly => "delays",
        Flaw::PoisonKeepsNote | Flaw::PoisonForgetsReason => "delays, poison",
        Flaw::KeepGivesBackTooMuch | Flaw::KeepKeepsAll => "shrinking",
        Flaw::RetryForgetsOrigin
        | Flaw::SettleTakesHeld
        | Flaw::RetryKeepsRecord
        | Flaw::RetryUncounted
        | Flaw::RetryOutnumbersPack => "settles",
    };
    let scenarios = small().into_iter().map(|(scenario, _)| scenario);
    let mut wanted = scenarios.filter(|scenario| scenario.name == name);
    Scenario {
        flaw: Some(flaw),
        ..wanted.next().unwrap_or_default()
    }
}

/// Scenarios that take minutes: more of everything.
pub fn large() -> Vec<Scenario> {
    let of_generators = Faults {
        crashes: 1,
        lost_replies: 1,
        disconnects: 1,
        clock_jumps: 1,
        lease_lapses: 1,
        ..NONE
    };
    let of_workers = Faults {
        crashes: 1,
        lost_replies: 1,
        clock_jumps: 1,
        give_backs: 1,
        ..NONE
    };
    let of_delays = Faults {
        duplicates: 1,
        ..NONE
    };
    let of_drains = Faults {
        crashes: 1,
        duplicates: 1,
        clock_jumps: 1,
        ..NONE
    };
    let settles = Faults {
        settles: 2,
        duplicates: 1,
        lost_replies: 1,
        ..NONE
    };
    let failover = Faults {
        failovers: 1,
        lost_replies: 1,
        lease_lapses: 1,
        ..NONE
    };
    let all_roles = Faults {
        crashes: 1,
        lost_replies: 1,
        clock_jumps: 1,
        ..NONE
    };
    let of_takeovers = Faults {
        crashes: 1,
        lost_replies: 1,
        duplicates: 1,
        lease_lapses: 1,
        ..NONE
    };
    let of_staging = Faults {
        crashes: 1,
        lost_replies: 1,
        lease_lapses: 1,
        splits: 1,
        expiries: 1,
        ..NONE
    };
    let mut scenarios = vec![
        Scenario {
            rows: 1,
            ..generators("many faults of generators", of_generators)
        },
        takeovers("many faults of takeovers", of_takeovers),
        staged("many faults of staging", of_staging),
        Scenario {
            failing: true,
            ..workers("many faults of workers", &[2], of_workers)
        },
        Scenario {
            attempts: 3,
            ..workers("many delays", &[2], of_delays)
        },
        drains("many faults of drains", 2, of_drains),
        drains("many faults of settles", 1, settles),
        generators("failover and other faults", failover),
        killers("poison, with late calls of the dead"),
        with_liveness(Scenario {
            workers: 1,
            ..generators("all roles, to the end", all_roles)
        }),
    ];
    scenarios.extend(regressions::large());
    scenarios
}
