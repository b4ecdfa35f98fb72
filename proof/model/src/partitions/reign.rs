//! A generator of a fleet with partitions, as a client of the scripts.

use super::history::Violation;
use super::parking::{Parcel, place_of};
use super::partition::{Position, Progress};
use super::{Flaw, Fleet, PARTITIONS, Request, SentCall};
use crate::call::{Call, Reply, Staging};
use crate::explore::source;
use crate::state::{Node, Seq, Text};

/// Packs under way at once.
const WINDOW: usize = 2;

/// What a node does under one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reign {
    pub(super) epoch: u64,
    /// The next number of each partition that it has sealed.
    pub(super) next: [Option<Seq>; PARTITIONS],
    /// Where the source stood in each partition that it has sealed, until it opens its source.
    pub(super) stored: [Option<Position>; PARTITIONS],
    /// What the node keeps of its reign before, until it opens its source.
    pub(super) kept: Vec<Prepared>,
    /// A flaw: the parked packs, as it read them before it had sealed all.
    pub(super) read_early: Option<Vec<Parcel>>,
    /// Its open source; none before all partitions are sealed.
    pub(super) source: Option<Source>,
}

/// An open source, and what the partitions have not acknowledged of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) position: Position,
    /// Where it stands behind what Redis has of it: it is opened there again if it fails.
    pub(super) stored: Position,
    /// The partition that has the newest messages, or gets them.
    pub(super) current: usize,
    /// Packs that are not acknowledged, the oldest first.
    pub(super) packs: Vec<Prepared>,
}

/// A pack that has its numbers; without texts, a cursor alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Prepared {
    pub(super) to: usize,
    pub(super) first: Seq,
    pub(super) texts: Vec<Text>,
    /// Where the source stands after it.
    pub(super) after: Position,
    /// Whether the partition may have it: the answer was lost.
    pub(super) maybe_there: bool,
    /// Whether the other partition has a copy.
    pub(super) copies: Copies,
}

/// Whether the other partition has a copy of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Copies {
    /// It has none.
    None,
    /// Perhaps: no answer came.
    Sent,
    /// It answered that it has. The pack's own partition gets no other packs until it has accepted it.
    Parked,
    /// It had one when the reign began.
    Inherited,
}

impl Prepared {
    /// Whether a successor would find it, so that rows may go on to another partition.
    fn is_safe(&self, flaw: Option<Flaw>) -> bool {
        match self.copies {
            Copies::None => false,
            Copies::Sent => flaw == Some(Flaw::GoesOnUnparked),
            Copies::Parked | Copies::Inherited => true,
        }
    }
}

/// The packs of a reign that is over which were not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    epoch: u64,
    packs: Vec<Prepared>,
}

impl Reign {
    fn new(epoch: u64, kept: Option<Kept>) -> Self {
        // Under a later epoch, another generator has reigned in between.
        let kept = kept.filter(|kept| kept.epoch + 1 == epoch);
        Self {
            epoch,
            next: [None; PARTITIONS],
            stored: [None; PARTITIONS],
            kept: kept.map_or_else(Vec::new, |kept| kept.packs),
            read_early: None,
            source: None,
        }
    }

    /// What the node's next reign may send again. A reign that has not sealed all knows nothing.
    fn into_kept(self) -> Option<Kept> {
        let packs = self.source?.packs;
        let epoch = self.epoch;
        (!packs.is_empty()).then_some(Kept { epoch, packs })
    }

    fn packs(&self) -> &[Prepared] {
        self.source.as_ref().map_or(&[], |source| &source.packs)
    }

    /// What it sent and no partition has acknowledged.
    pub(super) fn packs_mut(&mut self) -> impl Iterator<Item = &mut Prepared> {
        self.source.iter_mut().flat_map(|source| &mut source.packs)
    }

    /// The packs of the current partition that are not parked.
    pub(super) fn unparked(&self) -> impl Iterator<Item = &Prepared> {
        let current = self.current();
        let packs = self.packs().iter();
        packs.filter(move |pack| Some(pack.to) == current && pack.copies != Copies::Parked)
    }

