//! The actions: what the nodes can do next, and which faults can happen.

use super::drain::Drain;
use super::generator::Generator;
use super::held_claim::{HeldClaim, Outcomes};
use super::lane::LaneState;
use super::source::SourceKind;
use super::{Client, Scenario, SentCall, TTL, World};
use crate::call::Call;
use crate::state::{Id, Ms, Node, Seq};
use crate::step::{is_past, step};

/// How far a clock is set wrong.
const DAY: Ms = 86_400_000;

/// One action of a node, or one fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A call arrives, and its sender gets the answer; the number is its place on the wire.
    Arrive(usize),
    /// A call arrives and its answer is lost: the node sends it again.
    LoseReply(usize),
    /// A node sends a call again that is still on its way.
    Duplicate(usize),
    /// A call's pack is staged, or refused, and its publish stays on its way.
    Split {
        /// The call's place on the wire.
        at: usize,
        /// Whether the pack is staged.
        staged: bool,
    },
    /// Staged packs expire.
    Expire,
    /// A node beats; whether it gets the answer.
    Beat(Node, bool),
    /// A generator makes a pack of so many rows; of none, it stores the cursor alone.
    Generate(Node, u64),
    /// A generator sends a pack again.
    Resend(Node),
    /// A node writes, and waits until the replica has that.
    BeginConfirmation(Node),
    /// The replica has what the node waits for.
    EndConfirmation(Node),
    /// A generator forgets a pack that was confirmed long ago.
    ForgetConfirmed(Node),
    /// A generator's lease lapses on its own clock.
    Lapse(Node),
    /// A generator's source fails, and is opened again.
    Reopen(Node),
    /// A node's source gives up: the node never generates again.
    Decline(Node),
    /// A worker claims.
    Claim(Node),
    /// A worker commits its whole claim.
    CommitAll(Node, Outcomes),
    /// A worker commits the first message of its claim, and then gives back the rest.
    CommitFirst(Node, Outcomes),
    /// A worker commits the first message of its claim, and then handles the others.
    CommitSingle(Node, Outcomes),
    /// A worker gives back its claim.
    GiveBack(Node),
    /// A worker gives back the messages behind this one.
    Shrink(Node, Seq),
    /// A node hears of messages that it was handed.
    HearRing(Node),
    /// A worker commits messages that it was handed.
    CommitHanded(Node),
    /// A node with a new connection gives back what it was handed and never told of.
    AskHanded(Node),
    /// A drain claims.
    DrainClaim(Node),
    /// A drain has printed so many records of its claim, and commits them.
    DrainCommit(Node, u64),
    /// A person drops the failed message with this id, or retries it if the flag is set.
    Settle(Node, Id, bool),
    /// A node returns the claims of the dead; whether it believes any absence.
    Reclaim(bool),
    /// A node dies.
    Crash(Node),
    /// The server notices that a node's connection is gone.
    Disconnect(Node),
    /// A node's connection is back.
    Connect(Node),
    /// The clock jumps.
    JumpClock(Ms),
    /// So much time passes that every living node is connected again.
    WaitLong,
    /// Time passes until the lease ends.
    EndLease,
    /// Time passes until the next delayed message is due.
    WaitDue,
    /// The clock is set a day ahead, or back.
    JumpDay(Ms),
    /// An operator pauses a part of the fleet.
    Pause(Part),
    /// An operator ends the pause of a part.
    Resume(Part),
    /// The replica catches up.
    Replicate,
    /// The replica takes over.
    Failover,
    /// The server restarts with its data.
    Restart,
}

/// A part of the fleet that an operator can pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The generator.
    Generator,
    /// The workers.
    Workers,
}

impl World {
    /// All actions that can happen next.
    pub(super) fn actions(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        self.call_actions(actions);
        for (node, client) in (0..).zip(&self.nodes) {
            self.node_actions(scenario, node, client, actions);
        }
        self.server_actions(actions);
        self.operator_actions(scenario, actions);
    }

