//! A generator as a client of the scripts: crates/baton/src/node/generator.rs, without its clock.

use super::opening::{Kept, Opening};
use super::source::SourceKind;
use super::{CallState, Events, World, source};
use crate::call::{Call, Reply, Staging};
use crate::flaw::Flaw;
use crate::state::{Node, Origin, Seq, Text};

/// Packs under way at once.
const WINDOW: usize = 2;

/// The word that a generator draws when it opens its source, so many times under this epoch before.
/// A real one is random.
fn word(node: Node, epoch: u64, openings: u64) -> Origin {
    epoch * 10_000 + openings * 100 + Origin::from(node) + 2
}

/// What a node knows of its right to generate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Generator {
    /// It does not hold the lease.
    #[default]
    Standby,
    /// It holds the lease, and raises the fence. It has opened its source so many times.
    Sealing { epoch: u64, openings: u64 },
    /// It has raised the fence, and publishes.
    Publishing(Publishing),
}

impl Generator {
    /// Its epoch; none if it does not hold the lease.
    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Standby => None,
            Self::Sealing { epoch, .. } => Some(*epoch),
            Self::Publishing(publishing) => Some(publishing.epoch),
        }
    }
}

/// A pack that has its numbers, or numbers that are void.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Prepared {
    pub(super) first: Seq,
    texts: Vec<Text>,
    /// How many numbers are void; 0 if it is a pack.
    void: u64,
    origin: Origin,
    pub(super) cursor: u64,
    /// Where the source stood before it.
    pub(super) cursor_before: u64,
    /// The node's number of these texts, if it stages packs.
    stage: Option<u64>,
    /// Whether Redis has them staged: it answered, and did not accept the pack.
    is_staged: bool,
    /// Whether Redis may have it under its numbers: the answer was lost.
    maybe_there: bool,
    /// Whether Redis has confirmed it.
    pub(super) is_confirmed: bool,
}

impl Prepared {
    /// Numbers that have no message.
    pub(super) fn void(first: Seq, last: Seq) -> Self {
        Self {
            first,
            texts: Vec::new(),
            void: last - first + 1,
            origin: 0,
            cursor: 0,
            cursor_before: 0,
            stage: None,
            is_staged: false,
            maybe_there: false,
            is_confirmed: false,
        }
    }

    /// Its last number; the one before it, if it is a cursor alone.
    pub(super) fn last(&self) -> Seq {
        self.first + self.texts.len() as u64 + self.void - 1
    }

    pub(super) fn is_void(&self) -> bool {
        self.void > 0
    }

    pub(super) fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    fn staging(&self) -> Staging {
        match (self.stage, self.is_staged) {
            (None, _) => Staging::Inline,
            (Some(stage), false) => Staging::Now(stage),
            (Some(stage), true) => Staging::Before(stage),
        }
    }
}

/// The answer to a publish.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Answer {
    Accepted,
    /// The queue is full, or the generator is paused: it sends the pack again later.
    Waits,
    Missing,
    Gap {
        last: Seq,
    },
    /// The last number is one that this generator did not write.
    Foreign,
    Fenced {
        epoch: u64,
    },
}

/// What a generator has to publish under one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Publishing {
    epoch: u64,
    /// How often it opened its source under this epoch before.
    openings: u64,
    next: Seq,
    /// Where its source stands.
    cursor: u64,
    /// Packs to send, or to send again.
    unsent: Vec<Prepared>,
    in_flight: Vec<(Prepared, CallState<Answer>)>,
    /// Confirmed packs, which a failover may lose.
    confirmed: Vec<Prepared>,
    /// The highest number that Redis confirmed, and the cursor that it has then.
    accepted: (Seq, u64),
}

impl Publishing {
    /// How many rows its source has made.
    pub(super) fn rows(&self) -> u64 {
        source::rows_before(self.cursor)
    }