    /// Redis has what the source made up to here.
    pub(super) fn note_stored(&mut self, after: Position) {
        if let Some(source) = &mut self.source {
            source.stored = source.stored.max(after);
        }
    }

    /// Whether its source may fail now, and would be opened again elsewhere: only when some partition has
    /// nothing under way, and could have the turn.
    pub(super) fn may_fail(&self, flaw: Option<Flaw>) -> bool {
        let Some(source) = &self.source else {
            return false;
        };
        let is_idle = |to: usize| source.packs.iter().all(|pack| pack.to != to);
        source.stored.cursor != source.position.cursor
            && source.packs.iter().all(|pack| pack.is_safe(flaw))
            && (0..PARTITIONS).any(is_idle)
    }

    /// Its epoch.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether it has sealed some partitions and not all.
    pub(super) fn is_half_sealed(&self) -> bool {
        self.next.iter().any(Option::is_some) && self.next.iter().any(Option::is_none)
    }

    /// How many rows its source has made, if it may make more for this partition now: not while it has
    /// parked packs, nor while the other one has packs that a successor would not find.
    pub(super) fn rows_if_ready(&self, to: usize, flaw: Option<Flaw>) -> Option<u64> {
        let source = self.source.as_ref()?;
        let (own, others): (Vec<_>, Vec<_>) = source.packs.iter().partition(|it| it.to == to);
        let may_change = flaw == Some(Flaw::ChangesEarly);
        let is_ready = self.next[to].is_some()
            && own.len() < WINDOW
            && own.iter().all(|pack| pack.copies != Copies::Parked)
            && (may_change || others.iter().all(|pack| pack.is_safe(flaw)));
        is_ready.then(|| source::rows_before(source.position.cursor))
    }

    /// Whether it may store a cursor alone in this partition.
    pub(super) fn may_go_further(&self, to: usize, flaw: Option<Flaw>) -> bool {
        let cursor = self.source.as_ref().map(|source| source.position.cursor);
        self.rows_if_ready(to, flaw).is_some()
            && cursor.is_some_and(|cursor| source::cursor_further(cursor) != cursor)
    }

    /// The partition that has the newest messages.
    pub(super) fn current(&self) -> Option<usize> {
        self.source.as_ref().map(|source| source.current)
    }

    /// Whether it has sealed enough to open its source.
    pub(super) fn may_open(&self, flaw: Option<Flaw>) -> bool {
        let mut next = self.next.iter();
        match flaw {
            Some(Flaw::PublishesBeforeSealed) => next.any(Option::is_some),
            _ => next.all(Option::is_some),
        }
    }

    pub(super) fn call(&self, node: Node, pack: &Prepared) -> SentCall {
        let call = Call::Publish {
            node,
            epoch: self.epoch,
            first: pack.first,
            texts: pack.texts.clone(),
            bytes: 0,
            origin: self.epoch,
            staging: Staging::Inline,
            cursor: pack.after.cursor,
            max_open: u64::MAX,
            ttl: 0,
            micros: 0,
            audited: false,
        };
        SentCall {
            by: node,
            to: pack.to,
            request: Request::Script(call, pack.after.made),
        }
    }
}

impl Fleet {
    /// Whether the answer to a beat tells a node something new.
    pub(super) fn hears_in_beat(&self, node: Node, reply: &Reply) -> bool {
        let client = &self.nodes[node as usize];
        match reply {
            Reply::Generator { epoch, .. } => {
                let last = client.reign.as_ref().map_or(client.above, Reign::epoch);
                *epoch > last
            }
            _ => client.reign.is_some(),
        }
    }

