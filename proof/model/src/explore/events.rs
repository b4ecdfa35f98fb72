//! What a step brought about: a property that holds because nothing happened proves nothing.

use std::ops::BitOrAssign;

use super::World;
use crate::call::{Call, Delay, Reply, Settled};
use crate::state::Suspects;
use crate::step::POISON_DEATHS;

/// A set of events, each of which some step of a scenario must show.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Events(u64);

impl Events {
    pub(super) const SEALED: Self = Self(1);
    pub(super) const TAKEOVER: Self = Self(1 << 1);
    pub(super) const FENCED: Self = Self(1 << 2);
    pub(super) const ALREADY: Self = Self(1 << 3);
    pub(super) const GAP: Self = Self(1 << 4);
    pub(super) const LOST: Self = Self(1 << 5);
    pub(super) const FULL: Self = Self(1 << 6);
    pub(super) const SPLIT: Self = Self(1 << 7);
    pub(super) const POISON: Self = Self(1 << 8);
    pub(super) const PARTIAL: Self = Self(1 << 9);
    pub(super) const DRAINED: Self = Self(1 << 10);
    pub(super) const DROPPED: Self = Self(1 << 11);
    pub(super) const RETRIED: Self = Self(1 << 12);
    pub(super) const RETRIED_IN_PACK: Self = Self(1 << 13);
    pub(super) const MISSING: Self = Self(1 << 14);
    pub(super) const CLEARED: Self = Self(1 << 15);
    pub(super) const POSTPONED: Self = Self(1 << 16);

    pub(super) const UNSTAGED: Self = Self(1 << 17);
    pub(super) const DELAYED_IN_PACK: Self = Self(1 << 18);
    pub(super) const DELAYED_ALONE: Self = Self(1 << 19);
    pub(super) const DELAYED_AGAIN: Self = Self(1 << 20);
    pub(super) const DONE_LATER: Self = Self(1 << 21);
    pub(super) const FAILED_LAST: Self = Self(1 << 22);
    pub(super) const POISON_LATER: Self = Self(1 << 23);
    pub(super) const SHRUNK: Self = Self(1 << 24);
    pub(super) const REOPENED: Self = Self(1 << 25);
    pub(super) const CURSOR_ALONE: Self = Self(1 << 26);
    pub(super) const GIVEN_UP: Self = Self(1 << 27);
    pub(super) const PAUSED_PUBLISH: Self = Self(1 << 28);
    pub(super) const PAUSED_CLAIM: Self = Self(1 << 29);
    pub(super) const PAUSED_TAKEOVER: Self = Self(1 << 30);
    pub(super) const PAUSED_END: Self = Self(1 << 31);
    pub(super) const SENT_AGAIN: Self = Self(1 << 32);
    pub(super) const VOIDED: Self = Self(1 << 33);
    pub(super) const KNOWN: Self = Self(1 << 34);
    pub(super) const HOLDER_BACK: Self = Self(1 << 35);
    pub(super) const CONFIRMED_BEFORE: Self = Self(1 << 36);
    pub(super) const CONFIRMED_AFTER: Self = Self(1 << 37);
    pub(super) const UNCONFIRMED: Self = Self(1 << 38);

    pub(super) const HANDED: Self = Self(1 << 39);
    pub(super) const HANDED_PART: Self = Self(1 << 40);
    pub(super) const HANDED_UNHEARD: Self = Self(1 << 41);

    /// A bit per event.
    pub(super) const fn bits(self) -> u64 {
        self.0
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Two states are the same whatever the step before them did.
impl PartialEq for Events {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Events {}
impl std::hash::Hash for Events {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl World {
    /// The event of a call while a part of the fleet is paused.
    pub(super) fn event_of_pause(&self, call: &Call, reply: &Reply) -> Events {
        let paused = &self.redis.fence.paused;
        match (call, reply) {
            (Call::Publish { .. }, Reply::Paused) => Events::PAUSED_PUBLISH,
            (Call::Claim { .. }, Reply::Paused) => Events::PAUSED_CLAIM,
            (Call::Seal { epoch, .. }, Reply::Sealed { .. })
                if paused.generator.is_some() && *epoch > 1 =>
            {
                Events::PAUSED_TAKEOVER
            }
            (Call::Commit { .. }, Reply::Done) if paused.workers.is_some() => Events::PAUSED_END,
            _ => Events::default(),
        }
    }

    /// The event of a call and its answer.
    pub(super) fn event_of(&self, call: &Call, reply: &Reply) -> Events {
        match (call, reply) {
            (_, Reply::Fenced { .. }) => Events::FENCED,
            (_, Reply::Already | Reply::AlreadyPublished { .. }) => Events::ALREADY,
            (_, Reply::Gap { .. }) => Events::GAP,
            (_, Reply::Missing) => Events::UNSTAGED,
            (Call::Publish { texts, .. }, Reply::Published) if texts.is_empty() => {
                Events::CURSOR_ALONE
            }
            (
                Call::Beat {
                    candidate: false, ..
                },
                Reply::Worker { holder: None, .. },
            ) => Events::GIVEN_UP,
            (Call::Commit { .. }, Reply::Lost) => Events::LOST,
            (_, Reply::Full { .. }) => Events::FULL,
            (_, Reply::Claimed { range, .. }) if range.size() < range.count => Events::SPLIT,
            (Call::ErrorsCommit { removed, .. }, Reply::Done) if *removed > 0 => Events::DRAINED,
            (_, Reply::Settled(settled)) => self.event_of_settle(settled),
            (Call::Commit { delayed, .. }, Reply::Done) => self.event_of_delays(delayed),
            (Call::GiveBack { keep: Some(_), .. }, Reply::GivenBack) => Events::SHRUNK,
            _ => Events::default(),
        }
    }

    fn event_of_delays(&self, delayed: &[Delay]) -> Events {
        let mut events = Events::default();
        for range in self.redis.delayed() {
            if delayed.iter().any(|delay| delay.seq == range.first) {
                events |= match range.count {
                    1 => Events::DELAYED_ALONE,
                    _ => Events::DELAYED_IN_PACK,
                };
            }
        }
        events
    }

    fn event_of_settle(&self, settled: &[Settled]) -> Events {
        let newest = self.redis.waiting().last();
        match settled {
            [Settled::Dropped] => Events::DROPPED,
            [Settled::Retried] if newest.is_some_and(|range| range.count > 1) => {
                Events::RETRIED_IN_PACK
            }
            [Settled::Retried] => Events::RETRIED,
            _ => Events::MISSING,
        }
    }

    /// What a claim decided about `suspects`, those of the first range. `failed` is how many
    /// messages had failed before it.
    pub(super) fn event_of_claim(&self, suspects: Suspects, failed: u64, reply: &Reply) -> Events {
        let back = suspects.nodes & self.redis.present;
        let gone = Suspects::new(suspects.nodes & !back, suspects.since, suspects.run_id);
        match reply {
            _ if self.redis.failed > failed => match self.redis.errors.values().last() {
                Some(record) if record.first_reason.is_some() => Events::POISON_LATER,
                _ => Events::POISON,
            },
            Reply::Claimed { .. } if back != 0 => Events::CLEARED,
            Reply::Claimed { .. } | Reply::Empty if gone.count() >= POISON_DEATHS => {
                Events::POSTPONED
            }
            _ => Events::default(),
        }
    }
}
