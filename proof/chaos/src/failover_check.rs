//! What failovers may do to messages that nodes had logged.
//!
//! The ledger is in Redis, and a failover forgets its last entries together with the writes that they
//! are about. So the final ledger shows the timeline that survived, and the logs show what nodes were
//! told on the way. What may differ depends on the level:
//!
//! - all replicas: nothing. What a node logged was confirmed by every server that may be promoted.
//! - none: each number that a node logged and that is gone must be named by a `regressed` line. Only
//!   a number that no living node knew may be gone without: all who had logged it were dead.
//!
//! At both levels a number that a living node knew keeps its text for ever, and no node says that
//! messages are gone while no server was lost. All of it holds in each partition.

mod timelines;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime};

use baton_processes::Told;
use baton_protocol::Ledger;
use serde::{Deserialize, Serialize};

use crate::arena::Failover;
use crate::topology::Level;

use timelines::{Digested, End, Line, Logged, us};

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
    /// Whether the texts in the log are exact, and no two messages have the same.
    pub texts_are_exact: bool,
    /// When each node was gone, by its copy.
    pub gone: &'a [Option<Instant>],
    /// When the servers may have forgotten messages of the partition, in order.
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
    /// Texts in logs that were compared with the final ledger, as published and as handled.
    pub compared: u64,
    /// Ranges with a number that got another text after all who knew the first one were dead.
    pub renumbered: u64,
    /// Numbers that two nodes logged as published: the second may have given the number to another message.
    #[serde(default)]
    pub published_again: u64,
}

impl Losses {
    /// Adds those of another partition.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in [
            (&mut self.logged, other.logged),
            (&mut self.gone, other.gone),
            (&mut self.confirmed, other.confirmed),
            (&mut self.named, other.named),
            (&mut self.unknown, other.unknown),
            (&mut self.again, other.again),
            (&mut self.void, other.void),
            (&mut self.compared, other.compared),
            (&mut self.renumbered, other.renumbered),
            (&mut self.published_again, other.published_again),
        ] {
            *sum += count;
        }
    }

    /// How many messages may be gone for ever: their numbers are void, or no living node knew them, and
    /// perhaps another message has the number.
    pub fn forgotten(&self) -> u64 {
        self.void + self.unknown + self.published_again
    }
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
    check.published_again();
    check.missing();
    check.ends();
    if evidence.texts_are_exact {
        check.texts();
    }
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
    fn published_again(&mut self) {
        let again = self.logged.numbers.values().filter(|lines| {
            let mut nodes = lines.iter().filter(|line| !line.processed);
            let first = nodes.next().map(|line| line.copy);
            nodes.any(|line| Some(line.copy) != first)
        });
        self.losses.published_again = again.count() as u64;
    }

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

    /// Checks that no number has two texts. A log has the text of a message that was published alone;
    /// the ledger has digests of ranges.
    fn texts(&mut self) {
        let mut wrong: Vec<(RangeInclusive<u64>, u64)> = Vec::new();
        for (seq, texts) in &self.logged.texts {
            let pack = self.end.packs.of(*seq);
            let differ = texts.windows(2).any(|pair| pair[0] != pair[1]);
            wrong.extend(
                pack.filter(|_| differ)
                    .map(|(_, pack)| (*seq..=*seq, pack.at_us)),
            );
        }
        for Digested { seqs, digest } in &self.end.digests {
            let Some((first, pack)) = self.end.packs.of(*seqs.start()) else {
                continue;
            };
            let Some(logged) = self.logged.digest(seqs.clone(), first) else {
                continue;
            };
            self.losses.compared += seqs.end() - seqs.start() + 1;
            if logged != *digest {
                wrong.push((seqs.clone(), pack.at_us));
            }
        }
        for (seqs, at_us) in wrong {
            self.judge_text(seqs, at_us);
        }
    }

    /// One of these numbers, published at this time, has another text than the one in a log. That may
    /// be if all nodes that had logged a number before were dead by then.
    fn judge_text(&mut self, seqs: RangeInclusive<u64>, at_us: u64) {
        let is_excused = |seq: &u64| {
            let lines = self.logged.numbers.get(seq).into_iter().flatten();
            // A log has whole milliseconds.
            let mut before = lines.filter(|line| line.at_us + 1000 <= at_us);
            before.all(|line| self.was_dead(line, at_us))
        };
        if self.evidence.level == Level::None && seqs.clone().any(|seq| is_excused(&seq)) {
            self.losses.renumbered += 1;
        } else {
            let (first, last) = seqs.into_inner();
            let text = format!("#{first} to #{last}: a text is not the one in a log");
            self.findings.push((first, text));
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

    /// Whether the node of a line was dead at this time.
    fn was_dead(&self, line: &Line, at_us: u64) -> bool {
        let gone_us = |gone: Instant| us(SystemTime::now() - gone.elapsed());
        self.gone(line).is_some_and(|gone| gone_us(gone) < at_us)
    }

    fn gone(&self, line: &Line) -> Option<Instant> {
        self.evidence.gone.get(line.copy).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
