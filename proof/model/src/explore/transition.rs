//! What each action does to the world.

use super::actions::{Action, Part};
use super::drain::Drain;
use super::{Client, Events, World};
use crate::call::{Call, Sampled, Staging};
use crate::flaw::Flaw;
use crate::state::{Node, Pack, RunId};
use crate::step::VERDICT_MS;

impl World {
    /// Performs an action.
    pub(super) fn apply(&mut self, action: &Action) {
        self.events = Events::default();
        self.spend_fault(action);
        match *action {
            Action::Arrive(at) => self.arrive(at, true),
            Action::LoseReply(at) => self.arrive(at, false),
            Action::Duplicate(at) => {
                let sent = self.wire[at].clone();
                self.hear(sent.by, &sent.call, None);
            }
            Action::Split { at, staged } => self.split(at, staged),
            Action::Expire => self.redis.staged.clear(),
            Action::Beat(node, heard) => self.beat(node, heard),
            Action::Generate(node, count) => self.generate(node, count),
            Action::Resend(node) => self.resend(node),
            Action::BeginConfirmation(node) => self.begin_confirmation(node),
            Action::EndConfirmation(node) => self.end_confirmation(node),
            Action::ForgetConfirmed(node) => self.forget_confirmed(node),
            Action::Lapse(node) => self.step_down(node, 0),
            Action::Reopen(node) => self.reopen(node),
            Action::Decline(node) => self.decline(node),
            Action::Claim(node) => self.claim(node),
            Action::CommitAll(node, outcomes) => self.commit_all(node, outcomes),
            Action::CommitFirst(node, outcomes) => self.commit_first(node, outcomes, false),
            Action::CommitSingle(node, outcomes) => self.commit_first(node, outcomes, true),
            Action::Shrink(node, keep) => self.shrink(node, keep),
            Action::GiveBack(node) => {
                let number = self.nodes[node as usize].lane.number;
                self.give_back(node, number);
            }
            Action::HearRing(node) => self.hear_ring(node),
            Action::CommitHanded(node) => self.commit_handed(node),
            Action::AskHanded(node) => self.ask_handed(node),
            Action::DrainClaim(node) => self.drain_on(node, Drain::Claiming),
            Action::DrainCommit(node, printed) => {
                self.drain_on(node, Drain::Committing { printed });
            }
            Action::Settle(node, id, retry) => self.settle(node, id, retry),
            Action::Reclaim(any) => self.reclaim(any),
            Action::Crash(node) => self.crash(node),
            Action::Disconnect(node) => {
                self.redis.set_present(node, false);
                Self::lose_rings(&mut self.nodes[node as usize]);
            }
            Action::Connect(node) => {
                self.redis.set_present(node, true);
                self.connected |= 1 << node;
                self.note_connection(node);
            }
            Action::JumpClock(by) | Action::JumpDay(by) => self.now += by,
            Action::WaitLong => self.now += VERDICT_MS,
            Action::EndLease => self.now = self.redis.lease.until,
            Action::WaitDue => self.now = self.next_due().unwrap_or(self.now),
            Action::Pause(part) => self.pause(part, false),
            Action::Resume(part) => self.pause(part, true),
            Action::Replicate => self.replicate(),
            Action::Failover => self.fail_over(),
            Action::Restart => self.new_server(self.redis.run_id + 1),
        }
    }

    /// Counts down the faults that may still happen.
    fn spend_fault(&mut self, action: &Action) {
        let client = |node: Node| &self.nodes[node as usize];
        let faults = &mut self.faults;
        let fault = match *action {
            Action::LoseReply(_) | Action::Beat(_, false) => &mut faults.lost_replies,
            Action::Duplicate(_) => &mut faults.duplicates,
            Action::Lapse(_) => &mut faults.lease_lapses,
            Action::EndLease => &mut faults.lease_ends,
            Action::Reopen(_) => &mut faults.source_failures,
            Action::Decline(_) => &mut faults.declines,
            Action::Generate(_, 0) => &mut faults.empty_batches,
            Action::Split { .. } => &mut faults.splits,
            Action::Expire => &mut faults.expiries,
            Action::CommitSingle(..) => &mut faults.single_commits,
            Action::GiveBack(_) | Action::Shrink(..) => &mut faults.give_backs,
            // It gives back the records that it did not print.
            Action::DrainCommit(node, printed)
                if client(node).drain != (Drain::Printing { records: printed }) =>
            {
                &mut faults.give_backs
            }
            Action::Settle(..) => &mut faults.settles,
            Action::Pause(_) => &mut faults.pauses,
            Action::Crash(_) => &mut faults.crashes,
            Action::Disconnect(node) if !client(node).dead => &mut faults.disconnects,
            Action::JumpClock(_) => &mut faults.clock_jumps,
            Action::JumpDay(_) => &mut faults.day_jumps,
            Action::WaitLong => &mut faults.long_waits,
            Action::Failover => &mut faults.failovers,
            Action::Restart => &mut faults.restarts,
            _ => return,
        };
        *fault -= 1;
    }

