//! What failovers may do to messages that nodes had logged.
//!
//! The ledger is in Redis, and a failover forgets its last entries together with the writes that they
//! are about. So the final ledger shows the timeline that survived, and the logs show what nodes were
//! told on the way. What may differ depends on the level:
//!
//! - replicas:2: nothing. What a node logged was confirmed by every server that may be promoted.
//! - none: each number that a node logged and that is gone must be named by a `regressed` line. Only
//!   a number that no living node knew may be gone without: all who had logged it were dead.
//!
//! At both levels a number that a living node knew keeps its text for ever, and no node says that
//! messages are gone while no server was lost.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use baton_log::LogEvent;
use baton_processes::Told;
use baton_protocol::{Digest, Entry, Ledger};
use serde::{Deserialize, Serialize};

use crate::arena::Failover;
use crate::topology::Level;

/// A node beats at least this often, and then compares what it knows with what Redis has.
const BEAT: Duration = Duration::from_secs(1);

/// What is known about the failovers of a run.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// What nodes waited for before they logged.
    pub level: Level,
    /// The surviving timeline.
    pub ledger: &'a Ledger,
    /// The log lines of the nodes.
    pub told: &'a [Told],
    /// When each node was gone, by its copy.
    pub gone: &'a [Option<Instant>],
    /// When the servers may have forgotten messages, in order.
    pub failovers: &'a [Failover],
}

/// What failovers did to messages that nodes had logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Numbers that a node logged as published or processed.
    pub logged: u64,
    /// Those of them that have no message in the end.
    pub gone: u64,
    /// Those of these that were confirmed: none may be.
    pub confirmed: u64,
    /// Those of the gone ones that a `regressed` line names.
    pub named: u64,
    /// Those of the gone ones that only nodes knew which are dead.
    pub unknown: u64,
    /// Messages that were logged as processed, and then once more, because the first time was forgotten.
    pub again: u64,
    /// Numbers that the final ledger declares void.
    pub void: u64,
    /// Numbers whose text in a log was compared with the text in the end.
    pub compared: u64,
    /// Those of them that got another text after all who knew the first one were dead.
    pub renumbered: u64,
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "of {} numbers that nodes logged, {} have no message: {} were confirmed, {} are named by a \
             node, {} were known to no living one; {} void, {} processed again; {} texts compared, {} \
             numbers used again",
            self.logged,
            self.gone,
            self.confirmed,
            self.named,
            self.unknown,
            self.void,
            self.again,
            self.compared,
            self.renumbered
        )
    }
}

/// A violation: a number, and words.
pub type Finding = (u64, String);

/// Checks the evidence.
pub fn check(evidence: &Evidence<'_>) -> (Losses, Vec<Finding>) {
    let mut check = Check {
        evidence,
        end: End::of(evidence.ledger),
        logged: Logged::of(evidence.told),
        losses: Losses::default(),
        findings: Vec::new(),
    };
    check.losses.void = check.end.void;
    check.losses.logged = check.logged.numbers.len() as u64;
    check.missing();
    check.ends();
    check.texts();
    check.false_alarms();
    (check.losses, check.findings)
}

struct Check<'a> {
    evidence: &'a Evidence<'a>,
    end: End,
    logged: Logged<'a>,
    losses: Losses,
    findings: Vec<Finding>,
}

impl Check<'_> {
    /// Checks the numbers that nodes logged and that have no message in the end.
    fn missing(&mut self) {
        for (seq, lines) in &self.logged.numbers {
            if self.end.packs.contains(*seq) {
                continue;
            }
            self.losses.gone += 1;
            if self.evidence.level != Level::None {
                self.losses.confirmed += 1;
                let text = format!("#{seq} was confirmed and is gone");
                self.findings.push((*seq, text));
            } else if self.logged.is_regressed(*seq) {
                self.losses.named += 1;
            } else if lines.iter().all(|line| self.died_meanwhile(line)) {
                self.losses.unknown += 1;
            } else {
                let text = format!("#{seq} was acknowledged and is gone, and no node says so");
                self.findings.push((*seq, text));
            }
        }
    }

    /// Checks that what was confirmed as processed has ended, and was confirmed once.
    fn ends(&mut self) {
        for (seq, lines) in &self.logged.numbers {
            let times = lines.iter().filter(|line| line.processed).count();
            if times > 1 {
                self.losses.again += 1;
            }
            if self.evidence.level == Level::None {
                continue;
            }
            if times > 1 {
                let text = format!("#{seq} was confirmed as processed {times} times");
                self.findings.push((*seq, text));
            }
            if times > 0 && self.end.packs.contains(*seq) && !self.end.ended.contains(seq) {
                let text = format!("#{seq} was confirmed as processed and has no end");
                self.findings.push((*seq, text));
            }
        }
    }

    /// Checks that no number has two texts. A log has the text of a message that was published alone.
    fn texts(&mut self) {
        for (seq, text) in &self.logged.texts {
            let Some(pack) = self.end.packs.alone(*seq) else {
                continue;
            };
            self.losses.compared += 1;
            if Digest::of(0, text.as_bytes()) == pack.digest {
                continue;
            }
            // Lines from before the pack was published are about the first text. A log has whole ms.
            let lines = self.logged.numbers.get(seq).into_iter().flatten();
            let mut knew = lines.filter(|line| line.at_us + 1000 <= pack.at_us);
            if self.evidence.level == Level::None && knew.all(|line| self.was_dead(line, pack)) {
                self.losses.renumbered += 1;
            } else {
                let finding = format!("#{seq} has another text than the one in a log");
                self.findings.push((*seq, finding));
            }
        }
    }

    /// Checks that nodes name messages as gone only when a failover may have forgotten some.
    fn false_alarms(&mut self) {
        for (first, last, read) in &self.logged.regressed {
            let is_in = |failover: &Failover| {
                let before = read.checked_sub(BEAT).unwrap_or(*read);
                failover.time().contains(read) || failover.time().contains(&before)
            };
            if !self.evidence.failovers.iter().any(is_in) {
                let text = format!("#{first} to #{last} are said to be gone without a failover");
                self.findings.push((*first, text));
            }
        }
    }

    /// Whether the node of a line died before the fleet had recovered from the failover that forgot it:
    /// the next one, because each begins with servers that all have the same.
    fn died_meanwhile(&self, line: &Line) -> bool {
        let mut failovers = self.evidence.failovers.iter();
        let next = failovers.find(|of| of.until.is_none_or(|until| line.read <= until));
        let until = next.and_then(|failover| failover.until);
        self.gone(line)
            .is_some_and(|gone| until.is_none_or(|until| gone <= until))
    }

    /// Whether the node of a line was dead before a pack was published.
    fn was_dead(&self, line: &Line, pack: &Pack) -> bool {
        let at_us = |gone: Instant| us(SystemTime::now() - gone.elapsed());
        self.gone(line).is_some_and(|gone| at_us(gone) < pack.at_us)
    }

    fn gone(&self, line: &Line) -> Option<Instant> {
        self.evidence.gone.get(line.copy).copied().flatten()
    }
}

