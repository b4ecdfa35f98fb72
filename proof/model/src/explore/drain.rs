//! A drain of the errors store as a client of the scripts: crates/baton/src/failed/drain.rs.

use super::World;
use crate::call::{Call, Reply, Seen};
use crate::state::{Id, Node, Slot};

/// Max records that a drain claims.
const MAX_RECORDS: u64 = 2;
/// The lane under which drains claim.
const LANE: u8 = 9;

/// What a drain is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Drain {
    /// It can claim.
    #[default]
    Idle,
    Claiming,
    /// It prints so many records.
    Printing {
        records: u64,
    },
    Committing {
        printed: u64,
    },
    /// No record is left, or its claim is lost.
    Over,
}

impl World {
    fn drain_slot(node: Node) -> Slot {
        Slot { node, lane: LANE }
    }

    fn drain_call(&self, node: Node, drain: &Drain) -> Option<Call> {
        let (slot, number) = (
            Self::drain_slot(node),
            self.nodes[node as usize].drain_number,
        );
        match drain {
            Drain::Claiming => Some(Call::ErrorsClaim {
                slot,
                number,
                run_id: self.redis.run_id,
                ids: None,
                max: MAX_RECORDS,
                ttl: super::TTL,
            }),
            Drain::Committing { printed } => Some(Call::ErrorsCommit {
                slot,
                number,
                removed: *printed,
            }),
            _ => None,
        }
    }

    /// Takes the next step of a drain: claims, or commits what it printed.
    pub(super) fn drain_on(&mut self, node: Node, drain: Drain) {
        if drain == Drain::Claiming {
            self.nodes[node as usize].drain_number += 1;
        }
        self.send_drain(node, drain);
    }

    fn send_drain(&mut self, node: Node, drain: Drain) {
        if let Some(call) = self.drain_call(node, &drain) {
            self.send(node, call, Vec::new());
        }
        self.nodes[node as usize].drain = drain;
    }

    /// A person drops the failed message with this id, or retries it.
    pub(super) fn settle(&mut self, node: Node, id: Id, retry: bool) {
        let seen = self.redis.errors.get(&id).map(|record| Seen {
            id,
            record: *record,
            bytes: 0,
        });
        let records = seen.into_iter().collect();
        self.send(node, Call::Settle { retry, records }, Vec::new());
    }

    /// A drain gets the answer to its call; none if the answer is lost.
    pub(super) fn hear_drain(&mut self, node: Node, call: &Call, reply: Option<&Reply>) {
        let own = &self.nodes[node as usize];
        let awaited = match (call, &own.drain) {
            (Call::ErrorsClaim { number, .. }, Drain::Claiming)
            | (Call::ErrorsCommit { number, .. }, Drain::Committing { .. }) => {
                *number == own.drain_number
            }
            _ => false,
        };
        if !awaited {
            return;
        }
        let next = match reply {
            Some(Reply::Records(records)) => Drain::Printing {
                records: records.len() as u64,
            },
            Some(Reply::Done | Reply::Already) => Drain::Idle,
            Some(_) => Drain::Over,
            None => {
                let again = self.nodes[node as usize].drain.clone();
                return self.send_drain(node, again);
            }
        };
        self.nodes[node as usize].drain = next;
    }
}
