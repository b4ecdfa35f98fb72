//! The steps: what nodes do next, and what fate does to them.

use super::drain::Drain;
use super::lane::Doing;
use super::reign::Reign;
use super::{Setting, TTL, World};
use crate::call::Call;
use crate::state::{Id, Ms, Node, Run};
use crate::step::{VERDICT_MS, is_past, step};

/// How far a clock is set wrong.
const DAY: Ms = 86_400_000;

/// One step of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A call arrives and its answer is heard; the number is its place on the wire.
    Arrive(usize),
    /// A call arrives and its answer is lost: the node sends it again.
    Unheard(usize),
    /// A node does not wait for the answer to a call that is still on its way.
    Twin(usize),
    /// A node beats; whether it hears the answer.
    Beat(Node, bool),
    /// A generator makes a pack.
    Make(Node, u64),
    /// A generator sends what was refused.
    SendAgain(Node),
    /// A generator no longer keeps what was confirmed long ago.
    ForgetKept(Node),
    /// A generator's time runs out on its own clock.
    Lapse(Node),
    /// A worker asks for messages.
    Ask(Node),
    /// A worker has handled all it holds; whether the first message failed.
    Finish(Node, bool),
    /// A worker has handled the first message it holds, and its slice is over.
    Part(Node, bool),
    /// A worker commits the first message by itself, and goes on with the others.
    Single(Node, bool),
    /// A worker gives back all it holds.
    Return(Node),
    /// A drain claims.
    Drain(Node),
    /// A drain has printed so many of what it holds.
    Printed(Node, u64),
    /// The failed message with this id is dropped, or retried.
    Settle(Node, Id, bool),
    /// Somebody returns what the dead held; whether it believes any absence.
    Reclaim(bool),
    /// A node dies.
    Crash(Node),
    /// The server notices that a node's connection is gone.
    Absent(Node),
    /// A node's connection is (again) there.
    Present(Node),
    /// The clock jumps.
    Jump(Ms),
    /// So much time passes that every node that lives is connected again.
    Wait,
    /// The clock is set a day ahead, or back.
    Day(Ms),
    /// The replica gets everything up to now.
    Replicate,
    /// The replica takes over.
    Failover,
    /// The server restarts with its data.
    Restart,
}

impl World {
    /// Everything that can happen next.
    pub(super) fn steps(&self, setting: &Setting, steps: &mut Vec<Step>) {
        let fate = &self.fate;
        for (at, letter) in self.wire.iter().enumerate() {
            if at > 0 && self.wire[at - 1] == *letter {
                continue;
            }
            let listens = !self.nodes[letter.by as usize].dead;
            // Without a connection nothing arrives, but for what the dead left behind.
            if listens && !self.redis.is_present(letter.by) {
                continue;
            }
            steps.push(Step::Arrive(at));
            if listens && fate.silences > 0 {
                steps.push(Step::Unheard(at));
            }
            if listens && fate.twins > 0 {
                steps.push(Step::Twin(at));
            }
        }
        for (node, client) in (0..).zip(&self.nodes) {
            if client.dead {
                if self.redis.is_present(node) {
                    steps.push(Step::Absent(node));
                }
                continue;
            }
            if self.is_unused(setting, node) {
                if !self.is_unused(setting, node - 1) {
                    self.worker_steps(setting, node, steps);
                }
                continue;
            }
            if !self.redis.is_present(node) {
                steps.push(Step::Present(node));
            } else if fate.cuts > 0 {
                steps.push(Step::Absent(node));
            }
            let holds = self.redis.claims.keys().any(|slot| slot.node == node);
            if fate.crashes > 0 && (holds || !setting.in_turn) {
                steps.push(Step::Crash(node));
            }
            if node < setting.generators {
                self.generator_steps(setting, node, steps);
            } else if node < setting.generators + setting.workers {
                self.worker_steps(setting, node, steps);
            } else {
                self.drain_steps(node, steps);
            }
        }
        self.server_steps(steps);
    }

    /// Whether a worker has not begun: what happens to it before, another can tell as well.
    fn is_unused(&self, setting: &Setting, node: Node) -> bool {
        let client = &self.nodes[node as usize];
        setting.in_turn && node > setting.generators && !client.dead && client.lane.number == 0
    }

