//! The history of a run: the lives of its processes with their roles, the faults, and the fate of
//! every message. `chaos --json` writes it, and the report is drawn from it.
//!
//! All times are seconds since the run began.

use serde::{Deserialize, Serialize};

use crate::failover_check::Losses;

/// A whole run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct History {
    /// The seed that repeats the plan.
    pub seed: u64,
    /// The command that runs it again.
    pub command: String,
    /// Name and version of the server program.
    pub server: String,
    /// How the server kept its data, as in `appendfsync always`.
    pub durability: String,
    /// How long it took.
    pub seconds: f64,
    /// Every process, in the order in which they started.
    #[serde(rename = "lanes")]
    pub lives: Vec<Life>,
    /// Every fault, in order.
    pub faults: Vec<Fault>,
    /// The fate of the messages.
    pub verdict: Verdict,
    /// From the death of a generator to its successor's seal, in ms.
    pub takeovers_ms: Vec<f64>,
    /// From the death of a worker that held messages to their return to the queue, in ms.
    pub recoveries_ms: Vec<f64>,
}

impl History {
    /// Every change of the generator: the last reign before it and the first after.
    pub fn handovers(&self) -> Vec<(Reign, Reign)> {
        let spans = self.lives.iter().enumerate();
        let spans = spans.flat_map(|(life, at)| at.spans.iter().map(move |span| (life, span)));
        let mut all: Vec<Reign> = spans
            .filter_map(|(life, span)| match span.role {
                Role::Generator { epoch } => Some(Reign {
                    life,
                    from_s: span.from_s,
                    to_s: span.to_s,
                    epoch,
                }),
                _ => None,
            })
            .collect();
        all.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
        let mut reigns: Vec<Reign> = Vec::new();
        for reign in all {
            let same = |other: &Reign| (other.life, other.epoch) == (reign.life, reign.epoch);
            match reigns.iter().rposition(same) {
                None => reigns.push(reign),
                // No other node generated meanwhile: the generator was paused for a moment only.
                Some(index) if index + 1 == reigns.len() => reigns[index].to_s = reign.to_s,
                // A generator that wakes up believes in its old epoch until the fence stops it.
                Some(_) => {}
            }
        }
        let pairs = reigns.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|(old, new)| old.life != new.life).collect()
    }
}

/// The time of one generator.
#[derive(Debug, Clone, Copy)]
pub struct Reign {
    /// Which of the lives.
    pub life: usize,
    /// From when.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// Under this epoch.
    pub epoch: u64,
}

/// The life of one process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Life {
    /// Its name in the picture: `node 3`, `getErrors 1`.
    pub label: String,
    /// Its name in Redis and in the logs; empty if it never logged.
    pub node: String,
    /// When it was started.
    pub from_s: f64,
    /// When it was gone, or the run ended.
    pub to_s: f64,
    /// How it ended.
    pub end: End,
    /// Its roles, in order, without overlap, with gaps while the role is unknown.
    pub spans: Vec<Span>,
    /// When it ended (or, as a generator, published) messages.
    pub ticks: Vec<Tick>,
}

impl Life {
    /// The name of the process, with the one that it has in Redis.
    pub fn name(&self) -> String {
        match self.node.as_str() {
            "" => self.label.clone(),
            node => format!("{} ({node})", self.label),
        }
    }

    /// Whether it generated at this moment.
    pub fn is_generator_at(&self, at_s: f64) -> bool {
        self.spans.iter().any(|span| {
            let generates = matches!(span.role, Role::Generator { .. });
            generates && span.from_s <= at_s && at_s < span.to_s
        })
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It was killed with -9, by the run or at a crash point.
    Killed,
    /// It stopped in good order.
    Stopped,
    /// It lived to the end of the run.
    #[default]
    Alive,
}

/// A time in one role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Span {
    /// From when.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// As what.
    pub role: Role,
}

/// What a process did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It generated.
    Generator {
        /// Under this epoch.
        epoch: u64,
    },
    /// It worked.
    Worker,
    /// It took failed messages out of the errors store.
    Drain,
    /// It was paused.
    Paused,
    /// It was the push service.
    Service,
}

/// Messages published or ended at about one moment by one process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Tick {
    /// When.
    pub at_s: f64,
    /// How many.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
}

/// One fault and how the fleet recovered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Fault {
    /// Its kind: `kill -9 the generator`.
    pub name: String,
    /// Labels of the processes that it hit; empty if it hit the server.
    pub targets: Vec<String>,
    /// When it began.
    pub from_s: f64,
    /// When it was lifted.
    pub to_s: f64,
    /// How long after that the fleet had caught up, with balanced books, in ms.
    #[serde(rename = "settled_ms")]
    pub recovered_ms: Option<f64>,
    /// A detail, as in `printed 12 before`.
    pub note: String,
}

/// The fate of the messages.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// Messages that Redis accepted.
    pub published: u64,
    /// Ended well, once.
    pub done: u64,
    /// Ended as failed, once.
    pub failed: u64,
    /// Failed messages that a drain printed and removed.
    pub drained: u64,
    /// Accepted, never ended.
    pub lost: u64,
    /// Ended more than once.
    pub duplicated: u64,
    /// Ended, never accepted.
    pub phantom: u64,
    /// How often the effects of messages counted; `None` without effects. It must be as often as
    /// `done`.
    #[serde(default)]
    pub counted: Option<u64>,
    /// What failovers did to messages that nodes had logged; `None` with a single server.
    #[serde(default)]
    pub losses: Option<Losses>,
    /// Every violation in words, the first with the trace of its message; empty if all is well.
    pub findings: Vec<String>,
}

impl Verdict {
    /// Whether every message ended exactly once and nothing else is wrong.
    pub fn is_clean(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.phantom == 0 && self.findings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_wakes_up_in_an_old_epoch_has_not_got_the_baton_back() {
        let mut run = History::default();
        for reigns in [
            &[(0.0, 1.0, 1), (1.2, 2.0, 1), (4.0, 4.1, 1)][..],
            &[(3.0, 6.0, 2)],
            &[(6.5, 7.0, 3), (7.0, 9.0, 4)],
        ] {
            let span = |(from_s, to_s, epoch): &(f64, f64, u64)| Span {
                from_s: *from_s,
                to_s: *to_s,
                role: Role::Generator { epoch: *epoch },
            };
            run.lives.push(Life {
                spans: reigns.iter().map(span).collect(),
                ..Life::default()
            });
        }
        let handovers = run.handovers().into_iter();
        let seen = handovers.map(|(old, new)| (old.epoch, old.to_s, new.epoch, new.from_s));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(1, 2.0, 2, 3.0), (2, 6.0, 3, 6.5)]
        );
    }
}
