//! One lane of a worker as a client of the scripts: crates/baton/src/node/worker.rs, without its
//! clock and its handler.

use super::{Events, World};
use crate::call::{Call, Effect, Reply};
use crate::flaw::Flaw;
use crate::state::{Node, Range, Reason, Record, Seq, Slot, Text};

/// What a lane holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) range: Range,
    pub(super) texts: Vec<Text>,
}

impl Held {
    /// All but the first message.
    fn rest(mut self) -> Self {
        self.range.first += 1;
        self.texts.remove(0);
        self
    }
}

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Out,
    Unheard,
    Answered(LaneReply),
}

/// The answers that a lane acts on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LaneReply {
    Claimed(Held),
    Empty,
    Stale,
    HeldBy(u64),
    Ended { kept: bool },
    Full,
    Returned,
}

/// What a lane is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    /// Nothing yet, or nothing waits.
    #[default]
    Idle,
    Claiming,
    Handling(Held),
    /// All it holds was handled: the commit, and the next claim behind it.
    Ending {
        held: Held,
        failed: bool,
        commit: Asked,
        claim: Asked,
        first_try: bool,
    },
    /// The first message is committed by itself; then the rest goes back, or is committed next.
    Parting {
        held: Held,
        failed: bool,
        goes_on: bool,
    },
    /// What it holds goes back.
    Returning {
        number: u64,
    },
}

/// A lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub(super) number: u64,
    pub(super) doing: Doing,
}

impl World {
    fn slot(node: Node) -> Slot {
        Slot { node, lane: 0 }
    }

    fn lane(&mut self, node: Node) -> &mut Lane {
        &mut self.nodes[node as usize].lane
    }

    fn claim_call(&self, node: Node, number: u64) -> Call {
        Call::Claim {
            slot: Self::slot(node),
            number,
            run: self.redis.run,
            want: self.want,
            ttl: super::TTL,
        }
    }

    fn commit_call(node: Node, number: u64, held: &Held, last: Seq, failed: bool) -> Call {
        let Range { first, returns, .. } = held.range;
        let record = |at: usize| Record {
            seq: first + at as u64,
            text: held.texts[at],
            attempt: returns + 1,
            reason: Reason::Rejected,
        };
        let failed: Vec<Record> = failed.then(|| record(0)).into_iter().collect();
        let count = last - first + 1;
        Call::Commit {
            slot: Self::slot(node),
            number,
            first,
            last,
            effect: Effect::Add(count - failed.len() as u64),
            failed,
            max_errors: u64::MAX,
            audited: false,
        }
    }

    fn send_commit(&mut self, node: Node, held: &Held, last: Seq, failed: bool) {
        let number = self.lane(node).number;
        let call = Self::commit_call(node, number, held, last, failed);
        let seen = (last - held.range.first + 1) as usize;
        self.send(node, call, held.texts[..seen].to_vec());
    }

    /// Claims: under a new number, or under that of a claim that found nothing.
    pub(super) fn ask(&mut self, node: Node) {
        let lane = self.lane(node);
        lane.number = lane.number.max(1);
        lane.doing = Doing::Claiming;
        let number = lane.number;
        let call = self.claim_call(node, number);
        self.send(node, call, Vec::new());
    }

    fn ask_next(&mut self, node: Node) {
        self.lane(node).number += 1;
        self.ask(node);
    }

    /// All that is held was handled.
    pub(super) fn finish(&mut self, node: Node, failed: bool) {
        let Doing::Handling(held) = std::mem::take(&mut self.lane(node).doing) else {
            return;
        };
        self.send_commit(node, &held, held.range.last, failed);
        let next = self.lane(node).number + 1;
        let claim = self.claim_call(node, next);
        self.send(node, claim, Vec::new());
        self.lane(node).doing = Doing::Ending {
            held,
            failed,
            commit: Asked::Out,
            claim: Asked::Out,
            first_try: true,
        };
    }

    /// The first message was handled and the slice is over; or it has to be committed alone.
    pub(super) fn part(&mut self, node: Node, failed: bool, goes_on: bool) {
        let Doing::Handling(held) = std::mem::take(&mut self.lane(node).doing) else {
            return;
        };
        self.events |= Events::PARTIAL;
        self.send_commit(node, &held, held.range.first, failed);
        self.lane(node).doing = Doing::Parting {
            held,
            failed,
            goes_on,
        };
    }

    /// Gives back what a claim holds.
    pub(super) fn give_back(&mut self, node: Node, number: u64) {
        self.lane(node).doing = Doing::Returning { number };
        let slot = Self::slot(node);
        self.send(node, Call::GiveBack { slot, number }, Vec::new());
    }

