//! The scripts against the model: random calls on both, on every server at hand, and after
//! each of them every answer and the whole state must agree.
//!
//! `BATON_CONFORM_CALLS` says how many calls are made in all, or `endless`;
//! `BATON_CONFORM_SEED` repeats the sequence of a failure.

#![allow(clippy::expect_used, reason = "a test may panic")]

mod answer;
mod choose;
mod event;
mod look;
mod op;
mod raw;
mod real;
mod servers;
mod tally;
mod twin;
mod words;

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baton_model::flaw::Flaw;
use baton_print::thousands;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use op::{Sequence, sequences};
use real::{Real, Trouble};
use tally::Tally;
use twin::Twin;

/// Calls in all, unless told otherwise.
const CALLS: u64 = 60_000;
/// Fewer calls than this may miss an answer that is rare.
const ENOUGH_CALLS: u64 = 50_000;
/// Calls after which a flaw must have been found.
const FLAW_CALLS: u64 = 50_000;
/// How long a failing sequence is made shorter.
const SHRINK: Duration = Duration::from_secs(60);
/// Stalls after which a server counts as gone, beyond the one in a hundred that is allowed.
const MANY_STALLS: u64 = 10;
/// How often an endless run says how far it is.
const PROGRESS: Duration = Duration::from_secs(5);
/// Flaws of nodes, not of scripts: no call shows them.
const NODE_FLAWS: [Flaw; 2] = [Flaw::RetryUnderNewNumber, Flaw::CommitUnheard];

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
    let courses: Vec<Course> = std::thread::scope(|scope| {
        let running: Vec<_> = servers
            .iter()
            .map(|server| scope.spawn(|| check(&server.url(), share, &made, &stop)))
            .collect();
        if calls == u64::MAX {
            tell_progress(&made, &stop);
        }
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|course| course.expect("a thread ended in good order"))
            .collect()
    });

    let mut tally = Tally::default();
    for course in &courses {
        tally.add(&course.tally);
    }
    let on: Vec<String> = courses.iter().map(Course::words).collect();
    say(&format!("conformance: {}\n", on.join(", ")));
    let failures: Vec<&str> = courses
        .iter()
        .filter_map(|c| c.failure.as_deref())
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    for course in &courses {
        let (stalled, all) = (course.stalled, course.sequences);
        assert!(
            stalled * 100 <= all,
            "{}: {stalled} of {all} sequences could not be judged, the last because {}",
            course.version,
            course.why_stalled,
        );
    }
    if tally.calls >= ENOUGH_CALLS {
        let missing = tally.missing();
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
        .filter(|flaw| !NODE_FLAWS.contains(flaw))
    {
        let real = runtime.block_on(Real::connect(&server.url()));
        let mut twin = Twin::new(real.expect("the server answers"), Some(flaw));
        let mut tally = Tally::default();
        let mut seed = random();
        loop {
            let sequence = tree(seed).current();
            match runtime.block_on(twin.run(&sequence, &mut tally)) {
                Err(Trouble::Wrong(_)) => break,
                // What took too long to be judged says nothing.
                Ok(()) | Err(Trouble::Stalled(_)) => seed = seed.wrapping_add(1),
            }
            assert!(tally.calls < FLAW_CALLS, "{flaw:?} is not found");
        }
        found.push(format!("{flaw:?} {}", thousands(tally.calls + 1)));
        // It was the flaw that was found, and nothing else.
        twin.flaw = None;
        let sound = runtime.block_on(twin.run(&tree(seed).current(), &mut tally));
        assert!(!matches!(sound, Err(Trouble::Wrong(_))), "seed {seed}");
    }
    say(&format!(
        "conformance: calls until a flaw was found: {}\n",
        found.join(", ")
    ));
}

/// What became of one server's share.
struct Course {
    version: String,
    tally: Tally,
    sequences: u64,
    /// Sequences that could not be judged, and why the last of them.
    stalled: u64,
    why_stalled: String,
    failure: Option<String>,
}

impl Course {
    fn words(&self) -> String {
        let calls = thousands(self.tally.calls);
        let stalled = match self.stalled {
            0 => String::new(),
            stalled => format!(" ({stalled} of {} sequences not judged)", self.sequences),
        };
        format!("{calls} calls on {}{stalled}", self.version)
    }
}

/// Runs sequences on one server until enough calls were made, or it was found wrong.
fn check(url: &str, calls: u64, made: &AtomicU64, stop: &AtomicBool) -> Course {
    let runtime = runtime();
    let real = runtime
        .block_on(Real::connect(url))
        .expect("the server answers");
    let mut course = Course {
        version: real.version.clone(),
        tally: Tally::default(),
        sequences: 0,
        stalled: 0,
        why_stalled: String::new(),
        failure: None,
    };
    let mut twin = Twin::new(real, None);
    let given = std::env::var("BATON_CONFORM_SEED").ok();
    let given = given.map(|seed| seed.parse().expect("BATON_CONFORM_SEED is a number"));
    let mut seed = given.unwrap_or_else(random);
    while course.tally.calls < calls && !stop.load(Ordering::Relaxed) {
        let mut tree = tree(seed);
        let before = course.tally.calls;
        course.sequences += 1;
        match runtime.block_on(twin.run(&tree.current(), &mut course.tally)) {
            Ok(()) => {}
            Err(Trouble::Stalled(why)) => {
                course.stalled += 1;
                course.why_stalled = why;
                if course.stalled > MANY_STALLS + course.sequences / 100 {
                    break;
                }
            }
            Err(Trouble::Wrong(difference)) => {
                stop.store(true, Ordering::Relaxed);
                let shortest = runtime.block_on(shrink(&mut twin, &mut tree, difference));
                course.failure = Some(format!(
                    "{} and the model disagree, after {} calls. BATON_CONFORM_SEED={seed} begins \
                     with this sequence; the shortest like it:\n{shortest}",
                    course.version,
                    thousands(course.tally.calls),
                ));
            }
        }
        made.fetch_add(course.tally.calls - before, Ordering::Relaxed);
        seed = seed.wrapping_add(1);
    }
    course
}

/// Makes a failing sequence shorter as long as it fails, and tells the story of the last.
async fn shrink(
    twin: &mut Twin,
    tree: &mut impl ValueTree<Value = Sequence>,
    difference: String,
) -> String {
    let deadline = Instant::now() + SHRINK;
    let mut shortest = twin.story() + &difference;
    let mut more = tree.simplify();
    while more && Instant::now() < deadline {
        more = match twin.run(&tree.current(), &mut Tally::default()).await {
            Err(Trouble::Wrong(difference)) => {
                shortest = twin.story() + &difference;
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

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

fn tell_progress(made: &AtomicU64, stop: &AtomicBool) {
    let mut next = Instant::now() + PROGRESS;
    while !stop.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(100));
        if Instant::now() > next {
            let calls = thousands(made.load(Ordering::Relaxed));
            say(&format!(
                "\rconformance: {calls} calls agree; Ctrl-C ends it "
            ));
            next += PROGRESS;
        }
    }
}

/// Says something that is not kept back, as what a test prints is.
fn say(line: &str) {
    let mut out = std::io::stderr();
    let _ = out.write_all(line.as_bytes());
    let _ = out.flush();
}
