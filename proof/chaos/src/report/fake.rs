//! Runs that never happened, but could have: five nodes at a time, fault after fault.

use crate::history::{End, Fault, History, Life, Role, Span, Tick};
use crate::rng::Rng;

/// Max messages that the generator publishes in a tick.
const TICK: u64 = 40;

/// A run of so many seconds and faults; the same for the same seed.
pub(super) fn run(seed: u64, seconds: f64, faults: usize) -> History {
    let mut rng = Rng::new(seed);
    let mut run = History {
        seed,
        command: format!("chaos --seed {seed} --seconds {seconds} --nodes 5"),
        server: "valkey 9.1.2".to_owned(),
        durability: "appendfsync always".to_owned(),
        seconds,
        ..History::default()
    };
    // The generator has place 0.
    let mut fleet: Vec<usize> = (0..5)
        .map(|_| run.start("node", 0.1, Role::Worker))
        .collect();
    run.turn(0, 0.4, Role::Generator { epoch: 1 });
    for index in 0..faults {
        let place = index as f64 + rng.between(0, 50) as f64 / 100.0;
        let from_s = 1.5 + (seconds - 4.0) / faults as f64 * place;
        let (name, lasts_s, hit, end) = match index % 8 {
            0 => ("kill -9 the generator", 0.0, 0..1, End::Killed),
            1 => (
                "kill -9 a worker that holds messages",
                0.0,
                1..2,
                End::Killed,
            ),
            2 => ("Redis kill -9 and restart", 1.2, 0..0, End::Alive),
            3 => ("SIGSTOP a worker", 2.1, 3..4, End::Alive),
            4 => ("stop the generator", 0.1, 0..1, End::Stopped),
            5 => ("SCRIPT FLUSH", 0.0, 0..0, End::Alive),
            6 => ("kill -9 all nodes", 0.0, 0..5, End::Killed),
            _ => ("kill -9 a drain", 0.4, 0..0, End::Killed),
        };
        let (to_s, took_ms) = (from_s + lasts_s, rng.between(10, 90) as f64);
        let mut targets = fleet[hit.clone()].to_vec();
        if end == End::Alive {
            for life in &targets {
                run.turn(*life, from_s, Role::Paused);
                run.turn(*life, to_s, Role::Worker);
            }
        } else if hit.is_empty() {
            targets.push(run.start("getErrors", from_s - 0.3, Role::Drain));
        }
        if end != End::Alive {
            targets.iter().for_each(|life| run.end(*life, to_s, end));
            hit.clone()
                .for_each(|place| fleet[place] = run.start("node", to_s + 0.05, Role::Worker));
        }
        if hit.contains(&0) {
            // The worker in the second place takes over.
            fleet.swap(0, 1);
            let role = Role::Generator {
                epoch: index as u64 + 2,
            };
            run.turn(fleet[0], to_s + took_ms / 1000.0, role);
            run.takeovers_ms.push(took_ms);
        } else if end == End::Killed {
            run.recoveries_ms.push(took_ms);
        }
        let label = |life: &usize| run.lives[*life].label.clone();
        run.faults.push(Fault {
            name: name.to_owned(),
            targets: targets.iter().map(label).collect(),
            from_s,
            to_s,
            recovered_ms: Some(rng.between(30, 900) as f64),
            note: format!("{index} commits repeated"),
        });
    }
    run.work(&mut rng);
    run
}

impl History {
    /// Starts a process and returns its index.
    fn start(&mut self, kind: &str, from_s: f64, role: Role) -> usize {
        let index = self.lives.len();
        self.lives.push(Life {
            label: format!("{kind} {index}"),
            node: format!("host-{index}"),
            from_s,
            to_s: self.seconds,
            ..Life::default()
        });
        self.turn(index, from_s + 0.05, role);
        index
    }

    /// From this moment on a process has this role.
    fn turn(&mut self, index: usize, from_s: f64, role: Role) {
        let to_s = self.seconds;
        self.cut(index, from_s);
        self.lives[index].spans.push(Span { from_s, to_s, role });
    }

    fn end(&mut self, index: usize, to_s: f64, end: End) {
        self.cut(index, to_s);
        (self.lives[index].to_s, self.lives[index].end) = (to_s, end);
    }

    fn cut(&mut self, index: usize, to_s: f64) {
        let spans = self.lives[index].spans.iter_mut();
        spans.for_each(|span| span.to_s = span.to_s.min(to_s));
    }

    /// Lets every generator publish and every worker work.
    fn work(&mut self, rng: &mut Rng) {
        let verdict = &mut self.verdict;
        for life in &mut self.lives {
            for tick in 0..300 {
                let at_s = f64::from(tick) * self.seconds / 300.0;
                let mut spans = life.spans.iter();
                let span = spans.find(|span| span.from_s <= at_s && at_s < span.to_s);
                match span.map(|span| span.role) {
                    Some(Role::Generator { .. }) => {
                        let count = rng.between(TICK / 2, TICK);
                        life.ticks.push(Tick {
                            at_s,
                            count,
                            failed: 0,
                        });
                        verdict.published += count;
                    }
                    Some(Role::Worker) => {
                        let (count, failed) = (rng.between(TICK / 8, TICK / 4), rng.between(0, 1));
                        life.ticks.push(Tick {
                            at_s,
                            count,
                            failed,
                        });
                        verdict.failed += failed;
                    }
                    _ => {}
                }
            }
        }
        verdict.done = verdict.published - verdict.failed;
        verdict.drained = verdict.failed;
    }
}