    /// Whether a cursor alone would tell Redis something new.
    pub(super) fn may_go_further(&self) -> bool {
        source::cursor_further(self.cursor) != self.cursor
    }

    /// Whether Redis has confirmed all that it made.
    pub(super) fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.in_flight.is_empty()
    }

    /// Whether it may make a new pack.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.is_empty() && self.in_flight.len() < WINDOW
    }

    /// Whether it must send a pack again.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() && self.in_flight.len() < WINDOW
    }

    /// Whether it still has a confirmed pack.
    pub(super) fn has_confirmed(&self) -> bool {
        !self.confirmed.is_empty()
    }

    fn call(&self, node: Node, prepared: &Prepared, max_open: u64) -> Call {
        if prepared.is_void() {
            return Call::Void {
                node,
                epoch: self.epoch,
                first: prepared.first,
                last: prepared.last(),
                audited: false,
            };
        }
        Call::Publish {
            node,
            epoch: self.epoch,
            first: prepared.first,
            texts: prepared.texts.clone(),
            bytes: 0,
            origin: prepared.origin,
            staging: prepared.staging(),
            cursor: prepared.cursor,
            max_open,
            ttl: super::TTL,
            // No two packs are published at one moment.
            micros: prepared.first,
            audited: false,
        }
    }

    /// Reads the answer to the publish of a pack; none if it is lost.
    fn read(&self, prepared: &Prepared, reply: Option<&Reply>) -> CallState<Answer> {
        let Some(reply) = reply else {
            return CallState::ReplyLost;
        };
        CallState::Answered(match reply {
            Reply::Published => Answer::Accepted,
            // Every number before the next one was sent. A cursor alone need not be there: a pack
            // behind it brought a later one.
            Reply::AlreadyPublished { last }
                if (prepared.maybe_there || prepared.last() < prepared.first)
                    && *last < self.next =>
            {
                Answer::Accepted
            }
            Reply::AlreadyPublished { .. } => Answer::Foreign,
            Reply::Gap { last } if *last >= prepared.first => Answer::Foreign,
            Reply::Gap { last } => Answer::Gap { last: *last },
            Reply::Fenced { epoch, .. } => Answer::Fenced { epoch: *epoch },
            Reply::Missing => Answer::Missing,
            _ => Answer::Waits,
        })
    }

    fn confirm(&mut self, mut prepared: Prepared, flaw: Option<Flaw>) {
        (prepared.is_staged, prepared.maybe_there) = (false, true);
        prepared.is_confirmed = true;
        let last = prepared.last();
        // A pack whose answer was lost may be confirmed after those behind it.
        if last >= self.accepted.0 || flaw == Some(Flaw::AcceptedGoesBack) {
            let cursor = match prepared.is_void() {
                true => self.accepted.1,
                false => prepared.cursor,
            };
            self.accepted = (last, cursor);
        }
        self.confirmed.push(prepared);
    }

    /// Begins to publish behind this number.
    pub(super) fn begin(opening: Opening, last: Seq) -> Self {
        let Opening {
            epoch,
            openings,
            cursor,
        } = opening;
        Self {
            epoch,
            openings,
            next: last + 1,
            cursor,
            unsent: Vec::new(),
            in_flight: Vec::new(),
            confirmed: Vec::new(),
            accepted: (last, cursor),
        }
    }

    /// Adds what is to be sent behind all that waits.
    pub(super) fn add(&mut self, prepared: Prepared) {
        self.next = prepared.last() + 1;
        if !prepared.is_void() {
            self.cursor = prepared.cursor;
        }
        self.unsent.push(prepared);
    }

    /// The number of the next new message.
    pub(super) fn next(&self) -> Seq {
        self.next
    }

    /// Whether it has a pack that begins with this number.
    fn has_pack(&self, first: Seq) -> bool {
        let mut packs = self.confirmed.iter().chain(&self.unsent);
        packs.any(|prepared| prepared.first == first && prepared.has_texts())
    }

    /// What Redis confirmed, and what it has not confirmed yet. Of what is under way the answer is
    /// lost.
    fn into_packs(mut self) -> Vec<Prepared> {
        let mut packs = self.confirmed;
        packs.extend(self.in_flight.into_iter().map(|(mut prepared, _)| {
            prepared.maybe_there = true;
            prepared
        }));
        packs.append(&mut self.unsent);
        packs
    }

    /// The server's last number is lower than ours. Sends the confirmed packs behind it again. Returns
    /// whether they follow that number; else the source must make again what is lost.
    fn close_gap(&mut self, last: Seq, flaw: Option<Flaw>) -> bool {
        let mut again = std::mem::take(&mut self.confirmed);
        again.retain(|prepared| prepared.first > last);
        again.append(&mut self.unsent);
        if flaw != Some(Flaw::KeptOutOfOrder) {
            // A pack whose answer was lost is confirmed after those behind it, or waits here.
            again.sort_by_key(|prepared| prepared.first);
        }
        self.unsent = again;
        self.accepted.0 = last;
        if flaw == Some(Flaw::GapRenumbers) {
            self.next = last + 1;
            for prepared in &mut self.unsent {
                prepared.first = self.next;
                self.next = prepared.last() + 1;
            }
        }
        let oldest = self.unsent.first().map_or(self.next, |oldest| oldest.first);
        oldest == last + 1
    }
}

