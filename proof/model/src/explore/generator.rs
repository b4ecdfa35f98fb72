//! A generator as a client of the scripts: crates/baton/src/node/generator.rs, without its clock.

use super::opening::{Opening, Voiding};
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
    /// It has raised the fence, and declares numbers void.
    Voiding(Voiding),
    /// It has raised the fence, and publishes.
    Publishing(Publishing),
}

impl Generator {
    /// Its epoch; none if it does not hold the lease.
    fn epoch(&self) -> Option<u64> {
        match self {
            Self::Standby => None,
            Self::Sealing { epoch, .. } => Some(*epoch),
            Self::Voiding(voiding) => Some(voiding.opening.epoch),
            Self::Publishing(publishing) => Some(publishing.epoch),
        }
    }
}

/// A pack that has its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Prepared {
    first: Seq,
    texts: Vec<Text>,
    origin: Origin,
    cursor: u64,
    /// The node's number of these texts, if it stages packs.
    stage: Option<u64>,
    /// Whether Redis has them staged: it answered, and did not accept the pack.
    is_staged: bool,
    /// Whether Redis may have it under its numbers: the answer was lost.
    maybe_there: bool,
}

impl Prepared {
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
                if (prepared.maybe_there || prepared.texts.is_empty()) && *last < self.next =>
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
        let last = prepared.first + prepared.texts.len() as u64 - 1;
        // A pack whose answer was lost may be confirmed after those behind it.
        if last >= self.accepted.0 || flaw == Some(Flaw::AcceptedGoesBack) {
            self.accepted = (last, prepared.cursor);
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

    /// Whether it has a pack that begins with this number.
    fn has_pack(&self, first: Seq) -> bool {
        let mut packs = self.confirmed.iter().chain(&self.unsent);
        packs.any(|prepared| prepared.first == first && !prepared.texts.is_empty())
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
                self.next += prepared.texts.len() as u64;
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
            Reply::Worker { .. } => self.nodes[node as usize].generator != Generator::Standby,
            _ => false,
        }
    }

    /// A node gets the answer to its beat.
    pub(super) fn hear_beat(&mut self, node: Node, reply: &Reply) {
        if !self.hears_in_beat(node, reply) {
            return;
        }
        self.step_down(node, 0);
        if let Reply::Generator { epoch, .. } = *reply {
            self.seal(node, epoch, 0);
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
        let node = &mut self.nodes[node as usize];
        let epoch = std::mem::take(&mut node.generator).epoch().unwrap_or(0);
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
        let before = source::rows_before(publishing.cursor);
        publishing.cursor = match count {
            0 => source::cursor_further(publishing.cursor),
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
            origin: opening,
            cursor,
            stage,
            is_staged: false,
            maybe_there: false,
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
        let Call::Publish { first, texts, .. } = call else {
            return;
        };
        let Generator::Publishing(publishing) = &mut self.nodes[node as usize].generator else {
            return;
        };
        let is_it = |(prepared, state): &(Prepared, CallState<Answer>)| {
            *state == CallState::InFlight && prepared.first == *first && prepared.texts == *texts
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
        for (first, texts) in told {
            self.note_told(node, first, &texts, None);
        }
    }

    /// Draws the conclusions: in order, and all at once from the first refusal on. Adds the packs that
    /// are accepted to `told`.
    fn conclude_in_order(&mut self, node: Node, told: &mut Vec<(Seq, Vec<Text>)>) {
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
            told.push((prepared.first, prepared.texts.clone()));
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
                told.push((prepared.first, prepared.texts.clone()));
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
                publishing.next += prepared.texts.len() as u64;
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
