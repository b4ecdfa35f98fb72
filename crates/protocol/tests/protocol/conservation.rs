//! Conservation: two generators, three lanes, a drain and a vandal take steps in random order. After
//! each step every message is in exactly one place; at the end it has exactly one outcome.

mod books;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::world::World;

/// How many sequences of steps are tried, unless `PROPTEST_CASES` says otherwise.
const CASES: u32 = 64;

/// One step. Generators are 0 and 1, lanes 0, 1 and 2. With the slots in which their nodes get messages
/// when they are published there are six slots.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A generator gets the next epoch and seals.
    TakeOver(usize),
    /// It seals once more with the epoch it had.
    SealAgain(usize),
    /// It seals with the epoch of the other one.
    SealAsTwin(usize),
    /// It publishes so many messages.
    Publish(usize, u64),
    /// It repeats its last publish.
    PublishAgain(usize),
    /// It leaves out a number.
    PublishAhead(usize),
    /// A lane claims at most so many messages.
    Claim(usize, u64),
    /// It repeats its last claim.
    ClaimAgain(usize),
    /// A slot commits at most so many of the messages that it believes to have claimed; the bits say
    /// which of them failed, and which of the others are to be tried again.
    Commit(usize, u64, u8, u8),
    /// It repeats its last commit.
    CommitAgain(usize),
    /// It commits the messages of the claim before its last.
    CommitOld(usize),
    /// It extends its claim.
    Extend(usize),
    /// It gives back its claim.
    GiveBack(usize),
    /// It keeps the first messages of its claim, up to so many behind the first.
    Keep(usize, u64),
    /// The deadline of one slot, or of the drain (6), passes.
    Stall(usize),
    /// A node returns the claims of the dead.
    Reclaim,
    /// Both at once.
    Crash(usize),
    /// The drain claims at most so many records.
    DrainClaim(u64),
    /// The drain has printed so many of them.
    DrainCommit(u64),
    /// The drain repeats its last commit.
    DrainCommitAgain,
    /// A person puts garbage into the queue.
    Vandalize,
}

/// Every answer that must occur at least once: otherwise the property proves nothing.
const SOMETIMES: [&str; 35] = [
    "seal sealed",
    "seal fenced",
    "publish ok",
    "publish already",
    "publish gap",
    "publish fenced",
    "publish full",
    "handed whole",
    "handed part",
    "claim claimed",
    "claim alone",
    "claim empty",
    "claim stale",
    "claim held",
    "commit done",
    "commit part",
    "commit already",
    "commit delayed",
    "commit lost",
    "commit full",
    "extend held",
    "extend lost",
    "give_back ok",
    "give_back lost",
    "keep ok",
    "keep lost",
    "reclaim messages",
    "reclaim records",
    "reclaim woken",
    "drain claimed",
    "drain stale",
    "drain done",
    "drain already",
    "drain lost",
    "poison",
];

fn step() -> impl Strategy<Value = Step> {
    let generator = 0..2_usize;
    let (lane, slot) = (0..3_usize, 0..6_usize);
    prop_oneof![
        2 => generator.clone().prop_map(Step::TakeOver),
        1 => generator.clone().prop_map(Step::SealAgain),
        1 => generator.clone().prop_map(Step::SealAsTwin),
        10 => (generator.clone(), 1..7_u64).prop_map(|(g, count)| Step::Publish(g, count)),
        2 => generator.clone().prop_map(Step::PublishAgain),
        1 => generator.prop_map(Step::PublishAhead),
        16 => (lane.clone(), 1..6_u64).prop_map(|(l, want)| Step::Claim(l, want)),
        4 => lane.prop_map(Step::ClaimAgain),
        14 => (slot.clone(), 1..6_u64, any::<u8>(), any::<u8>())
            .prop_map(|(l, most, failed, delayed)| Step::Commit(l, most, failed, delayed)),
        3 => slot.clone().prop_map(Step::CommitAgain),
        2 => slot.clone().prop_map(Step::CommitOld),
        2 => slot.clone().prop_map(Step::Extend),
        3 => slot.clone().prop_map(Step::GiveBack),
        3 => (slot, 0..4_u64).prop_map(|(l, behind)| Step::Keep(l, behind)),
        3 => (0..7_usize).prop_map(Step::Stall),
        3 => Just(Step::Reclaim),
        8 => (0..7_usize).prop_map(Step::Crash),
        3 => (1..5_u64).prop_map(Step::DrainClaim),
        3 => (0..5_u64).prop_map(Step::DrainCommit),
        1 => Just(Step::DrainCommitAgain),
        1 => Just(Step::Vandalize),
    ]
}

#[test]
fn every_message_has_exactly_one_outcome_whatever_happens() {
    let cases = std::env::var("PROPTEST_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let seen = RefCell::new(BTreeMap::new());
    let sequences = vec(step(), 1..160);
    let held = TestRunner::new(config).run(&sequences, |steps| {
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in &steps {
                world.take(step).await;
                world.check(step).await?;
            }
            world.finish().await?;
            for answer in world.seen {
                *seen.borrow_mut().entry(answer).or_insert(0_u64) += 1;
            }
            Ok(())
        })
    });
    if let Err(broken) = held {
        panic!("{broken}");
    }
    let seen = seen.into_inner();
    for answer in SOMETIMES {
        assert!(seen.contains_key(answer), "never {answer:?}: {seen:?}");
    }
}
