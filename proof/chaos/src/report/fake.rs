//! Runs that never were, but could have been.

use crate::record::{End, Fault, Lane, Record, Role, Span, Tick, Verdict};

/// Messages per second that the generator makes.
const RATE: f64 = 200.0;
/// The length of a tick's bucket, in seconds.
const BUCKET: f64 = 0.1;

/// Kinds of faults: name, what happens, and how long it lasts at least and at most.
const KINDS: [(&str, Hit, f64, f64); 20] = [
    ("kill -9 the generator", Hit::KillGenerator, 0.0, 0.0),
    ("kill -9 a worker", Hit::KillWorker, 0.0, 0.0),
    (
        "kill -9 a worker that holds messages",
        Hit::KillWorker,
        0.0,
        0.0,
    ),
    ("crash point after commit", Hit::KillWorker, 0.2, 0.9),
    ("kill -9 the generator", Hit::KillGenerator, 0.0, 0.0),
    ("SIGSTOP the generator", Hit::PauseGenerator, 1.6, 2.2),
    ("SIGSTOP a worker", Hit::PauseWorker, 1.6, 2.6),
    ("stop the generator", Hit::StopGenerator, 0.0, 0.1),
    ("stop a worker", Hit::StopWorker, 0.0, 0.1),
    ("kill -9 all nodes", Hit::KillAll, 0.0, 0.0),
    ("Redis kill -9 and restart", Hit::Server, 0.3, 1.9),
    ("CLIENT KILL TYPE normal", Hit::Server, 0.0, 0.0),
    ("CLIENT PAUSE", Hit::Server, 0.5, 1.2),
    ("SCRIPT FLUSH", Hit::Server, 0.0, 0.0),
    ("maxmemory reached", Hit::Server, 0.8, 1.6),
    ("disk full under the AOF", Hit::Server, 0.5, 1.0),
    ("clock of Redis jumps 60 s ahead", Hit::Server, 0.0, 0.0),
    ("proxy loses replies", Hit::Network, 0.4, 1.5),
    ("partition of one node", Hit::Network, 0.8, 2.0),
    ("kill -9 a drain", Hit::Drain, 0.1, 0.4),
];

#[derive(Clone, Copy, PartialEq)]
enum Hit {
    KillGenerator,
    KillWorker,
    PauseGenerator,
    PauseWorker,
    StopGenerator,
    StopWorker,
    KillAll,
    Server,
    Network,
    Drain,
}

/// A run in the making.
struct Fake {
    record: Record,
    dice: u64,
    /// The lanes that live, the generator first.
    alive: Vec<usize>,
    epoch: u64,
    drains: usize,
    /// When nothing could be done, on the whole server.
    dark: Vec<(f64, f64)>,
}

/// A run of so many seconds and faults on five nodes; the same for the same seed.
pub(super) fn run(seed: u64, seconds: f64, faults: usize) -> Record {
    let mut fake = Fake {
        record: Record {
            seed,
            command: format!("chaos --seed {seed} --seconds {seconds} --nodes 5"),
            server: "valkey 9.1.2".to_owned(),
            durability: "appendfsync always".to_owned(),
            seconds,
            ..Record::default()
        },
        dice: seed,
        alive: Vec::new(),
        epoch: 1,
        drains: 0,
        dark: Vec::new(),
    };
    for index in 0..5 {
        fake.start(0.05 * f64::from(index));
    }
    fake.become_generator(0.4);
    let pace = (seconds - 2.0) / faults as f64;
    for index in 0..faults {
        let at = 1.5 + pace * (index as f64 + 0.5 * fake.roll());
        fake.fault(at, index);
    }
    fake.finish()
}