    fn generator_steps(&self, setting: &Setting, node: Node, steps: &mut Vec<Step>) {
        if self.redis.is_present(node) && self.beat_matters(node) {
            steps.push(Step::Beat(node, true));
            if self.fate.silences > 0 {
                steps.push(Step::Beat(node, false));
            }
        }
        let reign = &self.nodes[node as usize].reign;
        if *reign != Reign::None && self.fate.lapses > 0 {
            steps.push(Step::Lapse(node));
        }
        let Reign::On(publishing) = reign else { return };
        if publishing.has_unsent() {
            steps.push(Step::SendAgain(node));
        }
        if publishing.has_room() {
            let left = setting.texts.saturating_sub(self.made);
            steps.extend((1..=left.min(2)).map(|count| Step::Make(node, count)));
        }
        if publishing.keeps() && self.fate.failovers > 0 {
            steps.push(Step::ForgetKept(node));
        }
    }

    fn worker_steps(&self, setting: &Setting, node: Node, steps: &mut Vec<Step>) {
        match &self.nodes[node as usize].lane.doing {
            // A worker that finds nothing sleeps until there is something.
            Doing::Idle if self.may_ask(setting) => steps.push(Step::Ask(node)),
            Doing::Handling(held) => {
                let outcomes = if setting.failing { 0..2 } else { 0..1 };
                for failed in outcomes.map(|failed| failed == 1) {
                    steps.push(Step::Finish(node, failed));
                    if held.range.size() > 1 {
                        steps.push(Step::Part(node, failed));
                        if self.fate.singles > 0 {
                            steps.push(Step::Single(node, failed));
                        }
                    }
                }
                if self.fate.returns > 0 {
                    steps.push(Step::Return(node));
                }
            }
            _ => {}
        }
    }

    /// Whether a worker would look at the queue.
    fn may_ask(&self, setting: &Setting) -> bool {
        let asks = |letter: &super::Letter| matches!(letter.call, Call::Claim { .. });
        let others_ask = setting.in_turn && self.wire.iter().any(asks);
        !self.redis.queue.is_empty() && !others_ask
    }

    fn drain_steps(&self, node: Node, steps: &mut Vec<Step>) {
        match self.nodes[node as usize].drain {
            Drain::Idle if self.redis.free_ids().next().is_some() => steps.push(Step::Drain(node)),
            Drain::Printing { records } => {
                steps.push(Step::Printed(node, records));
                if self.fate.returns > 0 {
                    steps.extend((0..records).map(|printed| Step::Printed(node, printed)));
                }
            }
            _ => {}
        }
        if self.fate.settles > 0 {
            let fates = [false, true].into_iter();
            steps.extend(fates.flat_map(|retry| {
                let settle = move |id| Step::Settle(node, id, retry);
                self.redis.free_ids().map(settle)
            }));
        }
    }

    fn server_steps(&self, steps: &mut Vec<Step>) {
        let fate = &self.fate;
        if let Some(any) = [false, true].into_iter().find(|any| self.can_reclaim(*any)) {
            steps.push(Step::Reclaim(any));
        }
        if fate.jumps > 0 {
            steps.extend([Step::Jump(2 * TTL), Step::Jump(-2 * TTL)]);
        }
        let is_back =
            |(node, client): (Node, &super::Client)| client.dead || self.redis.is_present(node);
        if fate.waits > 0 && (0..).zip(&self.nodes).all(is_back) {
            steps.push(Step::Wait);
        }
        if fate.days > 0 {
            steps.extend([Step::Day(DAY), Step::Day(-DAY)]);
        }
        if fate.restarts > 0 {
            steps.push(Step::Restart);
        }
        if fate.failovers > 0 {
            match &self.replica {
                // A replica only moves on; what it lacks is lost with the failover.
                None => steps.push(Step::Replicate),
                Some(_) => steps.push(Step::Failover),
            }
        }
    }

    /// A step as a story tells it.
    pub fn story(&self, step: &Step) -> String {
        match step {
            Step::Arrive(at) | Step::Unheard(at) | Step::Twin(at) => {
                let verb = match step {
                    Step::Arrive(_) => "arrives",
                    Step::Unheard(_) => "arrives, its answer is lost",
                    _ => "is sent again",
                };
                format!("{verb}: {:?}", self.wire[*at].call)
            }
            step => format!("{step:?}"),
        }
    }