    /// What can happen to the calls on the wire.
    fn call_actions(&self, actions: &mut Vec<Action>) {
        for (at, sent) in self.wire.iter().enumerate() {
            if at > 0 && self.wire[at - 1] == *sent {
                continue;
            }
            let listens = !self.nodes[sent.by as usize].dead;
            // Without a connection no call arrives, except those that a dead node left behind.
            if listens && !self.redis.is_present(sent.by) {
                continue;
            }
            actions.push(Action::Arrive(at));
            if listens && self.faults.lost_replies > 0 {
                actions.push(Action::LoseReply(at));
            }
            if listens && self.faults.duplicates > 0 {
                actions.push(Action::Duplicate(at));
            }
            if self.faults.splits > 0 && sent.call.stages().is_some() {
                let split = [true, false].map(|staged| Action::Split { at, staged });
                actions.extend(split);
            }
        }
    }

    fn node_actions(
        &self,
        scenario: &Scenario,
        node: Node,
        client: &Client,
        actions: &mut Vec<Action>,
    ) {
        if client.dead {
            if self.redis.is_present(node) {
                actions.push(Action::Disconnect(node));
            }
            return;
        }
        if self.is_unused(scenario, node) {
            if !self.is_unused(scenario, node - 1) {
                self.worker_actions(scenario, node, actions);
            }
            return;
        }
        if !self.redis.is_present(node) {
            actions.push(Action::Connect(node));
        } else if self.faults.disconnects > 0 {
            actions.push(Action::Disconnect(node));
        }
        let has_claim = self.redis.claims.keys().any(|slot| slot.node == node);
        if self.faults.crashes > 0 && (has_claim || !scenario.in_turn) {
            actions.push(Action::Crash(node));
        }
        if self.redis.is_present(node) {
            if self.may_confirm(node) {
                actions.push(Action::BeginConfirmation(node));
            }
            if client.is_confirming {
                actions.push(Action::EndConfirmation(node));
            }
            // Of the beats of workers only what they know is explored.
            let fence = &self.redis.fence;
            let tells = node >= scenario.generators && client.known > fence.last.max(fence.known);
            if tells && scenario.source != SourceKind::Replays {
                actions.push(Action::Beat(node, true));
            }
        }
        if node < scenario.generators {
            self.generator_actions(scenario, node, actions);
        } else if node < scenario.generators + scenario.workers {
            self.worker_actions(scenario, node, actions);
        } else {
            self.drain_actions(node, actions);
        }
    }

    /// Whether a worker has not begun. What could happen to it now, an earlier worker shows.
    fn is_unused(&self, scenario: &Scenario, node: Node) -> bool {
        let client = &self.nodes[node as usize];
        scenario.in_turn && node > scenario.generators && !client.dead && client.lane.number == 0
    }

    fn generator_actions(&self, scenario: &Scenario, node: Node, actions: &mut Vec<Action>) {
        if self.redis.is_present(node) && self.beat_matters(node) {
            actions.push(Action::Beat(node, true));
            if self.faults.lost_replies > 0 {
                actions.push(Action::Beat(node, false));
            }
        }
        let Client {
            generator,
            declines,
            ..
        } = &self.nodes[node as usize];
        if self.faults.declines > 0 && !declines {
            actions.push(Action::Decline(node));
        }
        if *generator != Generator::Standby && self.faults.lease_lapses > 0 {
            actions.push(Action::Lapse(node));
        }
        let Generator::Publishing(publishing) = generator else {
            return;
        };
        if publishing.has_unsent() {
            actions.push(Action::Resend(node));
        }
        if publishing.has_room() {
            let made = match scenario.source {
                SourceKind::NoCursor => publishing.next() - 1,
                _ => publishing.rows(),
            };
            let left = scenario.rows.saturating_sub(made);
            actions.extend((1..=left.min(2)).map(|count| Action::Generate(node, count)));
            if self.faults.empty_batches > 0 && publishing.may_go_further() {
                actions.push(Action::Generate(node, 0));
            }
        }
        if publishing.is_idle() && self.faults.source_failures > 0 {
            actions.push(Action::Reopen(node));
        }
        if publishing.has_confirmed() && self.faults.failovers > 0 {
            actions.push(Action::ForgetConfirmed(node));
        }
    }