impl Fake {
    /// A number from 0 to 1.
    fn roll(&mut self) -> f64 {
        let step = self.dice.wrapping_mul(6_364_136_223_846_793_005);
        self.dice = step.wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 40) as f64 / (1u64 << 24) as f64
    }

    fn start(&mut self, at: f64) {
        let number = self.record.lanes.len() - self.drains + 1;
        self.alive.push(self.record.lanes.len());
        self.record.lanes.push(Lane {
            label: format!("node {number}"),
            node: format!("host-{:04x}", number * 40_503 % 65_536),
            from_s: at,
            to_s: f64::INFINITY,
            end: End::Alive,
            spans: Vec::new(),
            ticks: Vec::new(),
        });
        let lane = self.record.lanes.len() - 1;
        self.be(lane, at + 0.08, Role::Worker);
    }

    /// From now on a lane has this role.
    fn be(&mut self, lane: usize, at: f64, role: Role) {
        let lane = &mut self.record.lanes[lane];
        if let Some(last) = lane.spans.last_mut() {
            last.to_s = at;
        }
        lane.spans.push(Span {
            from_s: at,
            to_s: f64::INFINITY,
            role,
        });
    }

    /// The first of those that live generates.
    fn become_generator(&mut self, at: f64) {
        let epoch = self.epoch;
        self.epoch += 1;
        self.be(self.alive[0], at, Role::Generator { epoch });
    }

    fn end(&mut self, place: usize, at: f64, end: End) -> String {
        let index = self.alive.remove(place);
        let lane = &mut self.record.lanes[index];
        (lane.to_s, lane.end) = (at, end);
        if let Some(last) = lane.spans.last_mut() {
            last.to_s = at;
        }
        lane.label.clone()
    }

    /// The baton passes to the next, and a new node takes the place of the gone one.
    fn succeed(&mut self, at: f64, killed: bool) {
        let took = 0.012 + 0.06 * self.roll() * self.roll();
        if killed {
            self.record.takeovers_ms.push(took * 1000.0);
        }
        self.become_generator(at + took);
        self.start(at + 0.05);
    }

    fn fault(&mut self, at: f64, index: usize) {
        let (name, hit, least, most) = KINDS[(index * 7 + index / 20) % KINDS.len()];
        let to = at + least + (most - least) * self.roll();
        let worker = 1 + (self.roll() * (self.alive.len() - 1) as f64) as usize;
        let worker = worker.min(self.alive.len() - 1);
        let label =
            |fake: &Self, place: usize| vec![fake.record.lanes[fake.alive[place]].label.clone()];
        let targets = match hit {
            Hit::KillGenerator => {
                let gone = self.end(0, at, End::Killed);
                self.succeed(at, true);
                vec![gone]
            }
            Hit::StopGenerator => {
                let gone = self.end(0, to, End::Stopped);
                self.succeed(to, false);
                vec![gone]
            }
            Hit::KillWorker => {
                let gone = self.end(worker, to, End::Killed);
                let took = 8.0 + 80.0 * self.roll() * self.roll();
                self.record.recoveries_ms.push(took);
                self.start(to + 0.05);
                vec![gone]
            }
            Hit::StopWorker => {
                let gone = self.end(worker, to, End::Stopped);
                self.start(to + 0.05);
                vec![gone]
            }
            Hit::PauseGenerator => {
                let old = self.alive.remove(0);
                self.be(old, at, Role::Paused);
                self.become_generator(at + 1.05);
                self.be(old, to, Role::Worker);
                self.alive.push(old);
                vec![self.record.lanes[old].label.clone()]
            }
            Hit::PauseWorker => {
                self.be(self.alive[worker], at, Role::Paused);
                self.be(self.alive[worker], to, Role::Worker);
                label(self, worker)
            }
            Hit::KillAll => {
                let gone = (0..5).map(|_| self.end(0, at, End::Killed)).collect();
                for index in 0..5 {
                    self.start(at + 0.06 + 0.02 * f64::from(index));
                }
                self.record.takeovers_ms.push(260.0);
                self.become_generator(at + 0.26);
                gone
            }
            Hit::Server => {
                self.dark.push((at, to + 0.1));
                Vec::new()
            }
            Hit::Network => label(self, worker),
            Hit::Drain => vec![self.drain(at - 0.3, to, End::Killed)],
        };
        if index % 6 == 2 {
            self.drain(at + 0.2, at + 1.1, End::Stopped);
        }
        let settled = 30.0 + 900.0 * self.roll() * self.roll() * self.roll();
        let note = match hit {
            Hit::Server if to > at => format!("{:.0} commits repeated", 1.0 + 5.0 * self.roll()),
            Hit::KillAll => "two of three crashes for 4 messages".to_owned(),
            _ => String::new(),
        };
        self.record.faults.push(Fault {
            name: name.to_owned(),
            targets,
            from_s: at,
            to_s: to,
            settled_ms: Some(settled),
            note,
        });
    }

    fn drain(&mut self, from_s: f64, to_s: f64, end: End) -> String {
        self.drains += 1;
        let label = format!("getErrors {}", self.drains);
        self.record.lanes.push(Lane {
            label: label.clone(),
            node: String::new(),
            from_s,
            to_s,
            end,
            spans: vec![Span {
                from_s,
                to_s,
                role: Role::Drain,
            }],
            ticks: Vec::new(),
        });
        label
    }

    fn finish(mut self) -> Record {
        let seconds = self.record.seconds;
        for index in 0..self.record.lanes.len() {
            let lane = &mut self.record.lanes[index];
            lane.to_s = lane.to_s.min(seconds);
            for span in &mut lane.spans {
                span.to_s = span.to_s.min(seconds);
                span.from_s = span.from_s.min(seconds);
            }
            let spans = lane.spans.clone();
            for span in spans {
                self.work(index, &span);
            }
        }
        let lanes = self.record.lanes.iter();
        let ticks = lanes
            .flat_map(|lane| &lane.ticks)
            .filter(|tick| tick.count < 15);
        let (all, failed) = ticks.fold((0, 0), |(all, failed), tick| {
            (all + tick.count, failed + tick.failed)
        });
        self.record.verdict = Verdict {
            published: all,
            done: all - failed,
            failed,
            drained: failed,
            ..Verdict::default()
        };
        self.record
    }

    fn work(&mut self, lane: usize, span: &Span) {
        let share = match span.role {
            Role::Generator { .. } => 1.0,
            Role::Worker => 0.25,
            Role::Drain | Role::Paused => return,
        };
        let mut step = (span.from_s / BUCKET).ceil();
        while step * BUCKET < span.to_s {
            let at_s = step * BUCKET;
            step += 1.0;
            if self
                .dark
                .iter()
                .any(|(from, to)| *from <= at_s && at_s < *to)
            {
                continue;
            }
            let count = (RATE * BUCKET * share * (0.7 + 0.6 * self.roll())).round() as u64;
            let fails = share < 1.0 && self.roll() < 0.05 * count as f64;
            self.record.lanes[lane].ticks.push(Tick {
                at_s,
                count,
                failed: u64::from(fails),
            });
        }
    }
}
