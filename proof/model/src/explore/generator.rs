//! A generator as a client of the scripts: crates/baton/src/node/generator.rs, without its clock.

use super::{CallState, Events, World};
use crate::call::{Call, Reply, Staging};
use crate::flaw::Flaw;
use crate::state::{Node, Origin, Seq, Text};

/// Packs under way at once.
const WINDOW: usize = 2;

/// The word that a generator draws. A real one is random.
fn origin(node: Node, epoch: u64, draws: u64) -> Origin {
    epoch * 10_000 + draws * 100 + Origin::from(node) + 2
}

/// What a node knows of its right to generate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Generator {
    /// It does not hold the lease.
    #[default]
    Standby,
    /// It holds the lease, and raises the fence.
    Sealing { epoch: u64 },
    /// It has raised the fence, and publishes.
    Publishing(Publishing),
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
    Full,
    Missing,
    Gap { last: Seq },
    Fenced { epoch: u64 },
}

/// What a generator has to publish under one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Publishing {
    epoch: u64,
    /// How often it has drawn a new word under this epoch.
    draws: u64,
    next: Seq,
    cursor: u64,
    /// Packs to send, or to send again.
    unsent: Vec<Prepared>,
    in_flight: Vec<(Prepared, CallState<Answer>)>,
    /// Confirmed packs, which a failover may lose.
    confirmed: Vec<Prepared>,
}

impl Publishing {
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

    /// The server's last number is lower than ours. Sends the confirmed packs behind it again, and
    /// renumbers if some are missing. A number that may have had another text gets a new word, so that
    /// no two texts have one key.
    fn close_gap(&mut self, node: Node, last: Seq, stages: &mut u64, flaw: Option<Flaw>) {
        let confirmed = std::mem::take(&mut self.confirmed);
        let mut again: Vec<Prepared> = confirmed.into_iter().filter(|p| p.first > last).collect();
        again.append(&mut self.unsent);
        let before = self.next;
        let count = |prepared: &Prepared| prepared.texts.len() as u64;
        self.next = last + 1 + again.iter().map(count).sum::<u64>();
        let draws = self.next != before && flaw != Some(Flaw::GapKeepsOrigin);
        self.draws += u64::from(draws);
        let origin = origin(node, self.epoch, self.draws);
        let mut next = last + 1;
        for prepared in &mut again {
            if prepared.first != next {
                (prepared.first, prepared.origin) = (next, origin);
                prepared.is_staged = false;
                if prepared.stage.is_some() && flaw != Some(Flaw::StageByNumber) {
                    *stages += 1;
                    prepared.stage = Some(*stages);
                }
            }
            next += count(prepared);
        }
        self.unsent = again;
    }
}

impl World {
    /// The highest epoch that a node has had, or knows it must exceed.
    fn last_epoch(&self, node: Node) -> u64 {
        let client = &self.nodes[node as usize];
        match &client.generator {
            Generator::Standby => client.above,
            Generator::Sealing { epoch } => *epoch,
            Generator::Publishing(publishing) => publishing.epoch,
        }
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
            self.nodes[node as usize].generator = Generator::Sealing { epoch };
            self.send(node, Call::Seal { node, epoch }, Vec::new());
        }
    }

    /// A generator steps down. Its next lease must have a higher epoch than its own and `fenced`.
    pub(super) fn step_down(&mut self, node: Node, fenced: u64) {
        let node = &mut self.nodes[node as usize];
        let epoch = match std::mem::take(&mut node.generator) {
            Generator::Standby => 0,
            Generator::Sealing { epoch } => epoch,
            Generator::Publishing(publishing) => publishing.epoch,
        };
        node.above = node.above.max(epoch).max(fenced);
    }

    /// A node gets the answer to its seal.
    pub(super) fn hear_seal(&mut self, node: Node, sealed: u64, reply: &Reply) {
        if self.nodes[node as usize].generator != (Generator::Sealing { epoch: sealed }) {
            return;
        }
        match reply {
            Reply::Sealed { last, cursor } => {
                self.events |= Events::SEALED;
                if *last > 0 {
                    self.events |= Events::TAKEOVER;
                }
                self.nodes[node as usize].generator = Generator::Publishing(Publishing {
                    epoch: sealed,
                    draws: 0,
                    next: last + 1,
                    cursor: *cursor,
                    unsent: Vec::new(),
                    in_flight: Vec::new(),
                    confirmed: Vec::new(),
                });
            }
            Reply::Fenced { epoch, .. } => {
                self.events |= Events::FENCED;
                self.step_down(node, *epoch);
            }
            _ => {}
        }
    }

    /// Makes and sends a pack of new texts.
    pub(super) fn generate(&mut self, node: Node, count: u64) {
        let texts: Vec<Text> = (self.made + 1..=self.made + count).collect();
        let client = &mut self.nodes[node as usize];
        let Generator::Publishing(publishing) = &mut client.generator else {
            return;
        };
        self.made += count;
        let first = publishing.next;
        publishing.next += count;
        publishing.cursor += count;
        let cursor = publishing.cursor;
        let origin = origin(node, publishing.epoch, publishing.draws);
        let stage = self.stages_packs.then(|| {
            client.stages += 1;
            match self.flaw {
                Some(Flaw::StageByNumber) => first,
                _ => client.stages,
            }
        });
        let prepared = Prepared {
            first,
            texts,
            origin,
            cursor,
            stage,
            is_staged: false,
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
        let answer = match reply {
            Some(Reply::Published | Reply::AlreadyPublished { .. }) => {
                CallState::Answered(Answer::Accepted)
            }
            Some(Reply::Gap { last }) => CallState::Answered(Answer::Gap { last: *last }),
            Some(Reply::Fenced { epoch, .. }) => {
                CallState::Answered(Answer::Fenced { epoch: *epoch })
            }
            Some(Reply::Missing) => CallState::Answered(Answer::Missing),
            Some(_) => CallState::Answered(Answer::Full),
            None => CallState::ReplyLost,
        };
        let is_it = |(prepared, state): &&mut (Prepared, CallState<Answer>)| {
            *state == CallState::InFlight && prepared.first == *first && prepared.texts == *texts
        };
        if let Some((_, state)) = publishing.in_flight.iter_mut().find(is_it) {
            *state = answer;
            self.conclude_publishes(node);
        }
    }

    /// Draws the conclusions from the answers: in order, and all at once from the first refusal on.
    fn conclude_publishes(&mut self, node: Node) {
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
            let (mut prepared, _) = publishing.in_flight.remove(0);
            prepared.is_staged = false;
            publishing.confirmed.push(prepared);
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
                prepared.is_staged = false;
                publishing.confirmed.push(prepared);
                continue;
            }
            prepared.is_staged = prepared.stage.is_some()
                && matches!(
                    state,
                    CallState::Answered(Answer::Full | Answer::Gap { .. })
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
            CallState::Answered(Answer::Gap { last }) => {
                publishing.close_gap(node, last, &mut client.stages, flaw);
            }
            CallState::Answered(Answer::Fenced { epoch }) => self.step_down(node, epoch),
            _ => {}
        }
    }
}