    fn worker_actions(&self, scenario: &Scenario, node: Node, actions: &mut Vec<Action>) {
        let handed = &self.nodes[node as usize].handed;
        if handed.may_hear() {
            actions.push(Action::HearRing(node));
        }
        if handed.is_handling() {
            actions.push(Action::CommitHanded(node));
        }
        if handed.is_new() && self.redis.is_present(node) {
            actions.push(Action::AskHanded(node));
        }
        match &self.nodes[node as usize].lane.state {
            // A worker that finds nothing sleeps until a message waits.
            LaneState::Idle if self.may_claim(scenario, node) => actions.push(Action::Claim(node)),
            LaneState::Handling(held) => {
                let size = held.range.size();
                let all = outcomes(scenario, held, size);
                actions.extend(all.map(|outcomes| Action::CommitAll(node, outcomes)));
                if size > 1 {
                    for outcomes in outcomes(scenario, held, 1) {
                        actions.push(Action::CommitFirst(node, outcomes));
                        if self.faults.single_commits > 0 {
                            actions.push(Action::CommitSingle(node, outcomes));
                        }
                    }
                }
                if self.faults.give_backs > 0 {
                    actions.push(Action::GiveBack(node));
                    let keeps = held.range.first..held.range.last;
                    let keeps = keeps.filter(|_| scenario.shrinking);
                    actions.extend(keeps.map(|keep| Action::Shrink(node, keep)));
                }
            }
            _ => {}
        }
    }

    /// Whether a worker would claim. In `idle` it sleeps until a message waits.
    fn may_claim(&self, scenario: &Scenario, node: Node) -> bool {
        let is_claim = |sent: &SentCall| matches!(sent.call, Call::Claim { .. });
        let others_claim = scenario.in_turn && self.wire.iter().any(is_claim);
        let sleeper = (node, self.redis.run_id);
        let falls_asleep = self.hands_over && !self.redis.idle.contains_key(&sleeper);
        (falls_asleep || !self.redis.queue.is_empty()) && !others_claim
    }

    fn drain_actions(&self, node: Node, actions: &mut Vec<Action>) {
        match self.nodes[node as usize].drain {
            Drain::Idle if self.redis.free_ids().next().is_some() => {
                actions.push(Action::DrainClaim(node))
            }
            Drain::Printing { records } => {
                actions.push(Action::DrainCommit(node, records));
                if self.faults.give_backs > 0 {
                    actions.extend((0..records).map(|printed| Action::DrainCommit(node, printed)));
                }
            }
            _ => {}
        }
        if self.faults.settles > 0 {
            let drop_or_retry = [false, true].into_iter();
            actions.extend(drop_or_retry.flat_map(|retry| {
                let settle = move |id| Action::Settle(node, id, retry);
                self.redis.free_ids().map(settle)
            }));
        }
    }

    fn server_actions(&self, actions: &mut Vec<Action>) {
        let faults = &self.faults;
        if let Some(any) = [false, true].into_iter().find(|any| self.can_reclaim(*any)) {
            actions.push(Action::Reclaim(any));
        } else if !self.redis.delayed.is_empty() {
            actions.push(Action::Reclaim(false));
        }
        if self
            .next_due()
            .is_some_and(|due| !is_past(due, self.now, None))
        {
            actions.push(Action::WaitDue);
        }
        let lease = &self.redis.lease;
        if faults.lease_ends > 0 && lease.node.is_some() && lease.until > self.now {
            actions.push(Action::EndLease);
        }
        if faults.expiries > 0 && !self.redis.staged.is_empty() {
            actions.push(Action::Expire);
        }
        if faults.clock_jumps > 0 {
            actions.extend([Action::JumpClock(2 * TTL), Action::JumpClock(-2 * TTL)]);
        }
        let is_back = |(node, client): (Node, &Client)| client.dead || self.redis.is_present(node);
        if faults.long_waits > 0 && (0..).zip(&self.nodes).all(is_back) {
            actions.push(Action::WaitLong);
        }
        if faults.day_jumps > 0 {
            actions.extend([Action::JumpDay(DAY), Action::JumpDay(-DAY)]);
        }
        if faults.restarts > 0 {
            actions.push(Action::Restart);
        }
        if faults.failovers > 0 {
            match &self.replica {
                // A replica never goes back; the failover loses what it lacks.
                None => actions.push(Action::Replicate),
                Some(_) => actions.push(Action::Failover),
            }
        }
    }

