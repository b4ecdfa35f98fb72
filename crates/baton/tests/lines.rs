//! The source with the lines of a file that grows.

#![allow(clippy::unwrap_used)]

#[path = "sources/fleet.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fleet;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use baton::{Lines, Roles, Source, Warning, interval, lines};
use tempfile::TempDir;

use fleet::{Fleet, Running, until};

/// The source of a node that never generates.
fn nothing() -> impl Source {
    interval(Duration::from_secs(3600), |_, _| {})
}

/// A fleet with one worker, and a folder with files.
struct Arena {
    fleet: Fleet,
    worker: Running,
    folder: TempDir,
}

impl Arena {
    async fn new() -> Self {
        let fleet = Fleet::new().await;
        Self {
            worker: fleet.with(Roles::OnlyWorks).start(nothing()),
            folder: tempfile::tempdir().unwrap(),
            fleet,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        append(&self.path(name), text);
    }

    fn start(&self, source: Lines) -> Running {
        self.fleet.with(Roles::OnlyGenerates).start(source)
    }

    async fn all_done(&self, texts: &[&str]) {
        self.fleet.all_done(texts.len() as u64).await;
        let (mut texts, mut handled) = (texts.to_vec(), self.fleet.texts());
        texts.sort_unstable();
        handled.sort_unstable();
        assert_eq!(handled, texts);
    }

    /// The place and the number of lines that Redis has.
    fn stored(&self) -> String {
        let cursor = self.fleet.fence("cursor");
        cursor.rsplit_once(' ').unwrap().0.to_owned()
    }
}

fn append(path: &Path, text: &str) {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

async fn until_failed(node: &Running, reason: &str) {
    let failed = Warning::SourceFailed {
        reason: reason.to_owned(),
    };
    until(reason, || node.warnings().contains(&failed)).await;
}

#[tokio::test]
async fn every_line_is_handled_once_though_generators_are_killed() {
    const LINES: u64 = 3000;
    let arena = Arena::new().await;
    let mut nodes = vec![arena.start(lines(arena.path("rows")))];
    for line in 1..=LINES {
        arena.append("rows", &format!("row {line}\n"));
        if line % 500 == 0 {
            // Of those that were appended, the last ones may not be published.
            arena
                .fleet
                .until("lines", |at| at.published > line - 100)
                .await;
            let snapshot = arena.fleet.inspector.snapshot().await.unwrap();
            nodes.push(arena.start(lines(arena.path("rows"))));
            let generator = snapshot.generator.node.unwrap();
            let at = nodes.iter().position(|node| node.name == generator);
            nodes.remove(at.unwrap()).kill().await;
        }
    }
    arena.fleet.all_done(LINES).await;
    let rows: Vec<String> = (1..=LINES).map(|row| format!("row {row}")).collect();
    assert_eq!(arena.fleet.texts(), rows);
    assert_eq!(
        arena.stored(),
        format!(
            "file {} {LINES}",
            fs::metadata(arena.path("rows")).unwrap().len()
        )
    );
    for node in nodes {
        node.stop().await;
    }
    arena.worker.stop().await;
}

#[tokio::test]
async fn a_line_is_its_exact_bytes_and_the_last_one_waits_for_its_newline() {
    let arena = Arena::new().await;
    arena.append("rows", "one\n\ntwo\r\nthr");
    let node = arena.start(lines(arena.path("rows")));
    arena.all_done(&["one", "", "two\r"]).await;
    assert_eq!(arena.stored(), "file 10 3");
    arena.append("rows", "ee\nfour");
    arena.all_done(&["one", "", "two\r", "three"]).await;
    assert_eq!(arena.stored(), "file 16 4");
    node.stop().await;
    // A successor reads the whole line, too.
    arena.append("rows", "!\n");
    let node = arena.start(lines(arena.path("rows")));
    arena
        .all_done(&["one", "", "two\r", "three", "four!"])
        .await;
    assert_eq!(node.warnings(), []);
    node.stop().await;
}

#[tokio::test]
async fn another_machine_goes_on_in_its_own_copy_of_the_file() {
    let arena = Arena::new().await;
    arena.append("here", "one\ntwo\n");
    let node = arena.start(lines(arena.path("here")));
    arena.all_done(&["one", "two"]).await;
    node.stop().await;
    arena.append("there", "one\ntwo\nthree\n");
    let node = arena.start(lines(arena.path("there")));
    arena.all_done(&["one", "two", "three"]).await;
    node.stop().await;
}

#[tokio::test]
async fn a_rotation_that_the_source_knows_of_loses_no_line() {
    let arena = Arena::new().await;
    let source = || lines(arena.path("log")).after(arena.path("log.1"));
    let rotate = || fs::rename(arena.path("log"), arena.path("log.1")).unwrap();
    arena.append("log", "one\n");
    let node = arena.start(source());
    arena.all_done(&["one"]).await;
    // Its last line comes right before the rotation, and the next file at once.
    arena.append("log", "two\n");
    rotate();
    arena.append("log", "three\n");
    arena.all_done(&["one", "two", "three"]).await;
    assert_eq!(arena.stored(), "file 6 1");
    rotate();
    // The next file takes its time.
    arena.append("log.1", "four\n");
    arena.all_done(&["one", "two", "three", "four"]).await;
    node.kill().await;
    // While no node generates, too.
    arena.append("log.1", "five\n");
    arena.append("log", "six\n");
    let node = arena.start(source());
    arena
        .all_done(&["one", "two", "three", "four", "five", "six"])
        .await;
    assert_eq!(node.warnings(), []);
    // A line that never ends is told, not cut.
    arena.append("log", "seve");
    rotate();
    arena.append("log", "eight\n");
    let reason = format!(
        "{}, line 2: it is the last one and has no newline; end it or remove it",
        arena.path("log").display()
    );
    until_failed(&node, &reason).await;
    arena.append("log.1", "n\n");
    arena
        .all_done(&[
            "one", "two", "three", "four", "five", "six", "seven", "eight",
        ])
        .await;
    node.stop().await;
}

#[tokio::test]
async fn a_file_that_was_replaced_cut_or_changed_is_not_read_until_it_is_back() {
    for (name, spoil) in [
        ("replaced", "another\nfile\nof lines\n"),
        ("cut", "one\n"),
        ("changed", "one\nTWO\n"),
        ("changed and longer", "one\nTWO\nthree\n"),
    ] {
        let arena = Arena::new().await;
        arena.append(name, "one\ntwo\n");
        let node = arena.start(lines(arena.path(name)));
        arena.all_done(&["one", "two"]).await;
        if name == "replaced" {
            fs::remove_file(arena.path(name)).unwrap();
        }
        fs::write(arena.path(name), spoil).unwrap();
        let path = arena.path(name);
        let reason = format!(
            "{path} is not the file of which 2 lines (8 bytes) were read: it was replaced, cut or changed. Put \
             that file back, or tell the source that {path} comes after it",
            path = path.display()
        );
        until_failed(&node, &reason).await;
        // A successor sees it, too.
        let next = arena.start(lines(arena.path(name)));
        node.kill().await;
        until_failed(&next, &reason).await;
        arena.all_done(&["one", "two"]).await;
        fs::write(arena.path(name), "one\ntwo\nthree\n").unwrap();
        arena.all_done(&["one", "two", "three"]).await;
        next.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_is_missing_is_waited_for() {
    let arena = Arena::new().await;
    let node = arena.start(lines(arena.path("rows")));
    let path = arena.path("rows").display().to_string();
    until_failed(
        &node,
        &format!("{path}: No such file or directory (os error 2)"),
    )
    .await;
    arena.append("rows", "one\n");
    arena.all_done(&["one"]).await;
    fs::rename(arena.path("rows"), arena.path("away")).unwrap();
    node.stop().await;
    let node = arena.start(lines(arena.path("rows")));
    until_failed(
        &node,
        &format!("{path}: No such file or directory (os error 2)"),
    )
    .await;
    fs::rename(arena.path("away"), arena.path("rows")).unwrap();
    arena.append("rows", "two\n");
    arena.all_done(&["one", "two"]).await;
    fs::remove_file(arena.path("rows")).unwrap();
    node.stop().await;
    let node = arena.start(lines(arena.path("")));
    let folder = arena.path("").display().to_string();
    until_failed(&node, &format!("{folder}: it is no regular file")).await;
    node.stop().await;
}

#[tokio::test]
async fn a_line_that_is_too_long_is_named_and_those_before_it_are_handled() {
    for end in ["", "\nnext\n"] {
        let arena = Arena::new().await;
        let longest = "x".repeat(1 << 20);
        arena.append("rows", &format!("one\n{longest}\ntwo\n"));
        let node = arena.start(lines(arena.path("rows")));
        arena.all_done(&["one", &longest, "two"]).await;
        arena.append("rows", &format!("three\n{longest}y{end}"));
        let gave_up = Warning::SourceGaveUp {
            reason: format!(
                "{}, line 5: it has more than 1048576 bytes",
                arena.path("rows").display()
            ),
        };
        until("a warning", || node.warnings().contains(&gave_up)).await;
        arena.all_done(&["one", &longest, "two", "three"]).await;
        node.stop().await;
    }
}