/// What a node logged about a number.
#[derive(Debug)]
struct Line {
    copy: usize,
    /// When the node wrote the line, in µs.
    at_us: u64,
    /// When this process read it.
    read: Instant,
    processed: bool,
}

/// What the nodes logged.
#[derive(Debug, Default)]
struct Logged<'a> {
    /// Each number that a node logged as published or processed.
    numbers: BTreeMap<u64, Vec<Line>>,
    /// The texts of messages that were published alone, each as often as it was logged.
    texts: Vec<(u64, &'a str)>,
    /// The ranges that nodes named as forgotten, and when their lines were read.
    regressed: Vec<(u64, u64, Instant)>,
}

impl<'a> Logged<'a> {
    fn of(told: &'a [Told]) -> Self {
        let mut logged = Self::default();
        for told in told {
            let mut note = |seq: u64, processed: bool| {
                logged.numbers.entry(seq).or_default().push(Line {
                    copy: told.copy,
                    at_us: us(told.line.at),
                    read: told.at,
                    processed,
                });
            };
            match told.event() {
                LogEvent::Published {
                    first, last, text, ..
                } => {
                    (*first..=*last).for_each(|seq| note(seq, false));
                    let alone = text.as_deref().filter(|_| first == last);
                    logged.texts.extend(alone.map(|text| (*first, text)));
                }
                LogEvent::Processed {
                    first,
                    last,
                    delayed,
                    ..
                } => {
                    let ended = (*first..=*last).filter(|seq| !delayed.contains(seq));
                    ended.for_each(|seq| note(seq, true));
                }
                LogEvent::Regressed { first, last } => {
                    logged.regressed.push((*first, *last, told.at));
                }
                _ => {}
            }
        }
        logged
    }

    fn is_regressed(&self, seq: u64) -> bool {
        let mut all = self.regressed.iter();
        all.any(|(first, last, _)| (*first..=*last).contains(&seq))
    }
}

/// A published pack.
#[derive(Debug)]
struct Pack {
    last: u64,
    digest: Digest,
    at_us: u64,
}

/// All packs, by their first number.
#[derive(Debug, Default)]
struct Packs(BTreeMap<u64, Pack>);

impl Packs {
    fn contains(&self, seq: u64) -> bool {
        let pack = self.0.range(..=seq).next_back();
        pack.is_some_and(|(_, pack)| seq <= pack.last)
    }

    /// The pack that is this message alone.
    fn alone(&self, seq: u64) -> Option<&Pack> {
        self.0.get(&seq).filter(|pack| pack.last == seq)
    }
}

/// The surviving timeline.
#[derive(Debug, Default)]
struct End {
    packs: Packs,
    /// The numbers that have ended.
    ended: HashSet<u64>,
    void: u64,
}

impl End {
    fn of(ledger: &Ledger) -> Self {
        let mut end = Self::default();
        for entry in &ledger.entries {
            match entry {
                Entry::Published {
                    first,
                    last,
                    digest,
                    at_us,
                    ..
                } => {
                    let pack = Pack {
                        last: *last,
                        digest: *digest,
                        at_us: *at_us,
                    };
                    end.packs.0.insert(*first, pack);
                }
                Entry::Ended { first, last, .. } => {
                    end.ended.extend(*first..=*last);
                }
                Entry::Void { first, last, .. } => end.void += last - first + 1,
                // It has to end once more.
                Entry::Retried { seq, .. } | Entry::Delayed { seq, .. } => {
                    end.ended.remove(seq);
                }
            }
        }
        end
    }
}

fn us(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

#[cfg(test)]
mod tests;