impl World {
    /// The highest epoch that a node has had, or knows it must exceed.
    fn last_epoch(&self, node: Node) -> u64 {
        let client = &self.nodes[node as usize];
        client.generator.epoch().unwrap_or(client.above)
    }

    /// Whether the answer to a beat tells a node something new.
    pub(super) fn hears_in_beat(&self, node: Node, reply: &Reply) -> bool {
        match reply {
            Reply::Generator { epoch, .. } => *epoch > self.last_epoch(node),
            Reply::Worker { .. } => {
                let client = &self.nodes[node as usize];
                client.generator != Generator::Standby || client.kept.is_some()
            }
            _ => false,
        }
    }

    /// A node gets the answer to its beat.
    pub(super) fn hear_beat(&mut self, node: Node, reply: &Reply) {
        if let (Some(Flaw::KnowsOnlyOnce), Reply::Generator { last, .. }) = (self.flaw, reply) {
            let client = &mut self.nodes[node as usize];
            client.known = client.known.min(*last);
        }
        if !self.hears_in_beat(node, reply) {
            return;
        }
        self.step_down(node, 0);
        match *reply {
            Reply::Generator { epoch, .. } => self.seal(node, epoch, 0),
            // What the other node publishes may be what this node's source made.
            _ => self.nodes[node as usize].kept = None,
        }
    }

    /// Raises the fence, to open the source behind the last number.
    fn seal(&mut self, node: Node, epoch: u64, openings: u64) {
        self.nodes[node as usize].generator = Generator::Sealing { epoch, openings };
        self.send(node, Call::Seal { node, epoch }, Vec::new());
    }

    /// The source of a node cannot go on: the node never generates again.
    pub(super) fn decline(&mut self, node: Node) {
        self.step_down(node, 0);
        self.nodes[node as usize].declines = true;
    }

    /// A generator steps down. Its next lease must have a higher epoch than its own and `fenced`.
    pub(super) fn step_down(&mut self, node: Node, fenced: u64) {
        let keeps = self.may_forget && self.source != SourceKind::Replays;
        let node = &mut self.nodes[node as usize];
        let generator = std::mem::take(&mut node.generator);
        let epoch = generator.epoch().unwrap_or(0);
        if let Generator::Publishing(publishing) = generator
            && keeps
        {
            let packs = publishing.into_packs();
            node.kept = Some(Kept { epoch, packs });
        }
        node.above = node.above.max(epoch).max(fenced);
    }

