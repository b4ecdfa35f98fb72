//! What the nodes can do next, which faults can happen, and what each does to the fleet.

use super::{Client, Events, Flaw, Fleet, PARTITIONS, Request, Scenario};
use crate::state::Node;

/// One action of a node, or one fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A call arrives, and its sender gets the answer; the number is its place on the wire.
    Arrive(usize),
    /// A call arrives and its answer is lost: the node sends it again.
    LoseReply(usize),
    /// A node sends a call again that is still on its way.
    Duplicate(usize),
    /// A node beats; whether it gets the answer.
    Beat(Node, bool),
    /// A generator makes a pack of so many rows for a partition; of none, it stores the cursor alone.
    Generate {
        /// The generator.
        node: Node,
        /// The partition.
        to: usize,
        /// How many rows.
        count: u64,
    },
    /// A generator's partition does not answer in time: it parks what that one has not accepted.
    Park(Node),
    /// A generator's source fails, and is opened again where Redis had its rows.
    FailSource(Node),
    /// A generator's lease lapses on its own clock.
    Lapse(Node),
    /// A node dies; its calls may still arrive.
    Crash(Node),
    /// The lease ends on Redis's clock. Its holder may only be asleep.
    EndLease,
    /// The replica of the control keys catches up.
    ReplicateControl,
    /// That replica takes over.
    FailOverControl,
    /// The replica of a partition catches up.
    Replicate(usize),
    /// That replica takes over: the partition forgets what the replica lacks.
    FailOver(usize),
}

impl Fleet {
    /// All actions that can happen next.
    pub(super) fn actions(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        self.call_actions(actions);
        for (node, client) in (0..).zip(&self.nodes) {
            if !client.dead {
                self.node_actions(scenario, node, client, actions);
            }
        }
        if self.faults.lease_ends > 0 && self.control.can_end() {
            actions.push(Action::EndLease);
        }
        if self.faults.control_failovers > 0 {
            actions.push(match self.control.has_replica() {
                true => Action::FailOverControl,
                false => Action::ReplicateControl,
            });
        }
        for at in (0..PARTITIONS).filter(|at| self.lags(*at)) {
            actions.extend([Action::Replicate(at), Action::FailOver(at)]);
        }
    }

    fn call_actions(&self, actions: &mut Vec<Action>) {
        for (at, sent) in self.wire.iter().enumerate() {
            if at > 0 && self.wire[at - 1] == *sent {
                continue;
            }
            actions.push(Action::Arrive(at));
            // No node waits for a removal.
            let is_removal = matches!(sent.request, Request::Unpark { .. });
            if self.nodes[sent.by as usize].dead || is_removal {
                continue;
            }
            if self.faults.lost_replies > 0 {
                actions.push(Action::LoseReply(at));
            }
            if self.faults.duplicates > 0 {
                actions.push(Action::Duplicate(at));
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
        if self.beat_matters(node) {
            actions.push(Action::Beat(node, true));
            if self.faults.lost_replies > 0 {
                actions.push(Action::Beat(node, false));
            }
        }
        if self.faults.crashes > 0 {
            actions.push(Action::Crash(node));
        }
        let Some(reign) = &client.reign else {
            return;
        };
        if self.faults.lapses > 0 {
            actions.push(Action::Lapse(node));
        }
        if self.faults.stalls > 0 && !reign.parcels().is_empty() {
            actions.push(Action::Park(node));
        }
        if reign.may_fail(self.flaw) {
            actions.push(Action::FailSource(node));
        }
        for to in 0..PARTITIONS {
            if let Some(rows) = reign.rows_if_ready(to, self.flaw) {
                let left = scenario.rows.saturating_sub(rows).min(scenario.max_pack);
                let packs = (1..=left).map(|count| Action::Generate { node, to, count });
                actions.extend(packs);
            }
            if self.faults.empty_batches > 0 && reign.may_go_further(to, self.flaw) {
                let count = 0;
                actions.push(Action::Generate { node, to, count });
            }
        }
    }

    /// Whether a beat would change anything.
    fn beat_matters(&self, node: Node) -> bool {
        let mut control = self.control.clone();
        let flaw = self.flaw.and_then(Flaw::of_scripts);
        let reply = control.beat(node, self.nodes[node as usize].above, flaw);
        control != self.control || self.hears_in_beat(node, &reply)
    }

    /// Performs an action.
    pub(super) fn apply(&mut self, action: &Action) {
        self.events = Events::default();
        self.spend_fault(action);
        match *action {
            Action::Arrive(at) => self.arrive(at, true),
            Action::LoseReply(at) => self.arrive(at, false),
            Action::Duplicate(at) => {
                let sent = self.wire[at].clone();
                self.hear(&sent, None);
            }
            Action::Beat(node, heard) => self.beat(node, heard),
            Action::Generate { node, to, count } => {
                self.events |= self.event_of_generate(node, to);
                self.generate(node, to, count);
            }
            Action::Park(node) => self.park(node),
            Action::FailSource(node) => self.fail_source(node),
            Action::Lapse(node) => self.step_down(node, 0),
            Action::Crash(node) => self.crash(node),
            Action::EndLease => self.control.end_lease(),
            Action::ReplicateControl => self.control.replicate(),
            Action::FailOverControl => self.control.fail_over(),
            Action::Replicate(at) => self.replicate(at),
            Action::FailOver(at) => self.fail_over(at),
        }
    }

    /// Counts down the faults that may still happen.
    fn spend_fault(&mut self, action: &Action) {
        let faults = &mut self.faults;
        let fault = match action {
            Action::LoseReply(_) | Action::Beat(_, false) => &mut faults.lost_replies,
            Action::Duplicate(_) => &mut faults.duplicates,
            Action::Generate { count: 0, .. } => &mut faults.empty_batches,
            Action::Park(_) => &mut faults.stalls,
            Action::Lapse(_) => &mut faults.lapses,
            Action::Crash(_) => &mut faults.crashes,
            Action::EndLease => &mut faults.lease_ends,
            Action::FailOverControl => &mut faults.control_failovers,
            Action::FailOver(_) => &mut faults.failovers,
            _ => return,
        };
        *fault -= 1;
    }

    /// A node beats. A delayed beat is the same as a later beat, so beats are never on the wire.
    pub(super) fn beat(&mut self, node: Node, heard: bool) {
        let flaw = self.flaw.and_then(Flaw::of_scripts);
        let above = self.client(node).above;
        let reply = self.control.beat(node, above, flaw);
        if heard {
            self.hear_beat(node, &reply);
        }
        self.forget_kept();
    }

    fn crash(&mut self, node: Node) {
        let client = Client {
            dead: true,
            ..Client::default()
        };
        let client = std::mem::replace(self.client(node), client);
        let is_between = client.reign.is_some_and(|reign| reign.is_half_sealed());
        self.history.died_between_seals |= is_between;
        self.control.disconnect(node);
    }

    /// An action as a report prints it.
    pub(super) fn describe(&self, action: &Action) -> String {
        let (verb, at) = match action {
            Action::Arrive(at) => ("arrives", at),
            Action::LoseReply(at) => ("arrives, its answer is lost", at),
            Action::Duplicate(at) => ("is sent again", at),
            action => return format!("{action:?}"),
        };
        let sent = &self.wire[*at];
        match &sent.request {
            Request::Script(call, _) => format!("{verb} at partition {}: {call:?}", sent.to),
            request => format!("{verb} at partition {}: {request:?}", sent.to),
        }
    }
}