    /// Takes a step.
    pub(super) fn take(&mut self, step: &Step) {
        self.events = super::Events::default();
        match step {
            Step::Arrive(at) => self.arrive(*at, true),
            Step::Unheard(at) => {
                self.fate.silences -= 1;
                self.arrive(*at, false);
            }
            Step::Twin(at) => {
                self.fate.twins -= 1;
                let letter = self.wire[*at].clone();
                self.hear(letter.by, &letter.call, None);
            }
            Step::Beat(node, heard) => {
                if !heard {
                    self.fate.silences -= 1;
                }
                self.beat(*node, *heard);
            }
            Step::Make(node, count) => self.make(*node, *count),
            Step::SendAgain(node) => self.send_again(*node),
            Step::ForgetKept(node) => self.forget_kept(*node),
            Step::Lapse(node) => {
                self.fate.lapses -= 1;
                self.end_reign(*node, 0);
            }
            Step::Ask(node) => self.ask(*node),
            Step::Finish(node, failed) => self.finish(*node, *failed),
            Step::Part(node, failed) => self.part(*node, *failed, false),
            Step::Single(node, failed) => {
                self.fate.singles -= 1;
                self.part(*node, *failed, true);
            }
            Step::Return(node) => {
                self.fate.returns -= 1;
                let number = self.nodes[*node as usize].lane.number;
                self.give_back(*node, number);
            }
            Step::Drain(node) => self.drain_on(*node, Drain::Claiming),
            Step::Printed(node, printed) => {
                let printed = *printed;
                if self.nodes[*node as usize].drain != (Drain::Printing { records: printed }) {
                    self.fate.returns -= 1;
                }
                self.drain_on(*node, Drain::Committing { printed });
            }
            Step::Settle(node, id, retry) => {
                self.fate.settles -= 1;
                self.settle(*node, *id, *retry);
            }
            Step::Reclaim(any) => self.reclaim(*any),
            Step::Crash(node) => {
                self.fate.crashes -= 1;
                if self.last_words_lost {
                    self.wire.retain(|letter| letter.by != *node);
                }
                self.nodes[*node as usize] = super::Client {
                    dead: true,
                    ..Default::default()
                };
            }
            Step::Absent(node) => {
                if !self.nodes[*node as usize].dead {
                    self.fate.cuts -= 1;
                }
                self.redis.set_present(*node, false);
            }
            Step::Present(node) => self.redis.set_present(*node, true),
            Step::Jump(by) => {
                self.fate.jumps -= 1;
                self.now += by;
            }
            Step::Wait => {
                self.fate.waits -= 1;
                self.now += VERDICT_MS;
            }
            Step::Day(by) => {
                self.fate.days -= 1;
                self.now += by;
            }
            Step::Replicate => {
                self.replica = Some(Box::new((self.redis.clone(), self.history.clone())));
            }
            Step::Failover => {
                self.fate.failovers -= 1;
                if let Some(replica) = self.replica.take() {
                    let run = self.redis.run;
                    (self.redis, self.history) = *replica;
                    self.new_server(run + 1);
                }
            }
            Step::Restart => {
                self.fate.restarts -= 1;
                self.new_server(self.redis.run + 1);
            }
        }
    }

    /// A call arrives.
    pub(super) fn arrive(&mut self, at: usize, heard: bool) {
        let letter = self.wire.remove(at);
        let reply = self.run(&letter.call, &letter.texts);
        self.hear(letter.by, &letter.call, heard.then_some(&reply));
    }

    /// Whether a beat would change anything.
    fn beat_matters(&self, node: Node) -> bool {
        let mut redis = self.redis.clone();
        let reply = step(&mut redis, &self.beat_call(node), self.now, self.flaw);
        redis != self.redis || self.hears_in_beat(node, &reply)
    }

    fn beat_call(&self, node: Node) -> Call {
        Call::Beat {
            node,
            run: self.redis.run,
            ttl: TTL,
            above: self.nodes[node as usize].above,
        }
    }

    /// Whether a reclaim would find something.
    fn can_reclaim(&self, any: bool) -> bool {
        let redis = &self.redis;
        redis.claims.iter().any(|(slot, claim)| {
            let due = redis.deadlines.get(slot);
            let due = due.is_some_and(|at| is_past(*at, self.now, self.flaw));
            due || !redis.is_present(slot.node) && (any || claim.run == redis.run)
        })
    }

    /// A node beats. A beat on its way is one that comes later, so it need not lie on the wire.
    pub(super) fn beat(&mut self, node: Node, heard: bool) {
        let reply = self.run(&self.beat_call(node), &[]);
        if heard {
            self.hear_beat(node, &reply);
        }
    }

    pub(super) fn reclaim(&mut self, any: bool) {
        let run: Run = if any { 0 } else { self.redis.run };
        let call = Call::Reclaim {
            run,
            most: 64,
            looked_at: Vec::new(),
            checked: Vec::new(),
        };
        self.run(&call, &[]);
    }

    /// Another run of the server: connections and what was on them are gone. Who waits for an
    /// answer asks again.
    fn new_server(&mut self, run: Run) {
        self.redis.run = run;
        self.redis.present = 0;
        let mut letters = std::mem::take(&mut self.wire);
        letters.dedup();
        for letter in letters {
            self.hear(letter.by, &letter.call, None);
        }
    }
}
