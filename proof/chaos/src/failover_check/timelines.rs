//! The two timelines that are compared: what nodes logged, and what survived.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use baton_log::LogEvent;
use baton_processes::Told;
use baton_protocol::{Digest, Entry, Ledger};

/// What a node logged about a number.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) copy: usize,
    /// When the node wrote the line, in µs.
    pub(super) at_us: u64,
    /// When this process read it.
    pub(super) read: Instant,
    pub(super) processed: bool,
}

/// What the nodes logged.
#[derive(Debug, Default)]
pub(super) struct Logged<'a> {
    /// Each number that a node logged as published or processed.
    pub(super) numbers: BTreeMap<u64, Vec<Line>>,
    /// The texts of messages that were published alone, in the order in which they were logged.
    pub(super) texts: BTreeMap<u64, Vec<&'a str>>,
    /// The ranges that nodes named as forgotten, and when their lines were read.
    pub(super) regressed: Vec<(u64, u64, Instant)>,
}

impl<'a> Logged<'a> {
    pub(super) fn of(told: &'a [Told]) -> Self {
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
                    if let Some(text) = text.as_deref().filter(|_| first == last) {
                        logged.texts.entry(*first).or_default().push(text);
                    }
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

    /// The digest of the last texts that were logged of these messages of a pack; none if one is
    /// missing.
    pub(super) fn digest(&self, mut seqs: RangeInclusive<u64>, pack: u64) -> Option<Digest> {
        seqs.try_fold(Digest::default(), |mut digest, seq| {
            let text = self.texts.get(&seq)?.last()?;
            digest.add(seq - pack, text.as_bytes());
            Some(digest)
        })
    }

    pub(super) fn is_regressed(&self, seq: u64) -> bool {
        let mut all = self.regressed.iter();
        all.any(|(first, last, _)| (*first..=*last).contains(&seq))
    }
}

/// A published pack.
#[derive(Debug)]
pub(super) struct Pack {
    pub(super) last: u64,
    pub(super) at_us: u64,
}

/// A digest of the texts of some messages of a pack, as they were published or handled.
#[derive(Debug)]
pub(super) struct Digested {
    pub(super) seqs: RangeInclusive<u64>,
    pub(super) digest: Digest,
}

/// All packs, by their first number.
#[derive(Debug, Default)]
pub(super) struct Packs(BTreeMap<u64, Pack>);

impl Packs {
    pub(super) fn contains(&self, seq: u64) -> bool {
        self.of(seq).is_some()
    }

    /// The pack of a message, with its first number.
    pub(super) fn of(&self, seq: u64) -> Option<(u64, &Pack)> {
        let pack = self.0.range(..=seq).next_back();
        pack.map(|(first, pack)| (*first, pack))
            .filter(|(_, pack)| seq <= pack.last)
    }
}

/// The surviving timeline.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) packs: Packs,
    pub(super) digests: Vec<Digested>,
    /// The numbers that have ended.
    pub(super) ended: HashSet<u64>,
    pub(super) void: u64,
}

impl End {
    pub(super) fn of(ledger: &Ledger) -> Self {
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
                        at_us: *at_us,
                    };
                    end.packs.0.insert(*first, pack);
                    end.digests.push(Digested {
                        seqs: *first..=*last,
                        digest: *digest,
                    });
                }
                Entry::Ended {
                    first,
                    last,
                    digest,
                    ..
                } => {
                    end.ended.extend(*first..=*last);
                    end.digests.extend(digest.map(|digest| Digested {
                        seqs: *first..=*last,
                        digest,
                    }));
                }
                Entry::Void { first, last, .. } => end.void += last - first + 1,
                // It has to end once more, from a pack of its own: another digest.
                Entry::Retried { seq, .. } | Entry::Delayed { seq, .. } => {
                    end.ended.remove(seq);
                    end.digests.retain(|range| !range.seqs.contains(seq));
                }
            }
        }
        end
    }
}

pub(super) fn us(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}