    /// The answer to a lane's call; none if it was lost.
    pub(super) fn hear_lane(&mut self, node: Node, call: &Call, reply: Option<&Reply>) {
        let number = self.lane(node).number;
        let answer = reply.map(lane_reply);
        match (call, self.lane(node).doing.clone()) {
            (Call::Claim { number: asked, .. }, Doing::Claiming) if *asked == number => {
                match answer {
                    Some(answer) => self.accept(node, answer),
                    None => self.ask(node),
                }
            }
            (Call::Claim { number: asked, .. }, Doing::Ending { claim, .. })
                if *asked == number + 1 && claim == Asked::Out =>
            {
                if let Doing::Ending { claim, .. } = &mut self.lane(node).doing {
                    *claim = answer.map_or(Asked::Unheard, Asked::Answered);
                }
                self.end_whole(node);
            }
            (
                Call::Commit {
                    number: asked,
                    last: to,
                    ..
                },
                Doing::Ending { held, commit, .. },
            ) if *asked == number && *to == held.range.last && commit == Asked::Out => {
                if let (Some(LaneReply::Ended { kept }), Doing::Ending { held, .. }) =
                    (&answer, &self.nodes[node as usize].lane.doing)
                {
                    let (range, kept) = (held.range.first..=held.range.last, *kept);
                    self.tell(node, range, kept);
                }
                if let Doing::Ending { commit, .. } = &mut self.lane(node).doing {
                    *commit = answer.map_or(Asked::Unheard, Asked::Answered);
                }
                self.end_whole(node);
            }
            (
                Call::Commit {
                    number: asked,
                    last: to,
                    ..
                },
                Doing::Parting {
                    held,
                    failed,
                    goes_on,
                },
            ) if *asked == number && *to == held.range.first => match answer {
                Some(LaneReply::Ended { kept }) => {
                    let first = held.range.first;
                    self.tell(node, first..=first, kept);
                    match (kept, goes_on) {
                        (true, true) => self.lane(node).doing = Doing::Handling(held.rest()),
                        (true, false) => self.give_back(node, number),
                        (false, _) => self.ask_next(node),
                    }
                }
                _ => self.send_commit(node, &held, held.range.first, failed),
            },
            (Call::GiveBack { number: asked, .. }, Doing::Returning { number: old })
                if *asked == old =>
            {
                match answer {
                    Some(_) if old == number => self.ask_next(node),
                    Some(_) => self.ask(node),
                    None => self.give_back(node, old),
                }
            }
            _ => {}
        }
    }

    /// Takes the answer to a claim.
    fn accept(&mut self, node: Node, answer: LaneReply) {
        match answer {
            LaneReply::Claimed(held) => self.lane(node).doing = Doing::Handling(held),
            LaneReply::Stale => self.ask_next(node),
            LaneReply::HeldBy(old) => {
                let lane = self.lane(node);
                lane.number = lane.number.max(old + 1);
                self.give_back(node, old);
            }
            _ => self.lane(node).doing = Doing::Idle,
        }
    }

    /// Commit and next claim were under way together: goes on when both are known.
    fn end_whole(&mut self, node: Node) {
        let number = self.lane(node).number;
        let heeds_silence = self.flaw != Some(Flaw::CommitUnheard);
        let Doing::Ending {
            held,
            failed,
            commit,
            claim,
            first_try,
        } = self.lane(node).doing.clone()
        else {
            return;
        };
        if commit == Asked::Out || claim == Asked::Out {
            return;
        }
        let range = held.range.first..=held.range.last;
        match commit {
            Asked::Answered(LaneReply::Ended { .. }) => {}
            Asked::Unheard if !heeds_silence => self.tell(node, range, true),
            _ => {
                self.send_commit(node, &held, held.range.last, failed);
                self.lane(node).doing = Doing::Ending {
                    held,
                    failed,
                    commit: Asked::Out,
                    claim,
                    first_try: false,
                };
                return;
            }
        }
        self.lane(node).number += 1;
        match claim {
            Asked::Answered(LaneReply::HeldBy(old)) if old == number => self.ask(node),
            Asked::Answered(answer) if first_try => self.accept(node, answer),
            _ => self.ask(node),
        }
    }

    fn tell(&mut self, node: Node, range: std::ops::RangeInclusive<Seq>, kept: bool) {
        let by = (Self::slot(node), self.lane(node).number);
        match kept {
            true => self.history.told(range, by),
            false => self.history.gave_up(range, by),
        }
    }
}

fn lane_reply(reply: &Reply) -> LaneReply {
    match reply {
        Reply::Claimed { range, pack, .. } => {
            let from = (range.first - range.pack) as usize;
            let pack = pack.clone().unwrap_or_default();
            let texts = pack.into_iter().skip(from).take(range.size() as usize);
            LaneReply::Claimed(Held {
                range: *range,
                texts: texts.collect(),
            })
        }
        Reply::Empty => LaneReply::Empty,
        Reply::Stale => LaneReply::Stale,
        Reply::Held { number } => LaneReply::HeldBy(*number),
        Reply::Done | Reply::Already => LaneReply::Ended { kept: true },
        Reply::Lost => LaneReply::Ended { kept: false },
        Reply::Full { .. } => LaneReply::Full,
        _ => LaneReply::Returned,
    }
}
