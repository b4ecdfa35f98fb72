//! What handles the messages of a run: the program's pretended work, or a command or a service of
//! this program.
//!
//! Command and service share the arena's folder with the run. The run tells them there how to
//! behave, and they keep a [`Journal`].

pub mod command;
pub mod push_service;

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// The word behind which this program handles one message.
pub const COMMAND: &str = "handle-message";
/// The word behind which this program is the push service.
pub const PUSH_SERVICE: &str = "push-service";
/// The environment variable with the time that a message takes, in ms.
pub const WORK_MS: &str = "CHAOS_WORK_MS";
/// The environment variable with the number of a node; its supervisor and commands inherit it.
pub const NODE: &str = "CHAOS_NODE";
/// The effect of every message that is done. The verdict compares this counter with the books.
pub const COUNTER: &str = "counted";
const EFFECT: &str = "[\"INCRBY\",\"counted\",1]\n";

/// What handles the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum HandlerKind {
    /// The pretended work of a bare `baton`
    #[default]
    Pretended,
    /// A command per message
    Exec,
    /// A service that gets each message by HTTP
    Push,
}

impl HandlerKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pretended => "pretended",
            Self::Exec => "exec",
            Self::Push => "push",
        }
    }
}

/// What becomes of an attempt that no fault hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// It is tried again later.
    Later,
    /// It is rejected for good.
    Rejected,
}

/// The choices of one attempt. They follow from its key and number, so an attempt that is repeated
/// makes the same ones.
struct Choices {
    fate: Fate,
    rng: Rng,
}

impl Choices {
    fn of(key: &str, attempt: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (key, attempt).hash(&mut hasher);
        let mut rng = Rng::new(hasher.finish());
        let fate = match rng.between(1, 100) {
            1..=5 => Fate::Rejected,
            6..=10 => Fate::Later,
            _ => Fate::Done,
        };
        Self { fate, rng }
    }
}

/// How the push service answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// As it should.
    #[default]
    Well,
    /// With 500.
    Error,
    /// Not at all.
    Hang,
    /// With a body that has no end.
    Endless,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Well, Self::Error, Self::Hang, Self::Endless];

    fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Error => "error",
            Self::Hang => "hang",
            Self::Endless => "endless",
        }
    }
}

/// The folder that a run shares with its handlers.
#[derive(Debug, Clone)]
pub struct Shared(PathBuf);

impl Shared {
    /// Makes the folder's parts.
    pub fn create(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(folder.join("running"))?;
        fs::create_dir_all(folder.join("gone"))?;
        Ok(Self(folder))
    }

    /// The folder, as a handler gets it.
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes commands hang from now on, or not any more.
    pub fn set_hang(&self, hangs: bool) -> io::Result<()> {
        let flag = self.0.join("hang");
        match hangs {
            true => fs::write(flag, ""),
            false => fs::remove_file(flag),
        }
    }

    fn hangs(&self) -> bool {
        self.0.join("hang").exists()
    }

    /// Sets how the push service answers from now on.
    pub fn set_mode(&self, mode: Mode) -> io::Result<()> {
        // In one step: the service reads it for every message.
        let next = self.0.join("mode.next");
        fs::write(&next, mode.word())?;
        fs::rename(next, self.0.join("mode"))
    }

    fn mode(&self) -> Mode {
        let word = fs::read_to_string(self.0.join("mode")).unwrap_or_default();
        let mut modes = Mode::ALL.into_iter();
        modes.find(|mode| mode.word() == word).unwrap_or_default()
    }

    /// Notes that a node is dead: none of its commands may live now.
    pub fn set_gone(&self, node: usize) -> io::Result<()> {
        fs::write(self.0.join("gone").join(node.to_string()), "")
    }

    fn is_gone(&self, node: usize) -> bool {
        self.0.join("gone").join(node.to_string()).exists()
    }

    /// Adds an entry to the journal.
    fn tell(&self, entry: &Entry) -> io::Result<()> {
        let path = self.0.join("journal");
        let mut journal = OpenOptions::new().create(true).append(true).open(path)?;
        // One write: the lines of many processes do not mix.
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        journal.write_all(&line)
    }

    /// All entries of the journal.
    pub fn journal(&self) -> Vec<Entry> {
        let text = fs::read_to_string(self.0.join("journal")).unwrap_or_default();
        let entries = text.lines().map(serde_json::from_str);
        entries.filter_map(Result::ok).collect()
    }
}

/// What a handler writes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A fault made this attempt go wrong.
    Hit,
    /// A command found that another one handled the same message.
    Beside(Beside),
}

/// A command ran beside the next attempt of its message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// The number of the message.
    pub seq: u64,
    /// The number of the node whose command ran on.
    pub node: usize,
    /// Whether that node was dead. A node that is paused or cut off does not know that its message
    /// is no longer its own.
    pub orphaned: bool,
    /// How long it ran on, in ms; at most [`Beside::MAX_MS`].
    pub ms: u64,
}

impl Beside {
    /// Longest time that a command waits for an orphan to end.
    pub const MAX_MS: u64 = 500;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_attempt_has_the_same_fate_and_all_fates_come() {
        let fates = |range: std::ops::Range<u64>| -> Vec<Fate> {
            let fate = |seq: u64| Choices::of(&format!("born-{seq}"), "1").fate;
            range.map(fate).collect()
        };
        assert_eq!(fates(0..100), fates(0..100));
        for fate in [Fate::Later, Fate::Rejected] {
            let share = fates(0..10_000).iter().filter(|of| **of == fate).count();
            assert!((400..600).contains(&share), "{fate:?}: {share}");
        }
    }

    #[test]
    fn a_handler_reads_what_the_run_has_set() {
        let folder = tempfile::tempdir().unwrap();
        let run = Shared::create(folder.path().join("shared")).unwrap();
        let handler = Shared::open(run.path());
        assert_eq!(
            (handler.hangs(), handler.mode(), handler.is_gone(3)),
            (false, Mode::Well, false)
        );
        run.set_hang(true).unwrap();
        run.set_mode(Mode::Endless).unwrap();
        run.set_gone(3).unwrap();
        assert_eq!(
            (handler.hangs(), handler.mode(), handler.is_gone(3)),
            (true, Mode::Endless, true)
        );
        handler.tell(&Entry::Hit).unwrap();
        assert_eq!(run.journal(), [Entry::Hit]);
        run.set_hang(false).unwrap();
        assert!(!handler.hangs());
    }
}
