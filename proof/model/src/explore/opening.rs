//! How a generator that has sealed opens its source: at the stored cursor, behind all numbers that a
//! node knows.

use super::World;
use super::generator::{Generator, Publishing};
use crate::call::{Call, Reply};
use crate::flaw::Flaw;
use crate::state::{Node, Seq};

/// Where a generator opens its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Opening {
    pub(super) epoch: u64,
    /// How often it opened its source under this epoch before.
    pub(super) openings: u64,
    pub(super) cursor: u64,
}

/// Numbers that the server forgot, and that get no other messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Voiding {
    pub(super) opening: Opening,
    first: Seq,
    last: Seq,
    /// Whether the generator is paused: it sends the call again later.
    pub(super) waits: bool,
}

impl World {
    /// Opens the source behind the last number. If the source does not replay, and a node knows of
    /// higher numbers, they are declared void first.
    pub(super) fn open(&mut self, node: Node, opening: Opening, last: Seq, known: Seq) {
        let client = &mut self.nodes[node as usize];
        let known = known.max(client.known);
        let voids = self.makes_once && known > last;
        if voids && self.flaw != Some(Flaw::NumbersGivenAgain) {
            let voiding = Voiding {
                opening,
                first: last + 1,
                last: known,
                waits: false,
            };
            return self.send_void(node, voiding);
        }
        client.gave_up_on = None;
        client.generator = Generator::Publishing(Publishing::begin(opening, last));
    }

    fn send_void(&mut self, node: Node, voiding: Voiding) {
        let call = Call::Void {
            node,
            epoch: voiding.opening.epoch,
            first: voiding.first,
            last: voiding.last,
            audited: false,
        };
        let waits = false;
        self.nodes[node as usize].generator = Generator::Voiding(Voiding { waits, ..voiding });
        self.send(node, call, Vec::new());
    }

    /// Sends a void again that was refused because of a pause.
    pub(super) fn void_again(&mut self, node: Node) {
        if let Generator::Voiding(voiding) = self.nodes[node as usize].generator {
            self.send_void(node, voiding);
        }
    }

    /// A node gets the answer to its void; none if the answer is lost.
    pub(super) fn hear_void(&mut self, node: Node, epoch: u64, reply: Option<&Reply>) {
        let client = &mut self.nodes[node as usize];
        let Generator::Voiding(voiding) = &mut client.generator else {
            return;
        };
        if voiding.opening.epoch != epoch {
            return;
        }
        let Some(reply) = reply else {
            return self.void_again(node);
        };
        match reply {
            Reply::Published => self.begin_behind(node),
            Reply::AlreadyPublished { last } if *last == voiding.last => self.begin_behind(node),
            Reply::Paused => voiding.waits = true,
            Reply::Fenced { epoch, .. } => self.step_down(node, *epoch),
            // The server forgot more, or another client wrote: the next seal tells.
            _ => self.step_down(node, 0),
        }
    }

    fn begin_behind(&mut self, node: Node) {
        let client = &mut self.nodes[node as usize];
        if let Generator::Voiding(voiding) = client.generator {
            client.gave_up_on = None;
            let publishing = Publishing::begin(voiding.opening, voiding.last);
            client.generator = Generator::Publishing(publishing);
        }
    }
}
