//! Replays the corpus of a fuzz target in a normal test, and variations of it. Part of the
//! tests of each package that has fuzz targets.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Most memory that a check may take for each byte it is given.
const PER_BYTE: u64 = 64;
/// Largest file of a corpus.
const MOST_BYTES: usize = 4096;

/// One step away from a file of the corpus.
#[derive(Debug, Clone)]
enum Change {
    /// Turns one bit round.
    Flip(Index, u8),
    /// Puts another byte in.
    Insert(Index, u8),
    /// Takes a byte out.
    Remove(Index),
    /// Cuts off the end.
    Cut(Index),
    /// Ends like another file of the corpus, from some place in it on.
    Splice(Index, Index, Index),
}

/// Runs a check on each file of a corpus and on so many variations of them. Fails if one needs
/// more memory than its size allows for, and `fixed_bytes` beside.
pub(super) fn replay(target: &str, check: fn(&[u8]), fixed_bytes: u64, variations: u32) {
    let corpus = corpus(target);
    let bounded = |data: &[u8]| {
        let most = PER_BYTE * data.len() as u64 + fixed_bytes;
        let peak = peak(|| check(data));
        assert!(peak <= most, "{peak} bytes of memory for {}", data.len());
    };
    for (name, data) in &corpus {
        // Shown if the check fails.
        println!("{target}/{name}");
        bounded(data);
    }
    let config = Config {
        cases: variations,
        // A file that fails belongs in the corpus.
        failure_persistence: None,
        ..Config::default()
    };
    let varied = (any::<Index>(), vec(change(), 1..6));
    let tried = TestRunner::new(config).run(&varied, |(file, changes)| {
        let mut data = file.get(&corpus).1.clone();
        for change in &changes {
            apply(change, &mut data, &corpus);
        }
        println!("{target}: {}", data.escape_ascii());
        bounded(&data);
        Ok(())
    });
    tried.unwrap();
}

/// The files of a corpus and their names.
pub(super) fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/fuzz");
    let program = fuzz.join(format!("fuzz_targets/{target}.rs"));
    assert!(program.exists(), "{target} is no fuzz target");
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(fuzz.join("corpus").join(target))
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, fs::read(file.path()).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {target} is empty");
    for (name, data) in &files {
        assert!(data.len() <= MOST_BYTES, "{target}/{name} is too large");
    }
    files
}

/// The most memory that this thread held at one moment meanwhile.
pub(super) fn peak(run: impl FnOnce()) -> u64 {
    let mut ended = Ok(());
    // The counter does not survive that many panics pass through it.
    let measured = allocation_counter::measure(|| ended = catch_unwind(AssertUnwindSafe(run)));
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
    measured.bytes_max
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Insert(at, byte)),
        any::<Index>().prop_map(Change::Remove),
        any::<Index>().prop_map(Change::Cut),
        any::<(Index, Index, Index)>().prop_map(|(at, file, from)| Change::Splice(at, file, from)),
    ]
}

fn apply(change: &Change, data: &mut Vec<u8>, corpus: &[(String, Vec<u8>)]) {
    let places = data.len();
    match change {
        Change::Insert(at, byte) => data.insert(at.index(places + 1), *byte),
        Change::Splice(at, file, from) => {
            let other = &file.get(corpus).1;
            data.truncate(at.index(places + 1));
            data.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
        _ if places == 0 => {}
        Change::Flip(at, bit) => data[at.index(places)] ^= 1 << bit,
        Change::Remove(at) => drop(data.remove(at.index(places))),
        Change::Cut(at) => data.truncate(at.index(places)),
    }
}