    fn operator_actions(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        let paused = &self.redis.fence.paused;
        let parts = [
            (Part::Generator, scenario.generators, paused.generator),
            (Part::Workers, scenario.workers, paused.workers),
        ];
        for (part, nodes, since) in parts {
            match since {
                Some(_) => actions.push(Action::Resume(part)),
                None if nodes > 0 && self.faults.pauses > 0 => actions.push(Action::Pause(part)),
                None => {}
            }
        }
    }

    /// When the next delayed message is due.
    pub(super) fn next_due(&self) -> Option<Ms> {
        self.redis.delayed.values().min().copied()
    }

    /// An action as a report prints it.
    pub fn describe(&self, action: &Action) -> String {
        match action {
            Action::Arrive(at) | Action::LoseReply(at) | Action::Duplicate(at) => {
                let verb = match action {
                    Action::Arrive(_) => "arrives",
                    Action::LoseReply(_) => "arrives, its answer is lost",
                    _ => "is sent again",
                };
                format!("{verb}: {:?}", self.wire[*at].call)
            }
            Action::Split { at, staged } => {
                let verb = if *staged {
                    "is staged"
                } else {
                    "is not staged"
                };
                format!("{verb}: {:?}", self.wire[*at].call)
            }
            action => format!("{action:?}"),
        }
    }

    /// Whether a beat would change anything.
    fn beat_matters(&self, node: Node) -> bool {
        let mut redis = self.redis.clone();
        let (reply, _) = step(&mut redis, &self.beat_call(node), self.now, self.flaw);
        redis != self.redis || self.hears_in_beat(node, &reply)
    }

    pub(super) fn beat_call(&self, node: Node) -> Call {
        Call::Beat {
            node,
            run_id: self.redis.run_id,
            ttl: TTL,
            above: self.nodes[node as usize].above,
            candidate: !self.nodes[node as usize].declines,
            known: self.nodes[node as usize].known,
        }
    }

    /// Whether a reclaim would return a claim.
    fn can_reclaim(&self, any: bool) -> bool {
        let redis = &self.redis;
        redis.claims.iter().any(|(slot, claim)| {
            let due = redis.deadlines.get(slot);
            let due = due.is_some_and(|at| is_past(*at, self.now, self.flaw));
            due || !redis.is_present(slot.node) && (any || claim.run_id == redis.run_id)
        })
    }
}

/// What can become of the first messages of a claim. With attempts, each of them may end with an
/// error: then it is delayed, or failed after its last attempt.
fn outcomes(
    scenario: &Scenario,
    held: &HeldClaim,
    count: u64,
) -> impl Iterator<Item = Outcomes> + use<> {
    let is_last = held.range.returns + 1 >= scenario.attempts;
    let errors = match scenario.attempts {
        0 => 1,
        _ => 1 << count,
    };
    let after_errors = (0..errors).map(move |errors| match is_last {
        true => Outcomes::failed(errors),
        false => Outcomes::delayed(errors),
    });
    let first_fails = Outcomes::failed(1);
    let may_reject = scenario.failing && !(is_last && scenario.attempts > 0);
    after_errors.chain(may_reject.then_some(first_fails))
}
