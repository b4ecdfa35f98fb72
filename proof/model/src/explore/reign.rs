//! A generator as a client of the scripts: crates/baton/src/node/generator.rs, without its clock.

use super::{Events, World};
use crate::call::{Call, Reply};
use crate::flaw::Flaw;
use crate::state::{Node, Seq, Text};

/// Packs under way at once.
const WINDOW: usize = 2;

/// What a node knows of its right to generate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Reign {
    #[default]
    None,
    /// It holds the lease, and raises the fence.
    Sealing { epoch: u64 },
    /// It publishes.
    On(Publishing),
}

/// A pack on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Prepared {
    first: Seq,
    texts: Vec<Text>,
    cursor: u64,
}

/// What is known of a pack that was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Fate {
    Out,
    Unheard,
    Answered(Answer),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Answer {
    Accepted,
    Full,
    Gap { last: Seq },
    Fenced { epoch: u64 },
}

/// The time in which a node generates under one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Publishing {
    epoch: u64,
    next: Seq,
    cursor: u64,
    unsent: Vec<Prepared>,
    flying: Vec<(Prepared, Fate)>,
    kept: Vec<Prepared>,
}

impl Publishing {
    /// Whether a fresh pack may be made.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.is_empty() && self.flying.len() < WINDOW
    }

    /// Whether a pack has to be sent again.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() && self.flying.len() < WINDOW
    }

    /// Whether something confirmed is kept.
    pub(super) fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    fn call(&self, node: Node, prepared: &Prepared, max_open: u64) -> Call {
        Call::Publish {
            node,
            epoch: self.epoch,
            first: prepared.first,
            texts: prepared.texts.clone(),
            bytes: 0,
            cursor: prepared.cursor,
            max_open,
            audited: false,
        }
    }

    /// The server's last number is lower than ours: sends again what is kept, and numbers anew
    /// what comes after a real hole.
    fn close_gap(&mut self, last: Seq) {
        let kept = std::mem::take(&mut self.kept);
        let mut again: Vec<Prepared> = kept.into_iter().filter(|p| p.first > last).collect();
        again.append(&mut self.unsent);
        self.next = last + 1;
        for prepared in &mut again {
            prepared.first = self.next;
            self.next += prepared.texts.len() as u64;
        }
        self.unsent = again;
    }
}

impl World {
    /// The highest epoch that a node has held, or knows it must exceed.
    fn held_epoch(&self, node: Node) -> u64 {
        let client = &self.nodes[node as usize];
        match &client.reign {
            Reign::None => client.above,
            Reign::Sealing { epoch } => *epoch,
            Reign::On(publishing) => publishing.epoch,
        }
    }

    /// Whether the answer to a beat tells a node something new.
    pub(super) fn hears_in_beat(&self, node: Node, reply: &Reply) -> bool {
        match reply {
            Reply::Generator { epoch, .. } => *epoch > self.held_epoch(node),
            Reply::Worker { .. } => self.nodes[node as usize].reign != Reign::None,
            _ => false,
        }
    }

    /// The answer to a beat.
    pub(super) fn hear_beat(&mut self, node: Node, reply: &Reply) {
        if !self.hears_in_beat(node, reply) {
            return;
        }
        self.end_reign(node, 0);
        if let Reply::Generator { epoch, .. } = *reply {
            self.nodes[node as usize].reign = Reign::Sealing { epoch };
            self.send(node, Call::Seal { node, epoch }, Vec::new());
        }
    }

    /// A reign is over for good; the next needs a higher epoch.
    pub(super) fn end_reign(&mut self, node: Node, fenced: u64) {
        let node = &mut self.nodes[node as usize];
        let epoch = match std::mem::take(&mut node.reign) {
            Reign::None => 0,
            Reign::Sealing { epoch } => epoch,
            Reign::On(publishing) => publishing.epoch,
        };
        node.above = node.above.max(epoch).max(fenced);
    }

    /// The answer to a seal.
    pub(super) fn hear_seal(&mut self, node: Node, sealed: u64, reply: &Reply) {
        if self.nodes[node as usize].reign != (Reign::Sealing { epoch: sealed }) {
            return;
        }
        match reply {
            Reply::Sealed { last, cursor } => {
                self.events |= Events::SEALED;
                if *last > 0 {
                    self.events |= Events::TAKEOVER;
                }
                self.nodes[node as usize].reign = Reign::On(Publishing {
                    epoch: sealed,
                    next: last + 1,
                    cursor: *cursor,
                    unsent: Vec::new(),
                    flying: Vec::new(),
                    kept: Vec::new(),
                });
            }
            Reply::Fenced { epoch, .. } => {
                self.events |= Events::FENCED;
                self.end_reign(node, *epoch);
            }
            _ => {}
        }
    }

