//! Compares the scripts with the model: random calls go to both, on every available server. After
//! each call the answers and the whole states must agree.
//!
//! `BATON_CONFORM_CALLS` is the number of calls in all, or `endless`; `BATON_CONFORM_SEED` is the seed
//! of the first sequence, which is random without it.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod chooser;
mod comparison;
mod coverage;
mod encoding;
mod event;
mod operation;
mod raw_connection;
mod real_calls;
mod real_fleet;
mod redis_state;
mod servers;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton_model::flaw::Flaw;
use baton_print::thousands;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use comparison::Comparison;
use coverage::Coverage;
use operation::{Sequence, sequences};
use real_fleet::{RealFleet, SequenceError};

/// Calls in all, unless the variable says otherwise.
const CALLS: u64 = 50_000;
/// With fewer calls, rare answers may be missing.
const ENOUGH_CALLS: u64 = 50_000;
/// Calls after which a flaw must have been found.
const FLAW_CALLS: u64 = 50_000;
/// How long a failing sequence is shrunk.
const SHRINK_TIME: Duration = Duration::from_secs(60);
/// Max stalled sequences of a server, beyond one in a hundred.
const MAX_STALLS: u64 = 10;
/// How often an endless test prints its progress.
const PROGRESS: Duration = Duration::from_secs(5);
/// Flaws of nodes and servers, not of scripts: no call can show them.
const NODE_FLAWS: [Flaw; 15] = [
    Flaw::RetryUnderNewNumber,
    Flaw::CommitUnheard,
    Flaw::GapRenumbers,
    Flaw::AcceptedGoesBack,
    Flaw::OpensUnderOldEpoch,
    Flaw::StageByNumber,
    Flaw::NumbersGivenAgain,
    Flaw::VoidsKept,
    Flaw::KeptOutOfOrder,
    Flaw::KnowsOnlyOnce,
    Flaw::SendsUnconfirmed,
    Flaw::WaitConfirmsNothing,
    Flaw::ConfirmsTooMuch,
    Flaw::ConfirmsAcrossFailover,
    Flaw::NameWithoutPromotion,
];

#[test]
fn every_server_does_what_the_model_does() {
    let calls = match std::env::var("BATON_CONFORM_CALLS").as_deref() {
        Ok("0" | "endless") => u64::MAX,
        Ok(calls) => calls.parse().expect("BATON_CONFORM_CALLS is a number"),
        Err(_) => CALLS,
    };
    let servers = servers::start_all();
    let share = calls.div_ceil(servers.len() as u64);
    let (made, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let results: Vec<ServerResult> = std::thread::scope(|scope| {
        let (first, stride) = (first_seed(), servers.len() as u64);
        let (made, stop) = (&made, &stop);
        // No sequence runs on two servers: together they hear more.
        let running: Vec<_> = (0..stride)
            .zip(&servers)
            .map(|(place, server)| {
                let seeds = (0..).map(move |n: u64| first.wrapping_add(place + n * stride));
                scope.spawn(move || check(&server.url(), seeds, place, share, made, stop))
            })
            .collect();
        if calls == u64::MAX {
            print_progress(made, stop);
        }
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|result| result.expect("a thread ended in good order"))
            .collect()
    });

    let mut coverage = Coverage::default();
    for result in &results {
        coverage.add(&result.coverage);
    }
    let on: Vec<String> = results.iter().map(ServerResult::summary).collect();
    print(&format!("conformance: {}\n", on.join(", ")));
    let failures: Vec<&str> = results
        .iter()
        .filter_map(|c| c.failure.as_deref())
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    for result in &results {
        let (stalled, all) = (result.stalled, result.sequences);
        assert!(
            stalled * 100 <= all,
            "{}: {stalled} of {all} sequences could not be judged, the last because {}",
            result.version,
            result.why_stalled,
        );
    }
    if coverage.calls >= ENOUGH_CALLS {
        let missing = coverage.missing();
        assert!(missing.is_empty(), "never heard: {missing:?}");
    }
}

#[test]
fn a_model_with_any_flaw_is_found_out() {
    let server = servers::start_one();
    let runtime = runtime();
    let mut found = Vec::new();
    for flaw in Flaw::ALL
        .into_iter()
        .chain(Flaw::COMPARED_ONLY)
        .filter(|flaw| !NODE_FLAWS.contains(flaw))
    {
        let real = runtime.block_on(RealFleet::connect(&server.url()));
        let mut comparison = Comparison::new(real.expect("the server answers"), Some(flaw));
        let mut coverage = Coverage::default();
        let mut seed = first_seed();
        loop {
            let sequence = tree(seed).current();
            match runtime.block_on(comparison.run(&sequence, &mut coverage)) {
                Err(SequenceError::Mismatch(_)) => break,
                // A stalled sequence cannot be judged.
                Ok(()) | Err(SequenceError::Stalled(_)) => seed = seed.wrapping_add(1),
            }
            assert!(coverage.calls < FLAW_CALLS, "{flaw:?} is not found");
        }
        found.push(format!("{flaw:?} {}", thousands(coverage.calls + 1)));
        // Without the flaw the same sequence must agree.
        comparison.flaw = None;
        let sound = runtime.block_on(comparison.run(&tree(seed).current(), &mut coverage));
        assert!(
            !matches!(sound, Err(SequenceError::Mismatch(_))),
            "seed {seed}"
        );
    }
    print(&format!(
        "conformance: calls until a flaw was found: {}\n",
        found.join(", ")
    ));
}

