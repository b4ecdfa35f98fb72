//! What a node does with messages that a publish hands over to it: crates/baton/src/node/partition.rs and
//! its lanes. The answers to calls and what is published come on two connections, so that a ring may be
//! late, and it is lost with its connection.

use super::held_claim::{HeldClaim, Outcomes};
use super::lane::LaneReply;
use super::lane::lane_reply;
use super::{Client, Events, World};
use crate::call::{Call, Reply, Ring};
use crate::state::{Node, Slot};

/// The part of a node that gets messages in the step that publishes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct HandedPart {
    /// Messages that the server has sent and the node has not heard of.
    rings: Vec<Numbered>,
    /// What a lane handles or commits.
    held: Option<Numbered>,
    is_committing: bool,
    /// Whether the node has a new connection, and has not asked what it was never told of.
    is_new: bool,
}

/// A claim with its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Numbered {
    number: u64,
    claim: HeldClaim,
}

impl HandedPart {
    /// Whether the node may hear of messages now. The slot remembers only its last end: while a commit
    /// has no answer, the node ends no other claim of the slot. Else the commit's repetition might be
    /// answered with *lost* although the first took effect.
    pub(super) fn may_hear(&self) -> bool {
        !self.rings.is_empty() && !self.is_committing
    }

    pub(super) fn is_handling(&self) -> bool {
        self.held.is_some() && !self.is_committing
    }

    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether it neither has messages nor will hear of any.
    pub(super) fn is_quiet(&self) -> bool {
        self.rings.is_empty() && self.held.is_none()
    }
}

impl World {
    fn part(&mut self, node: Node) -> &mut HandedPart {
        &mut self.nodes[node as usize].handed
    }

    /// The server has published on ring channels. A node that was only rung claims, as any idle one may.
    pub(super) fn send_rings(&mut self, rings: Vec<Ring>) {
        for Ring { node, handed } in rings {
            let Some(handed) = handed else { continue };
            self.events |= match handed.range.size() < handed.range.count {
                true => Events::HANDED_PART,
                false => Events::HANDED,
            };
            let pack = self.redis.packs.get(&handed.range.pack);
            let claim = HeldClaim::new(handed.range, pack, &self.redis);
            let number = handed.number;
            self.part(node).rings.push(Numbered { number, claim });
        }
    }

    /// The connection of a node breaks.
    pub(super) fn lose_rings(client: &mut Client) {
        client.handed.rings.clear();
    }

    /// A node has a new connection.
    pub(super) fn note_connection(&mut self, node: Node) {
        let hands_over = self.hands_over;
        self.part(node).is_new = hands_over;
    }

    /// A node hears of messages: its lane handles them. If that is busy, the node gives them back.
    pub(super) fn hear_ring(&mut self, node: Node) {
        let part = self.part(node);
        let ring = part.rings.remove(0);
        match part.held {
            None => part.held = Some(ring),
            Some(_) => self.give_handed_back(node, ring.number),
        }
    }

    /// The lane has handled the messages.
    pub(super) fn commit_handed(&mut self, node: Node) {
        if let Some(Numbered { number, claim }) = self.part(node).held.clone() {
            self.part(node).is_committing = true;
            let last = claim.range.last;
            let call = claim.commit_call(Slot::handed(node), number, last, Outcomes::default());
            self.send(node, call, claim.texts);
        }
    }

    /// A node gives back what it was never told of.
    pub(super) fn ask_handed(&mut self, node: Node) {
        let claim = self.redis.claims.get(&Slot::handed(node));
        let number = claim.map(|claim| claim.number);
        let part = self.part(node);
        part.is_new = false;
        if part.held.is_none()
            && let Some(number) = number
        {
            self.events |= Events::HANDED_UNHEARD;
            self.give_handed_back(node, number);
        }
    }

    fn give_handed_back(&mut self, node: Node, number: u64) {
        let call = Call::GiveBack {
            slot: Slot::handed(node),
            number,
            keep: None,
            at_end: false,
        };
        self.send(node, call, Vec::new());
    }

    /// A node gets the answer to a call about messages that it was handed; none if the answer is lost.
    pub(super) fn hear_handed(&mut self, node: Node, call: &Call, reply: Option<&Reply>) {
        match (call, reply) {
            (Call::GiveBack { number, .. }, None) => self.give_handed_back(node, *number),
            (Call::Commit { number, .. }, reply) => {
                let part = self.part(node);
                let of_held = |held: &Numbered| held.number == *number && part.is_committing;
                if !part.held.as_ref().is_some_and(of_held) {
                    return;
                }
                match reply.map(|reply| lane_reply(reply, &self.redis)) {
                    Some(LaneReply::Ended(ended)) => self.end_handed(node, ended),
                    _ => self.commit_handed(node),
                }
            }
            _ => {}
        }
    }

    fn end_handed(&mut self, node: Node, ended: bool) {
        let part = self.part(node);
        part.is_committing = false;
        if let Some(Numbered { number, claim }) = part.held.take() {
            let by = (Slot::handed(node), number);
            self.report_end(node, by, &claim, claim.range.last, ended);
        }
    }
}
