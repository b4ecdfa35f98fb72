//! What the nodes know although the server may have forgotten it.

use super::before::Before;
use super::{Events, SourceKind, Violation, World, source};
use crate::call::{Call, Reply};
use crate::state::{Lease, Node, Seq, Slot, Text};
use crate::step::is_past;

impl World {
    /// A node was told that messages are published, or that they ended by its claim.
    pub(super) fn note_told(
        &mut self,
        node: Node,
        first: Seq,
        texts: &[Text],
        ended_by: Option<(Slot, u64)>,
    ) {
        if !self.may_forget {
            return;
        }
        for (seq, text) in (first..).zip(texts) {
            self.note_confirmed(seq, *text, ended_by);
            self.note_known(node, seq);
            self.nodes[node as usize].told.insert(seq, *text);
        }
    }

    /// A node was told that this number is given.
    pub(super) fn note_known(&mut self, node: Node, seq: Seq) {
        if self.may_forget {
            let client = &mut self.nodes[node as usize];
            client.known = client.known.max(seq);
        }
    }

    /// Notes what the nodes had said to this server before a generator sealed.
    pub(super) fn note_said(&mut self, call: &Call, reply: &Reply) {
        match (call, reply) {
            (Call::Beat { node, known, .. }, _) => {
                let client = &mut self.nodes[*node as usize];
                client.said = client.said.max(*known);
            }
            (Call::Seal { .. }, Reply::Sealed { .. }) => {
                let said = self.nodes.iter().map(|client| client.said);
                self.said_before_seal = said.max().unwrap_or(0);
            }
            _ => {}
        }
    }

    /// No number may get a second text, if a living node was told of the first and is the generator,
    /// or said so before the generator sealed. If nodes confirm answers, never.
    pub(super) fn check_texts(&mut self, call: &Call) {
        let Call::Publish {
            node, first, texts, ..
        } = call
        else {
            return;
        };
        let is_same = |told: Text, text: Text| match self.source {
            SourceKind::Replays => source::row_of(told) == source::row_of(text),
            _ => told == text,
        };
        let is_second = (*first..).zip(texts).any(|(seq, text)| {
            (0..).zip(&self.nodes).any(|(other, client)| {
                let counts = other == *node || seq <= self.said_before_seal || self.confirms;
                let told = client.told.get(&seq).copied();
                counts && told.is_some_and(|told| !is_same(told, *text))
            })
        });
        if is_second {
            self.history.note(Violation::TwoTexts);
        }
    }

    /// No generator declares numbers void of which it had the pack when it found the gap.
    pub(super) fn check_void(&mut self, call: &Call) {
        if let Call::Void { node, first, .. } = call
            && self.nodes[*node as usize].gave_up_on == Some(*first)
        {
            self.history.note(Violation::VoidedKept);
        }
    }

    /// Absence counts only of a node that was connected to this server.
    pub(super) fn check_absence(&mut self, call: &Call, lease: &Lease, before: &Before) {
        let was_here = |node: Node| self.connected & (1 << node) != 0;
        let is_wrong = match call {
            Call::Beat { node, .. } => lease.node.is_some_and(|holder| {
                let is_taken = holder != *node && self.redis.lease.node == Some(*node);
                is_taken && !is_past(lease.until, before.now, None) && !was_here(holder)
            }),
            Call::Reclaim { run_id, .. } if *run_id != 0 => {
                before.claimed.iter().any(|(slot, _, deadline)| {
                    let is_taken = !self.redis.claims.contains_key(slot);
                    is_taken && !is_past(*deadline, before.now, None) && !was_here(slot.node)
                })
            }
            _ => false,
        };
        if is_wrong {
            self.history.note(Violation::BelievedAbsence);
        }
    }

    /// The event of a call after the server forgot something. `lease` is that before the call.
    pub(super) fn event_of_regression(&self, call: &Call, reply: &Reply, lease: &Lease) -> Events {
        match (call, reply) {
            (Call::Void { .. }, Reply::Published) => Events::VOIDED,
            (Call::Seal { .. }, Reply::Sealed { last, known, .. }) if known > last => Events::KNOWN,
            (Call::Beat { node, run_id, .. }, Reply::Generator { .. })
                if lease.node == Some(*node)
                    && lease.waited == *run_id
                    && lease.run_id != *run_id =>
            {
                Events::HOLDER_BACK
            }
            _ => Events::default(),
        }
    }
}