/// What the test of one server found.
struct ServerResult {
    version: String,
    coverage: Coverage,
    sequences: u64,
    /// Sequences that could not be judged, and the reason of the last.
    stalled: u64,
    why_stalled: String,
    failure: Option<String>,
}

impl ServerResult {
    fn summary(&self) -> String {
        let calls = thousands(self.coverage.calls);
        let stalled = match self.stalled {
            0 => String::new(),
            stalled => format!(" ({stalled} of {} sequences not judged)", self.sequences),
        };
        format!("{calls} calls on {}{stalled}", self.version)
    }
}

/// Runs sequences on one server until enough calls were made or a mismatch was found. The server has
/// this place among all, and with it the seeds of its sequences.
fn check(
    url: &str,
    mut seeds: impl Iterator<Item = u64>,
    place: u64,
    calls: u64,
    made: &AtomicU64,
    stop: &AtomicBool,
) -> ServerResult {
    let runtime = runtime();
    let real = runtime
        .block_on(RealFleet::connect(url))
        .expect("the server answers");
    let mut result = ServerResult {
        version: real.version.clone(),
        coverage: Coverage::default(),
        sequences: 0,
        stalled: 0,
        why_stalled: String::new(),
        failure: None,
    };
    let mut comparison = Comparison::new(real, None);
    while result.coverage.calls < calls && !stop.load(Ordering::Relaxed) {
        let Some(seed) = seeds.next() else { break };
        let mut tree = tree(seed);
        let before = result.coverage.calls;
        result.sequences += 1;
        match runtime.block_on(comparison.run(&tree.current(), &mut result.coverage)) {
            Ok(()) => {}
            Err(SequenceError::Stalled(why)) => {
                result.stalled += 1;
                result.why_stalled = why;
                if result.stalled > MAX_STALLS + result.sequences / 100 {
                    break;
                }
            }
            Err(SequenceError::Mismatch(difference)) => {
                stop.store(true, Ordering::Relaxed);
                let shortest = runtime.block_on(shrink(&mut comparison, &mut tree, difference));
                result.failure = Some(format!(
                    "{} and the model disagree, after {} calls. BATON_CONFORM_SEED={} begins \
                     with this sequence; the shortest like it:\n{shortest}",
                    result.version,
                    thousands(result.coverage.calls),
                    seed.wrapping_sub(place),
                ));
            }
        }
        made.fetch_add(result.coverage.calls - before, Ordering::Relaxed);
    }
    result
}

/// Shrinks a failing sequence while it fails, and describes the shortest.
async fn shrink(
    comparison: &mut Comparison,
    tree: &mut impl ValueTree<Value = Sequence>,
    difference: String,
) -> String {
    let deadline = Instant::now() + SHRINK_TIME;
    let mut shortest = comparison.story() + &difference;
    let mut more = tree.simplify();
    while more && Instant::now() < deadline {
        more = match comparison
            .run(&tree.current(), &mut Coverage::default())
            .await
        {
            Err(SequenceError::Mismatch(difference)) => {
                shortest = comparison.story() + &difference;
                tree.simplify()
            }
            _ => tree.complicate(),
        };
    }
    shortest
}

/// The sequence of a seed.
fn tree(seed: u64) -> impl ValueTree<Value = Sequence> {
    let bytes: Vec<u8> = seed.to_be_bytes().repeat(4);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = sequences().new_tree(&mut runner);
    tree.expect("every sequence is a good one")
}

fn first_seed() -> u64 {
    match std::env::var("BATON_CONFORM_SEED") {
        Ok(seed) => seed.parse().expect("BATON_CONFORM_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

fn print_progress(made: &AtomicU64, stop: &AtomicBool) {
    let mut next = Instant::now() + PROGRESS;
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if Instant::now() > next {
            let calls = thousands(made.load(Ordering::Relaxed));
            print(&format!(
                "\rconformance: {calls} calls agree; Ctrl-C ends it "
            ));
            next += PROGRESS;
        }
    }
}

/// Prints to stderr at once; the test harness would keep it back.
fn print(line: &str) {
    let mut out = std::io::stderr();
    let _ = out.write_all(line.as_bytes());
    let _ = out.flush();
}
