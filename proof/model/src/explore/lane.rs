//! One lane of a worker as a client of the scripts: crates/baton/src/node/worker.rs, without its
//! clock and its handler.

use super::held_claim::{HeldClaim, Outcomes};
use super::{CallState, Events, World};
use crate::call::{Call, Reply};
use crate::flaw::Flaw;
use crate::state::{Node, Seq, Slot, State};

/// The answers that a lane acts on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LaneReply {
    Claimed(HeldClaim),
    Empty,
    Stale,
    /// The slot still has the claim with this number.
    HasClaim(u64),
    /// To a commit: whether the messages ended by it.
    Ended(bool),
    Full,
    GivenBack,
}

/// The commit of a whole claim, and the next claim behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WholeCommit {
    held: HeldClaim,
    outcomes: Outcomes,
    commit: CallState<LaneReply>,
    claim: CallState<LaneReply>,
    first_attempt: bool,
}

/// What a lane is doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum LaneState {
    /// It has not begun, or no message waits.
    #[default]
    Idle,
    Claiming,
    Handling(HeldClaim),
    /// It has handled all messages of its claim.
    CommittingAll(Box<WholeCommit>),
    /// It commits the first message. Then it handles the others, or gives them back.
    CommittingFirst {
        held: HeldClaim,
        outcomes: Outcomes,
        goes_on: bool,
    },
    GivingBack {
        number: u64,
    },
    /// It gives back the messages behind those that it keeps.
    Shrinking {
        kept: HeldClaim,
    },
}