    /// A call arrives; `heard` says whether its answer does.
    pub(super) fn arrive(&mut self, at: usize, heard: bool) {
        let sent = self.wire.remove(at);
        let reply = self.execute(&sent.call, &sent.texts);
        self.answer(sent.by, &sent.call, heard.then_some(&reply));
    }

    /// The pack of a publish is staged, or refused; the publish itself stays on its way.
    fn split(&mut self, at: usize, is_staged: bool) {
        let mut sent = self.wire.remove(at);
        if let Call::Publish {
            node,
            texts,
            bytes,
            origin,
            staging,
            ..
        } = &mut sent.call
            && let Staging::Now(stage) = *staging
        {
            if is_staged {
                let pack = Pack {
                    texts: texts.clone(),
                    bytes: *bytes,
                    origin: *origin,
                };
                self.redis.staged.insert((*node, stage), pack);
            }
            *staging = Staging::Before(stage);
        }
        self.send(sent.by, sent.call, sent.texts);
    }

    /// A node beats. A delayed beat is the same as a later beat, so beats are never on the wire.
    pub(super) fn beat(&mut self, node: Node, heard: bool) {
        let reply = self.execute(&self.beat_call(node), &[]);
        if heard {
            self.hear_beat(node, &reply);
        }
    }

    /// A node returns the claims of the dead; `any` says whether it believes any absence.
    pub(super) fn reclaim(&mut self, any: bool) {
        let run_id: RunId = if any { 0 } else { self.redis.run_id };
        let call = Call::Reclaim {
            run_id,
            caller: None,
            max_claims: 64,
            max_due: 64,
            sampled: Sampled::default(),
        };
        self.execute(&call, &[]);
    }

    /// An operator pauses a part of the fleet, or lets it go on. A call that is late is the same as a
    /// later one.
    pub(super) fn pause(&mut self, part: Part, resume: bool) {
        let call = Call::Pause {
            resume,
            generator: part == Part::Generator,
            workers: part == Part::Workers,
        };
        self.execute(&call, &[]);
    }

    /// The replica catches up.
    pub(super) fn replicate(&mut self) {
        self.replica = Some(Box::new((self.redis.clone(), self.history.clone())));
    }

    /// The replica takes over.
    fn fail_over(&mut self) {
        if let Some(replica) = self.replica.take() {
            let run_id = self.redis.run_id;
            (self.redis, self.history) = *replica;
            let promoted = match self.flaw {
                // The two servers have the names 1 and 2.
                Some(Flaw::NameWithoutPromotion) => 3 - run_id,
                _ => run_id + 1,
            };
            self.new_server(promoted);
        }
    }

    fn crash(&mut self, node: Node) {
        // A node that was never connected has not sent anything.
        if self.calls_die_with_node || self.connected & (1 << node) == 0 {
            self.wire.retain(|sent| sent.by != node);
        }
        self.nodes[node as usize] = Client {
            dead: true,
            ..Client::default()
        };
    }

    /// Another server process: all connections, and the calls on them, are gone. A node that waits
    /// for an answer sends its call again.
    fn new_server(&mut self, run_id: RunId) {
        self.redis.run_id = run_id;
        self.redis.present = 0;
        self.connected = 0;
        self.said_before_seal = 0;
        self.nodes.iter_mut().for_each(|client| client.said = 0);
        self.nodes.iter_mut().for_each(Self::lose_rings);
        if self.hands_over {
            // The number of a handed claim is the time: no other server gives the same.
            self.now += 1;
        }
        let mut calls = std::mem::take(&mut self.wire);
        calls.dedup();
        for sent in calls {
            self.hear(sent.by, &sent.call, None);
        }
        self.lose_unconfirmed();
    }
}
