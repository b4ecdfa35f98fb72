//! The progress of a run: one line per fault, and on a terminal a line that is rewritten.

use std::io::{self, IsTerminal as _, Write as _};

use baton_print::outln as println;

use crate::history::Fault;
use crate::plan::Kind;
use crate::verdict::Judgement;

/// Prints the progress.
pub struct Progress {
    terminal: bool,
    number: usize,
    doing: String,
}

impl Progress {
    /// Prints lines to stdout; rewrites a line on stderr, if that is a terminal.
    pub fn new() -> Self {
        Self {
            terminal: io::stderr().is_terminal(),
            number: 0,
            doing: "starting".to_owned(),
        }
    }

    /// Prints a line that stays.
    pub fn say(&mut self, text: &str) {
        self.clear();
        println!("{text}");
    }

    /// The fleet works undisturbed.
    pub fn calm(&mut self, at_s: f64) {
        self.doing = format!("{at_s:6.1} s  all is well");
        self.moving("");
    }

    /// A fault begins.
    pub fn doing(&mut self, at_s: f64, kind: Kind) {
        self.doing = format!("{at_s:6.1} s  {}", kind.facts().words);
        self.moving("");
    }

    /// The messages so far.
    pub fn messages(&mut self, published: u64, done: u64, failed: u64) {
        let left = published.saturating_sub(done + failed);
        self.moving(&format!("{published} messages, {left} under way"));
    }

    /// A fault is over.
    pub fn done(&mut self, fault: &Fault) {
        self.number += 1;
        let targets = match fault.targets.len() {
            0 => String::new(),
            1..=2 => format!(" ({})", fault.targets.join(", ")),
            count => format!(" ({count} nodes)"),
        };
        let note = match fault.note.as_str() {
            "" => String::new(),
            note => format!("; {note}"),
        };
        let recovered = match fault.recovered_ms {
            Some(ms) => format!("well again after {ms:.0} ms"),
            None => "NOT WELL".to_owned(),
        };
        let text = format!(
            "{:6.1} s  {:3}. {}{targets}{note}: {recovered}",
            fault.from_s, self.number, fault.name
        );
        self.say(&text);
    }

    /// Prints what is allowed but unusual.
    pub fn asides(&mut self, judgement: &Judgement) {
        if judgement.reprints > 0 {
            self.say(&format!(
                "{} failed messages were printed again: the getErrors that printed them first did \
                 not live to remove them",
                judgement.reprints
            ));
        }
        if judgement.taken_back > 0 {
            self.say(&format!(
                "{} messages were told of, then forgotten by servers that need not keep them",
                judgement.taken_back
            ));
        }
        if judgement.missing_rows > 0 {
            self.say(&format!(
                "{} rows are no message: their numbers are void, or no living node knew them",
                judgement.missing_rows
            ));
        }
        if judgement.beside_living > 0 {
            self.say(&format!(
                "commands of nodes that were paused or cut off beside the next attempt: {}",
                judgement.beside_living
            ));
        }
        if let Some(max) = judgement.beside_dead_ms.iter().max() {
            self.say(&format!(
                "commands of dead nodes beside the next attempt: {}, for at most {max} ms",
                judgement.beside_dead_ms.len()
            ));
        }
    }

    fn moving(&self, text: &str) {
        if self.terminal {
            let mut err = io::stderr().lock();
            // A lost progress line does no harm.
            let _ = write!(err, "\r\x1b[K{}  {text}", self.doing);
            let _ = err.flush();
        }
    }

    fn clear(&self) {
        if self.terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