    /// A node gets the answer to its seal; none if the answer is lost.
    pub(super) fn hear_seal(&mut self, node: Node, sealed: u64, reply: Option<&Reply>) {
        let Generator::Sealing { epoch, openings } = self.nodes[node as usize].generator else {
            return;
        };
        if epoch != sealed {
            return;
        }
        let Some(reply) = reply else {
            return self.seal(node, epoch, openings);
        };
        match reply {
            Reply::Sealed {
                last,
                cursor,
                known,
            } => {
                self.events |= match last {
                    0 => Events::SEALED,
                    _ => Events::TAKEOVER,
                };
                let opening = Opening {
                    epoch,
                    openings,
                    cursor: *cursor,
                };
                self.open(node, opening, *last, *known);
            }
            Reply::Fenced { epoch, .. } => {
                self.events |= Events::FENCED;
                self.step_down(node, *epoch);
            }
            _ => {}
        }
    }

    /// Makes and sends a pack of the next rows; without rows, where the source stands now.
    pub(super) fn generate(&mut self, node: Node, count: u64) {
        let client = &mut self.nodes[node as usize];
        let Generator::Publishing(publishing) = &mut client.generator else {
            return;
        };
        let first = publishing.next;
        publishing.next += count;
        let before = match self.source {
            SourceKind::NoCursor => first - 1,
            _ => source::rows_before(publishing.cursor),
        };
        let cursor_before = publishing.cursor;
        publishing.cursor = match (self.source, count) {
            (SourceKind::NoCursor, _) => 0,
            (_, 0) => source::cursor_further(publishing.cursor),
            _ => source::cursor_after(before + count),
        };
        let cursor = publishing.cursor;
        let opening = word(node, publishing.epoch, publishing.openings);
        let rows = before + 1..=before + count;
        let texts: Vec<Text> = rows.map(|row| source::text(row, opening)).collect();
        let stage = (self.stages_packs && count > 0).then(|| {
            client.stages += 1;
            match self.flaw {
                Some(Flaw::StageByNumber) => first,
                _ => client.stages,
            }
        });
        let prepared = Prepared {
            first,
            texts,
            void: 0,
            origin: opening,
            cursor,
            cursor_before,
            stage,
            is_staged: false,
            maybe_there: false,
            is_confirmed: false,
        };
        self.send_pack(node, prepared);
    }

    /// Sends the oldest pack that was refused or not answered.
    pub(super) fn resend(&mut self, node: Node) {
        let Generator::Publishing(publishing) = &mut self.nodes[node as usize].generator else {
            return;
        };
        let prepared = publishing.unsent.remove(0);
        self.send_pack(node, prepared);
    }

    fn send_pack(&mut self, node: Node, prepared: Prepared) {
        let max_open = self.max_open;
        let Generator::Publishing(publishing) = &mut self.nodes[node as usize].generator else {
            return;
        };
        let call = publishing.call(node, &prepared, max_open);
        publishing.in_flight.push((prepared, CallState::InFlight));
        self.send(node, call, Vec::new());
    }

    /// The source has failed. The generator opens it again where Redis stands.
    pub(super) fn reopen(&mut self, node: Node) {
        if let Generator::Publishing(publishing) = &mut self.nodes[node as usize].generator {
            publishing.openings += 1;
            publishing.cursor = publishing.accepted.1;
        }
    }

    /// Forgets the pack that was confirmed first.
    pub(super) fn forget_confirmed(&mut self, node: Node) {
        if let Generator::Publishing(publishing) = &mut self.nodes[node as usize].generator {
            publishing.confirmed.remove(0);
        }
    }

    /// A node gets the answer to its publish; none if the answer is lost.
    pub(super) fn hear_publish(&mut self, node: Node, call: &Call, reply: Option<&Reply>) {
        let Generator::Publishing(publishing) = &mut self.nodes[node as usize].generator else {
            return;
        };
        let is_it = |(prepared, state): &(Prepared, CallState<Answer>)| {
            *state == CallState::InFlight && is_about(call, prepared, publishing.epoch)
        };
        if let Some(at) = publishing.in_flight.iter().position(is_it) {
            let answer = publishing.read(&publishing.in_flight[at].0, reply);
            publishing.in_flight[at].1 = answer;
            self.conclude_publishes(node);
        }
    }