/// A lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// The number of its claim.
    pub(super) number: u64,
    pub(super) state: LaneState,
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
            run_id: self.redis.run_id,
            want: self.want,
            ttl: super::TTL,
            alone: true,
            sleepers: None,
        }
    }

    fn send_commit(&mut self, node: Node, held: &HeldClaim, last: Seq, outcomes: Outcomes) {
        let number = self.lane(node).number;
        let call = held.commit_call(Self::slot(node), number, last, outcomes);
        let handled = (last - held.range.first + 1) as usize;
        self.send(node, call, held.texts[..handled].to_vec());
    }

    /// Claims: under a new number, or again under the number of a claim that found nothing.
    pub(super) fn claim(&mut self, node: Node) {
        let lane = self.lane(node);
        lane.number = lane.number.max(1);
        lane.state = LaneState::Claiming;
        let number = lane.number;
        let call = self.claim_call(node, number);
        self.send(node, call, Vec::new());
    }

    fn claim_next(&mut self, node: Node) {
        self.lane(node).number += 1;
        self.claim(node);
    }

    /// The lane has handled all messages of its claim: commits them, and claims the next.
    pub(super) fn commit_all(&mut self, node: Node, outcomes: Outcomes) {
        let LaneState::Handling(held) = std::mem::take(&mut self.lane(node).state) else {
            return;
        };
        self.send_commit(node, &held, held.range.last, outcomes);
        let next = self.lane(node).number + 1;
        let claim = self.claim_call(node, next);
        self.send(node, claim, Vec::new());
        self.lane(node).state = LaneState::CommittingAll(Box::new(WholeCommit {
            held,
            outcomes,
            commit: CallState::InFlight,
            claim: CallState::InFlight,
            first_attempt: true,
        }));
    }

    /// The lane has handled the first message of its claim, and commits it alone.
    pub(super) fn commit_first(&mut self, node: Node, outcomes: Outcomes, goes_on: bool) {
        let LaneState::Handling(held) = std::mem::take(&mut self.lane(node).state) else {
            return;
        };
        self.events |= Events::PARTIAL;
        self.send_commit(node, &held, held.range.first, outcomes);
        self.lane(node).state = LaneState::CommittingFirst {
            held,
            outcomes,
            goes_on,
        };
    }

    /// Gives back the rest of a claim.
    pub(super) fn give_back(&mut self, node: Node, number: u64) {
        self.lane(node).state = LaneState::GivingBack { number };
        self.send_give_back(node, number, None);
    }

    /// Gives back the messages behind `keep`, because those before it take long.
    pub(super) fn shrink(&mut self, node: Node, keep: Seq) {
        let LaneState::Handling(held) = std::mem::take(&mut self.lane(node).state) else {
            return;
        };
        let number = self.lane(node).number;
        let kept = held.up_to(keep);
        self.lane(node).state = LaneState::Shrinking { kept };
        self.send_give_back(node, number, Some(keep));
    }

    fn send_give_back(&mut self, node: Node, number: u64, keep: Option<Seq>) {
        let slot = Self::slot(node);
        let call = Call::GiveBack {
            slot,
            number,
            keep,
            at_end: false,
        };
        self.send(node, call, Vec::new());
    }

    /// A lane gets the answer to its call; none if the answer is lost.
    pub(super) fn hear_lane(&mut self, node: Node, call: &Call, reply: Option<&Reply>) {
        let answer = reply.map(|reply| lane_reply(reply, &self.redis));
        match call {
            Call::Claim { number, .. } => self.hear_claim(node, *number, answer),
            Call::Commit { number, last, .. } => self.hear_commit(node, *number, *last, answer),
            Call::GiveBack {
                number,
                keep: Some(keep),
                ..
            } => self.hear_shrink(node, *number, *keep, answer),
            Call::GiveBack { number, .. } => self.hear_give_back(node, *number, answer),
            _ => {}
        }
    }

    fn hear_claim(&mut self, node: Node, of: u64, answer: Option<LaneReply>) {
        let lane = self.lane(node);
        let number = lane.number;
        match &mut lane.state {
            LaneState::Claiming if of == number => match answer {
                Some(answer) => self.accept(node, answer),
                None => self.claim(node),
            },
            LaneState::CommittingAll(whole)
                if of == number + 1 && whole.claim == CallState::InFlight =>
            {
                whole.claim = answer.map_or(CallState::ReplyLost, CallState::Answered);
                self.conclude_whole_commit(node);
            }
            _ => {}
        }
    }

    fn hear_commit(&mut self, node: Node, of: u64, last: Seq, answer: Option<LaneReply>) {
        let lane = self.lane(node);
        if of != lane.number {
            return;
        }
        match lane.state.clone() {
            LaneState::CommittingAll(mut whole)
                if last == whole.held.range.last && whole.commit == CallState::InFlight =>
            {
                if let Some(LaneReply::Ended(ended)) = answer {
                    self.report_end(node, (Self::slot(node), of), &whole.held, last, ended);
                }
                whole.commit = answer.map_or(CallState::ReplyLost, CallState::Answered);
                self.lane(node).state = LaneState::CommittingAll(whole);
                self.conclude_whole_commit(node);
            }
            LaneState::CommittingFirst {
                held,
                outcomes,
                goes_on,
            } if last == held.range.first => match answer {
                Some(LaneReply::Ended(ended)) => {
                    self.report_end(node, (Self::slot(node), of), &held, last, ended);
                    match (ended, goes_on) {
                        (true, true) => self.lane(node).state = LaneState::Handling(held.rest()),
                        (true, false) => self.give_back(node, of),
                        (false, _) => self.claim_next(node),
                    }
                }
                _ => self.send_commit(node, &held, last, outcomes),
            },
            _ => {}
        }
    }

    fn hear_give_back(&mut self, node: Node, of: u64, answer: Option<LaneReply>) {
        let lane = self.lane(node);
        if lane.state != (LaneState::GivingBack { number: of }) {
            return;
        }
        match answer {
            Some(_) if of == lane.number => self.claim_next(node),
            Some(_) => self.claim(node),
            None => self.give_back(node, of),
        }
    }

    fn hear_shrink(&mut self, node: Node, of: u64, keep: Seq, answer: Option<LaneReply>) {
        let lane = self.lane(node);
        let LaneState::Shrinking { kept } = &lane.state else {
            return;
        };
        if of != lane.number || keep != kept.range.last {
            return;
        }
        match answer {
            Some(LaneReply::GivenBack) => lane.state = LaneState::Handling(kept.clone()),
            // The claim is lost, and with it what the lane handles.
            Some(_) => self.claim_next(node),
            None => self.send_give_back(node, of, Some(keep)),
        }
    }

    /// Takes the answer to a claim.
    fn accept(&mut self, node: Node, answer: LaneReply) {
        match answer {
            LaneReply::Claimed(held) => self.lane(node).state = LaneState::Handling(held),
            LaneReply::Stale => self.claim_next(node),
            LaneReply::HasClaim(old) => {
                let lane = self.lane(node);
                lane.number = lane.number.max(old + 1);
                self.give_back(node, old);
            }
            _ => self.lane(node).state = LaneState::Idle,
        }
    }

    /// Goes on when both answers, to the commit and to the next claim, are known.
    fn conclude_whole_commit(&mut self, node: Node) {
        let number = self.lane(node).number;
        let LaneState::CommittingAll(whole) = self.lane(node).state.clone() else {
            return;
        };
        if whole.commit == CallState::InFlight || whole.claim == CallState::InFlight {
            return;
        }
        let takes_silence_for_done = self.flaw == Some(Flaw::CommitUnheard);
        match whole.commit {
            CallState::Answered(LaneReply::Ended(_)) => {}
            CallState::ReplyLost if takes_silence_for_done => {
                let by = (Self::slot(node), number);
                self.report_end(node, by, &whole.held, whole.held.range.last, true);
            }
            _ => {
                self.send_commit(node, &whole.held, whole.held.range.last, whole.outcomes);
                self.lane(node).state = LaneState::CommittingAll(Box::new(WholeCommit {
                    commit: CallState::InFlight,
                    first_attempt: false,
                    ..*whole
                }));
                return;
            }
        }
        self.lane(node).number += 1;
        match whole.claim {
            CallState::Answered(LaneReply::HasClaim(old)) if old == number => self.claim(node),
            CallState::Answered(answer) if whole.first_attempt => self.accept(node, answer),
            _ => self.claim(node),
        }
    }

    /// A lane reports the messages of a claim up to `last` as processed, or the claim as lost.
    pub(super) fn report_end(
        &mut self,
        node: Node,
        by: (Slot, u64),
        held: &HeldClaim,
        last: Seq,
        ended: bool,
    ) {
        let first = held.range.first;
        let seqs = first..=last;
        match ended {
            true => {
                self.history.reported_done(seqs.clone(), by);
                let count = (last - first + 1) as usize;
                self.note_told(node, first, &held.texts[..count], Some(by));
            }
            false => self.history.reported_lost(seqs, by),
        }
    }
}

/// What a lane does with an answer. With a claim on messages it reads their notes.
pub(super) fn lane_reply(reply: &Reply, redis: &State) -> LaneReply {
    match reply {
        Reply::Claimed { range, pack, .. } => {
            LaneReply::Claimed(HeldClaim::new(*range, pack.as_ref(), redis))
        }
        Reply::Empty | Reply::Paused => LaneReply::Empty,
        Reply::Stale => LaneReply::Stale,
        Reply::Held { number } => LaneReply::HasClaim(*number),
        Reply::Done | Reply::Already => LaneReply::Ended(true),
        Reply::Lost => LaneReply::Ended(false),
        Reply::Full { .. } => LaneReply::Full,
        _ => LaneReply::GivenBack,
    }
}