    /// Makes and sends a pack of new texts.
    pub(super) fn make(&mut self, node: Node, count: u64) {
        let texts: Vec<Text> = (self.made + 1..=self.made + count).collect();
        let Reign::On(publishing) = &mut self.nodes[node as usize].reign else {
            return;
        };
        self.made += count;
        let first = publishing.next;
        publishing.next += count;
        publishing.cursor += count;
        let cursor = publishing.cursor;
        let prepared = Prepared {
            first,
            texts,
            cursor,
        };
        self.fly(node, prepared);
    }

    /// Sends the oldest pack that was refused or not answered.
    pub(super) fn send_again(&mut self, node: Node) {
        let Reign::On(publishing) = &mut self.nodes[node as usize].reign else {
            return;
        };
        let prepared = publishing.unsent.remove(0);
        self.fly(node, prepared);
    }

    fn fly(&mut self, node: Node, prepared: Prepared) {
        let max_open = self.max_open;
        let Reign::On(publishing) = &mut self.nodes[node as usize].reign else {
            return;
        };
        let call = publishing.call(node, &prepared, max_open);
        publishing.flying.push((prepared, Fate::Out));
        self.send(node, call, Vec::new());
    }

    /// What was confirmed long ago is no longer kept.
    pub(super) fn forget_kept(&mut self, node: Node) {
        if let Reign::On(publishing) = &mut self.nodes[node as usize].reign {
            publishing.kept.remove(0);
        }
    }

    /// The answer to a publish; none if it was lost.
    pub(super) fn hear_publish(&mut self, node: Node, call: &Call, reply: Option<&Reply>) {
        let Call::Publish { first, texts, .. } = call else {
            return;
        };
        let Reign::On(publishing) = &mut self.nodes[node as usize].reign else {
            return;
        };
        let fate = match reply {
            Some(Reply::Published | Reply::AlreadyPublished { .. }) => {
                Fate::Answered(Answer::Accepted)
            }
            Some(Reply::Gap { last }) => Fate::Answered(Answer::Gap { last: *last }),
            Some(Reply::Fenced { epoch, .. }) => Fate::Answered(Answer::Fenced { epoch: *epoch }),
            Some(_) => Fate::Answered(Answer::Full),
            None => Fate::Unheard,
        };
        let of = |(prepared, fate): &&mut (Prepared, Fate)| {
            *fate == Fate::Out && prepared.first == *first && prepared.texts == *texts
        };
        if let Some((_, slot)) = publishing.flying.iter_mut().find(of) {
            *slot = fate;
            self.settle_publishes(node);
        }
    }

    /// Draws the conclusions: in order, and from the first refusal on all at once.
    fn settle_publishes(&mut self, node: Node) {
        let flaw = self.flaw;
        let Reign::On(publishing) = &mut self.nodes[node as usize].reign else {
            return;
        };
        let accepted = Fate::Answered(Answer::Accepted);
        while publishing
            .flying
            .first()
            .is_some_and(|(_, f)| *f == accepted)
        {
            publishing.kept.push(publishing.flying.remove(0).0);
        }
        if publishing.flying.is_empty() || publishing.flying.iter().any(|(_, f)| *f == Fate::Out) {
            return;
        }
        let trouble = publishing.flying[0].1.clone();
        let mut again = Vec::new();
        for (mut prepared, fate) in std::mem::take(&mut publishing.flying) {
            if fate == accepted {
                publishing.kept.push(prepared);
                continue;
            }
            if fate == Fate::Unheard && flaw == Some(Flaw::RetryUnderNewNumber) {
                prepared.first = publishing.next;
                publishing.next += prepared.texts.len() as u64;
            }
            again.push(prepared);
        }
        again.append(&mut publishing.unsent);
        publishing.unsent = again;
        match trouble {
            Fate::Answered(Answer::Gap { last }) => publishing.close_gap(last),
            Fate::Answered(Answer::Fenced { epoch }) => self.end_reign(node, epoch),
            _ => {}
        }
    }
}