    /// Draws the conclusions from the answers, and notes what the node was told.
    fn conclude_publishes(&mut self, node: Node) {
        let mut told = Vec::new();
        self.conclude_in_order(node, &mut told);
        for prepared in told {
            self.note_told(node, prepared.first, &prepared.texts, None);
            self.note_known(node, prepared.last());
        }
    }

    /// Draws the conclusions: in order, and all at once from the first refusal on. Adds the packs that
    /// are accepted to `told`.
    fn conclude_in_order(&mut self, node: Node, told: &mut Vec<Prepared>) {
        let flaw = self.flaw;
        let client = &mut self.nodes[node as usize];
        let Generator::Publishing(publishing) = &mut client.generator else {
            return;
        };
        let accepted = CallState::Answered(Answer::Accepted);
        while publishing
            .in_flight
            .first()
            .is_some_and(|(_, state)| *state == accepted)
        {
            let (prepared, _) = publishing.in_flight.remove(0);
            told.push(prepared.clone());
            publishing.confirm(prepared, flaw);
        }
        if publishing.in_flight.is_empty()
            || publishing
                .in_flight
                .iter()
                .any(|(_, state)| *state == CallState::InFlight)
        {
            return;
        }
        let trouble = publishing.in_flight[0].1.clone();
        let mut again = Vec::new();
        for (mut prepared, state) in std::mem::take(&mut publishing.in_flight) {
            if state == accepted {
                told.push(prepared.clone());
                publishing.confirm(prepared, flaw);
                continue;
            }
            prepared.maybe_there |= state == CallState::ReplyLost;
            prepared.is_staged = prepared.stage.is_some()
                && matches!(
                    state,
                    CallState::Answered(Answer::Waits | Answer::Gap { .. })
                );
            if state == CallState::ReplyLost && flaw == Some(Flaw::RetryUnderNewNumber) {
                prepared.first = publishing.next;
                publishing.next = prepared.last() + 1;
            }
            again.push(prepared);
        }
        again.append(&mut publishing.unsent);
        publishing.unsent = again;
        match trouble {
            CallState::Answered(Answer::Gap { last })
                if flaw != Some(Flaw::VoidsKept) && publishing.close_gap(last, flaw) =>
            {
                self.events |= Events::SENT_AGAIN;
            }
            CallState::Answered(Answer::Gap { .. } | Answer::Foreign) => {
                let (epoch, openings) = (publishing.epoch, publishing.openings + 1);
                self.events |= Events::REOPENED;
                client.gave_up_on = match trouble {
                    CallState::Answered(Answer::Gap { last }) => {
                        Some(last + 1).filter(|first| publishing.has_pack(*first))
                    }
                    _ => None,
                };
                match flaw {
                    Some(Flaw::OpensUnderOldEpoch) => self.seal(node, epoch, openings),
                    // Under the next epoch, what is still on its way is refused.
                    _ => self.step_down(node, 0),
                }
            }
            CallState::Answered(Answer::Fenced { epoch }) => self.step_down(node, epoch),
            _ => {}
        }
    }
}

/// Whether a call sends this pack, or these void numbers, under this epoch.
fn is_about(call: &Call, prepared: &Prepared, under: u64) -> bool {
    match call {
        Call::Publish {
            epoch,
            first,
            texts,
            ..
        } => {
            let is_same = !prepared.is_void() && prepared.texts == *texts;
            is_same && prepared.first == *first && *epoch == under
        }
        Call::Void { epoch, first, .. } => {
            prepared.is_void() && prepared.first == *first && *epoch == under
        }
        _ => false,
    }
}