    /// A node gets the answer to its beat. If it has the lease, it seals all partitions.
    pub(super) fn hear_beat(&mut self, node: Node, reply: &Reply) {
        if !self.hears_in_beat(node, reply) {
            return;
        }
        self.step_down(node, 0);
        let kept = self.client(node).kept.take();
        let Reply::Generator { epoch, .. } = *reply else {
            return;
        };
        let mut reign = Reign::new(epoch, kept);
        let second = &self.partitions[1];
        if self.flaw == Some(Flaw::SkipsSecondSeal) && second.epoch() > 0 {
            reign.next[1] = Some(second.last() + 1);
            reign.stored[1] = Some(second.position());
        }
        for to in (0..PARTITIONS).filter(|to| reign.next[*to].is_none()) {
            self.seal(node, to, epoch);
        }
        self.client(node).reign = Some(reign);
    }

    fn seal(&mut self, node: Node, to: usize, epoch: u64) {
        let call = Call::Seal { node, epoch };
        self.send(SentCall {
            by: node,
            to,
            request: Request::Script(call, Progress::default()),
        });
    }

    /// A reign ends. The node's next lease must have a higher epoch than its own and `fenced`.
    pub(super) fn step_down(&mut self, node: Node, fenced: u64) {
        let client = self.client(node);
        if let Some(reign) = client.reign.take() {
            client.above = client.above.max(reign.epoch);
            client.kept = reign.into_kept();
        }
        client.above = client.above.max(fenced);
        self.forget_kept();
    }

    /// Forgets what no reign can send again, because another node has taken the lease. A lease that a
    /// failover brings back could be taken under the same epoch again.
    pub(super) fn forget_kept(&mut self) {
        if self.faults.control_failovers > 0 {
            return;
        }
        let (holder, epoch) = (self.control.holder(), self.control.epoch());
        for (node, client) in (0..).zip(&mut self.nodes) {
            let next = if holder == Some(node) {
                epoch
            } else {
                epoch + 1
            };
            client.kept.take_if(|kept| kept.epoch + 1 < next);
        }
    }

    /// A node gets the answer to its seal; none if the answer is lost.
    pub(super) fn hear_seal(&mut self, node: Node, to: usize, epoch: u64, reply: Option<&Reply>) {
        let flaw = self.flaw;
        let stored = self.partitions[to].position();
        let read_early = self.read_early(reply);
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        if reign.epoch != epoch || reign.next[to].is_some() {
            return;
        }
        match reply {
            None => self.seal(node, to, epoch),
            Some(Reply::Sealed { last, .. }) => {
                reign.next[to] = Some(last + 1);
                reign.stored[to] = Some(stored);
                reign.read_early = reign.read_early.take().or(read_early);
                if reign.source.is_none() && reign.may_open(flaw) {
                    self.open(node);
                }
            }
            Some(Reply::Fenced { .. }) if flaw == Some(Flaw::SealsUnderSameEpoch) => {
                self.client(node).reign = None;
            }
            Some(Reply::Fenced { epoch, .. }) => self.step_down(node, *epoch),
            Some(_) => {}
        }
    }

    /// Makes a pack of the next rows for a partition; without rows, a cursor alone.
    pub(super) fn generate(&mut self, node: Node, to: usize, count: u64) {
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        let epoch = reign.epoch;
        let (Some(source), Some(next)) = (&mut reign.source, &mut reign.next[to]) else {
            return;
        };
        let before = source::rows_before(source.position.cursor);
        source.position.made.packs += 1;
        source.position.made.messages += count;
        source.position.cursor = match count {
            0 => source::cursor_further(source.position.cursor),
            _ => source::cursor_after(before + count),
        };
        let rows = before + 1..=before + count;
        let pack = Prepared {
            to,
            first: *next,
            texts: rows.map(|row| source::text(row, epoch)).collect(),
            after: source.position,
            maybe_there: false,
            copies: Copies::None,
        };
        *next += count;
        source.packs.push(pack.clone());
        source.current = to;
        let sent = reign.call(node, &pack);
        self.send(sent);
    }

