//! The lines that all copies of a fleet logged, in the order in which they were read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use baton_log::{Line, LogEvent};
use serde::Serialize;

/// How many of the last lines a failed wait quotes.
const QUOTED_LINES: usize = 10;

/// One line that a copy logged. The line of a node is a [`Line`].
#[derive(Debug, Clone)]
pub struct Told<L = Line<'static>> {
    /// The number of the copy. Copies are counted from 0 in the order of their start.
    pub copy: usize,
    /// When this process read the line.
    pub at: Instant,
    /// The line.
    pub line: L,
}

impl Told {
    /// The event that the node logged.
    pub fn event(&self) -> &LogEvent<'static> {
        &self.line.event
    }

    /// Whether the node became the generator.
    pub fn is_generator(&self) -> bool {
        matches!(self.event(), LogEvent::Generator { .. })
    }

    /// Whether the node published messages.
    pub fn is_published(&self) -> bool {
        matches!(self.event(), LogEvent::Published { .. })
    }

    /// Whether the node processed messages.
    pub fn is_processed(&self) -> bool {
        matches!(self.event(), LogEvent::Processed { .. })
    }

    /// The name of the node.
    pub fn node(&self) -> &str {
        &self.line.node
    }

    /// Whether the event is about this message.
    pub fn covers(&self, seq: u64) -> bool {
        self.event()
            .messages()
            .is_some_and(|all| all.contains(&seq))
    }
}

/// All lines so far. The threads that read the copies' logs add to them.
pub(crate) struct Heard<L> {
    told: Mutex<Vec<Told<L>>>,
    more: Condvar,
    interrupted: AtomicBool,
}

/// Ends the waits of a [`Fleet`](crate::Fleet) from another thread, so that its owner can clean
/// up.
#[derive(Clone)]
pub struct Interrupt(pub(crate) Arc<Heard<Line<'static>>>);

impl Interrupt {
    /// From now on every wait of the fleet fails at once.
    pub fn interrupt(&self) {
        // Under the lock, so that no wait can miss it.
        let _told = self.0.lock();
        self.0.interrupted.store(true, Ordering::Relaxed);
        self.0.more.notify_all();
    }
}

impl<L> Heard<L> {
    pub(crate) fn new() -> Self {
        Self {
            told: Mutex::new(Vec::new()),
            more: Condvar::new(),
            interrupted: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Told<L>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, told: Told<L>) {
        self.lock().push(told);
        self.more.notify_all();
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl<L: Clone + Serialize> Heard<L> {
    /// Waits for the first line after `mark` that fits.
    pub(crate) fn wait_for(
        &self,
        mark: usize,
        timeout: Duration,
        what: &str,
        fits: impl Fn(&Told<L>) -> bool,
    ) -> Result<Told<L>> {
        let deadline = Instant::now() + timeout;
        let mut told = self.lock();
        let mut next = mark;
        loop {
            while let Some(line) = told.get(next) {
                if fits(line) {
                    return Ok(line.clone());
                }
                next += 1;
            }
            if self.is_interrupted() {
                return Err(anyhow!("interrupted"));
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                let last = quote(&told);
                return Err(anyhow!(
                    "waited {timeout:?} for {what}; the last lines:\n{last}"
                ));
            };
            let waited = self.more.wait_timeout(told, left);
            told = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The last lines, newest first, each with the number of its copy.
fn quote<L: Serialize>(told: &[Told<L>]) -> String {
    let quote = |told: &Told<L>| {
        let line = serde_json::to_string(&told.line).unwrap_or_default();
        format!("  {} {line}", told.copy)
    };
    let last = told.iter().rev().take(QUOTED_LINES);
    last.map(quote).collect::<Vec<_>>().join("\n")
}
