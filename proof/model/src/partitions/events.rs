//! What a step brought about: a property that holds because nothing happened proves nothing.

use std::ops::BitOrAssign;

use super::{Fleet, Request, SentCall};
use crate::call::{Call, Reply};
use crate::explore::source;
use crate::state::{Node, Seq};

/// A set of events, each of which some step of a scenario must show.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Events(u32);

impl Events {
    pub(super) const TAKEOVER: Self = Self(1);
    pub(super) const AFTER_HALF_SEAL: Self = Self(1 << 1);
    pub(super) const STALE_REFUSED: Self = Self(1 << 2);
    pub(super) const OLD_ACCEPTED: Self = Self(1 << 3);
    pub(super) const OLD_CHANGES: Self = Self(1 << 4);
    pub(super) const BOTH_HAVE_ROWS: Self = Self(1 << 5);
    pub(super) const ALREADY: Self = Self(1 << 6);
    pub(super) const UNHEARD_WAS_THERE: Self = Self(1 << 7);
    pub(super) const GAP: Self = Self(1 << 8);
    pub(super) const SEAL_REFUSED: Self = Self(1 << 9);
    pub(super) const LATE_SEAL_OF_DEAD: Self = Self(1 << 10);
    pub(super) const CURSOR_ALONE: Self = Self(1 << 11);
    pub(super) const ONE_EPOCH: Self = Self(1 << 12);
    pub(super) const FORGOT: Self = Self(1 << 13);
    pub(super) const PARK_REFUSED: Self = Self(1 << 14);
    pub(super) const UNPARK_REFUSED: Self = Self(1 << 15);
    pub(super) const PARKED_PUBLISHED: Self = Self(1 << 16);
    pub(super) const PARKED_WAS_THERE: Self = Self(1 << 17);
    pub(super) const ROWS_ELSEWHERE: Self = Self(1 << 18);
    pub(super) const KEPT_SENT_AGAIN: Self = Self(1 << 19);

    /// A bit per event.
    pub(super) const fn bits(self) -> u32 {
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

impl Fleet {
    /// Whether a newer generator has sealed some partition, but not this one.
    fn is_between_seals(&self, epoch: u64, to: usize) -> bool {
        let is_newer = |at: usize| self.partitions[at].epoch() > epoch;
        !is_newer(to) && (0..self.partitions.len()).any(is_newer)
    }

    /// The event of a call that is going to be executed.
    pub(super) fn event_before(&self, sent: &SentCall) -> Events {
        match &sent.request {
            Request::Script(Call::Seal { epoch, .. }, _) => {
                let partition = &self.partitions[sent.to];
                let is_dead = self.nodes[sent.by as usize].dead;
                match partition.epoch() < *epoch && is_dead {
                    true => Events::LATE_SEAL_OF_DEAD,
                    false => Events::default(),
                }
            }
            _ => Events::default(),
        }
    }

    /// The event of a call and its answer.
    pub(super) fn event_of(&self, sent: &SentCall, reply: &Reply) -> Events {
        let mut events = match &sent.request {
            Request::Script(call, _) => self.event_of_script(sent, call, reply),
            Request::Park { .. } if matches!(reply, Reply::Fenced { .. }) => Events::PARK_REFUSED,
            Request::Unpark { .. } if matches!(reply, Reply::Fenced { .. }) => {
                Events::UNPARK_REFUSED
            }
            Request::Park { .. } | Request::Unpark { .. } => Events::default(),
        };
        if self.partitions.iter().all(|partition| partition.last() > 0) {
            events |= Events::BOTH_HAVE_ROWS;
        }
        if self.is_sealed_by_two() {
            events |= Events::ONE_EPOCH;
        }
        events
    }

    fn event_of_script(&self, sent: &SentCall, call: &Call, reply: &Reply) -> Events {
        match (call, reply) {
            (Call::Publish { epoch, .. }, Reply::Published)
                if self.is_between_seals(*epoch, sent.to) =>
            {
                Events::OLD_ACCEPTED
            }
            (Call::Publish { texts, .. }, Reply::Published) if texts.is_empty() => {
                Events::CURSOR_ALONE
            }
            (Call::Publish { .. }, Reply::AlreadyPublished { .. }) => Events::ALREADY,
            (Call::Publish { .. }, Reply::Gap { .. }) => Events::GAP,
            (Call::Publish { .. }, Reply::Fenced { .. }) => Events::STALE_REFUSED,
            (Call::Publish { epoch, first, .. }, Reply::Published)
                if self.is_inherited(*epoch, sent.to, *first) =>
            {
                Events::PARKED_PUBLISHED
            }
            (Call::Publish { .. }, Reply::Published) if self.waiting().any(|p| p.to != sent.to) => {
                Events::ROWS_ELSEWHERE
            }
            (Call::Seal { .. }, Reply::Fenced { .. }) => Events::SEAL_REFUSED,
            _ => Events::default(),
        }
    }

    /// Whether a reign publishes a pack that an older generator parked.
    fn is_inherited(&self, epoch: u64, to: usize, first: Seq) -> bool {
        let parcels = self.partitions.iter().flat_map(|it| it.parked());
        let mut texts = parcels.filter(|parcel| parcel.field() == (to, first));
        texts.any(|parcel| {
            parcel
                .texts
                .iter()
                .all(|text| source::opening_of(*text) < epoch)
        })
    }

    /// Whether two nodes have sealed a partition each, under one epoch.
    fn is_sealed_by_two(&self) -> bool {
        let [first, second] = &self.partitions;
        first.epoch() == second.epoch() && first.sealed_by() != second.sealed_by()
    }

    /// The event of a generator that makes a pack for a partition.
    pub(super) fn event_of_generate(&self, node: Node, to: usize) -> Events {
        match &self.nodes[node as usize].reign {
            Some(reign)
                if reign.current() != Some(to) && self.is_between_seals(reign.epoch(), to) =>
            {
                Events::OLD_CHANGES
            }
            _ => Events::default(),
        }
    }

    /// The event of a generator that opens its source.
    pub(super) fn event_of_opening(&self, epoch: u64) -> Events {
        let mut events = Events::default();
        let rows = self.rows_published();
        if epoch > 1 && rows > 0 {
            events |= Events::TAKEOVER;
        }
        if self.history.died_between_seals {
            events |= Events::AFTER_HALF_SEAL;
        }
        if rows > self.history.acknowledged {
            events |= Events::UNHEARD_WAS_THERE;
        }
        events
    }
}