    /// A node gets the answer to its publish; none if the answer is lost. Then it sends the pack again.
    pub(super) fn hear_publish(&mut self, sent: &SentCall, reply: Option<&Reply>) {
        let node = sent.by;
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        let is_it = |pack: &Prepared| reign.call(node, pack) == *sent;
        let packs = reign.source.iter().flat_map(|source| &source.packs);
        let Some(at) = packs.into_iter().position(is_it) else {
            return;
        };
        let next = reign.next[sent.to].unwrap_or(0);
        let Some(source) = &mut reign.source else {
            return;
        };
        let follows = source.packs[..at].iter().any(|pack| pack.to == sent.to);
        let pack = &mut source.packs[at];
        let is_cursor = pack.texts.is_empty();
        match reply {
            None => {
                pack.maybe_there = true;
                self.send(sent.clone());
            }
            Some(Reply::Published) => self.accept(node, at),
            Some(Reply::AlreadyPublished { last })
                if (pack.maybe_there || is_cursor) && *last < next =>
            {
                self.accept(node, at);
            }
            Some(Reply::Fenced { .. }) if self.flaw == Some(Flaw::FencedGoesOn) => match at {
                0 => self.redirect(node),
                _ => self.send(sent.clone()),
            },
            Some(Reply::Fenced { epoch, .. }) => self.step_down(node, *epoch),
            // The pack before it comes later.
            Some(Reply::Gap { .. }) if follows => self.send(sent.clone()),
            Some(_) => {
                self.history.note(Violation::WrongNumber);
                self.step_down(node, 0);
            }
        }
    }

    /// A partition has acknowledged a pack.
    fn accept(&mut self, node: Node, at: usize) {
        let flaw = self.flaw;
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        let Some(source) = &mut reign.source else {
            return;
        };
        let pack = source.packs.remove(at);
        match (flaw, pack.copies) {
            // The partition may have the turn, and keeps it now.
            (Some(Flaw::StoredGoesBack), Copies::Inherited)
                if source.packs.iter().all(|other| other.to != pack.to) =>
            {
                source.stored = pack.after;
            }
            _ => source.stored = source.stored.max(pack.after),
        }
        let epoch = reign.epoch;
        // A cursor alone has the first number of the pack behind it, and no copy.
        let has_copy = !pack.texts.is_empty() || flaw == Some(Flaw::CursorRemovesCopy);
        if has_copy && pack.copies != Copies::None {
            let field = (pack.to, pack.first);
            self.unpark(node, epoch, place_of(pack.to), vec![field]);
        }
        let partition = &self.partitions[pack.to];
        if !pack.texts.is_empty() && !partition.has(pack.first, &pack.texts) {
            self.history.note(Violation::BelievedUntrue);
        }
        let row = source::rows_before(pack.after.cursor);
        self.history.acknowledged = self.history.acknowledged.max(row);
        if self.may_forget {
            let rows = pack.texts.iter().map(|text| source::row_of(*text));
            let given = (pack.first..).zip(rows);
            let given = given.map(|(seq, row)| ((pack.to, seq), row));
            self.history.given.extend(given);
        }
    }

    /// A source fails. It is opened again behind what Redis has of it.
    pub(super) fn fail_source(&mut self, node: Node) {
        let reign = self.client(node).reign.as_mut();
        if let Some(source) = reign.and_then(|reign| reign.source.as_mut()) {
            source.position.cursor = source.stored.cursor;
        }
    }

    /// A flaw: gives the rows of the oldest pack, which was fenced, to the other partition.
    fn redirect(&mut self, node: Node) {
        let Some(reign) = &mut self.client(node).reign else {
            return;
        };
        let Some(source) = &mut reign.source else {
            return;
        };
        let pack = &mut source.packs[0];
        reign.next[pack.to] = None;
        pack.to = PARTITIONS - 1 - pack.to;
        let Some(next) = &mut reign.next[pack.to] else {
            return self.step_down(node, 0);
        };
        pack.first = *next;
        *next += pack.texts.len() as Seq;
        source.current = pack.to;
        let pack = pack.clone();
        let sent = reign.call(node, &pack);
        self.send(sent);
    }
}
