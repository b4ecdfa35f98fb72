//! The life of every process of a run, and how long takeovers and recoveries took.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_log::LogEvent;
use baton_processes::Told;

use crate::arena::{Arena, push_service_label};
use crate::history::{End, Life, Role, Span, Tick};

/// About how many ticks all lives have together.
const TICKS: f64 = 3000.0;
/// The shortest tick, in s; shorter ones would be too narrow for the report.
const SHORTEST_TICK: f64 = 0.15;
/// Longest wait that counts as a takeover or a recovery.
const LONGEST: Duration = Duration::from_secs(30);

/// The life of every process, in the order in which they started.
pub fn lives(arena: &Arena, told: &[Told], began: Instant) -> Vec<Life> {
    let now = Instant::now();
    let at = |moment: Instant| moment.saturating_duration_since(began).as_secs_f64();
    let tick_s = (at(now) * arena.settings.nodes as f64 / TICKS).max(SHORTEST_TICK);
    let mut by_node: Vec<Vec<&Told>> = vec![Vec::new(); arena.nodes.len()];
    told.iter().for_each(|told| by_node[told.copy].push(told));
    let mut lives: Vec<Life> = Vec::new();
    for (node, told) in arena.nodes.iter().zip(by_node) {
        let (to, end) = node.gone.unwrap_or((now, End::Alive));
        let events = told.iter().map(|told| (at(told.at), *told));
        let pauses = node.pauses.iter();
        let pauses = pauses.map(|(from, until)| (at(*from), at(until.unwrap_or(to))));
        lives.push(Life {
            label: node.label.clone(),
            node: node.name.clone(),
            from_s: at(node.from),
            to_s: at(to),
            end,
            spans: overlay(spans(events.clone(), at(to)), pauses),
            ticks: ticks(events, tick_s),
        });
    }
    let prints = arena.drains.told();
    for (number, drain) in arena.drained.iter().enumerate() {
        let to = drain.to.unwrap_or(now);
        let printed = prints.iter().filter(|print| print.copy == number).count() as u64;
        let tick = Tick {
            at_s: at(to),
            count: printed,
            failed: printed,
        };
        lives.push(Life {
            label: format!("getErrors {}", number + 1),
            node: String::new(),
            from_s: at(drain.from),
            to_s: at(to),
            end: if drain.killed {
                End::Killed
            } else {
                End::Stopped
            },
            spans: vec![Span {
                from_s: at(drain.from),
                to_s: at(to),
                role: Role::Drain,
            }],
            ticks: Vec::from_iter((printed > 0).then_some(tick)),
        });
    }
    let services = arena.push_service.iter().flat_map(|service| &service.lives);
    for (number, (from, until)) in services.enumerate() {
        let (from_s, to_s) = (at(*from), at(until.unwrap_or(now)));
        lives.push(Life {
            label: push_service_label(number + 1),
            from_s,
            to_s,
            end: until.map_or(End::Alive, |_| End::Killed),
            spans: vec![Span {
                from_s,
                to_s,
                role: Role::Service,
            }],
            ..Life::default()
        });
    }
    lives.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    lives
}

/// The roles of a node, from its log.
fn spans<'a>(events: impl Iterator<Item = (f64, &'a Told)>, to_s: f64) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut open: Option<(f64, Role)> = None;
    for (at_s, told) in events {
        let role = match told.event() {
            LogEvent::Generator { epoch } => Some(Role::Generator { epoch: *epoch }),
            LogEvent::Worker { .. } => Some(Role::Worker),
            LogEvent::Fenced { .. } | LogEvent::Stopped => None,
            _ => continue,
        };
        if role.is_some() && role == open.map(|(_, role)| role) {
            continue;
        }
        close(&mut spans, open, at_s);
        open = role.map(|role| (at_s, role));
    }
    close(&mut spans, open, to_s);
    spans
}

fn close(spans: &mut Vec<Span>, open: Option<(f64, Role)>, to_s: f64) {
    if let Some((from_s, role)) = open {
        let to_s = to_s.max(from_s);
        spans.push(Span { from_s, to_s, role });
    }
}

/// Cuts pauses out of the roles of a node.
fn overlay(spans: Vec<Span>, pauses: impl Iterator<Item = (f64, f64)>) -> Vec<Span> {
    let mut all = spans;
    for (from_s, to_s) in pauses {
        let mut cut = Vec::new();
        for span in all {
            let before = (span.from_s, span.to_s.min(from_s));
            let after = (span.from_s.max(to_s), span.to_s);
            for (from_s, to_s) in [before, after] {
                if from_s < to_s {
                    cut.push(Span {
                        from_s,
                        to_s,
                        ..span
                    });
                }
            }
        }
        cut.push(Span {
            from_s,
            to_s,
            role: Role::Paused,
        });
        cut.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
        all = cut;
    }
    all
}

/// Messages published or ended, in ticks of this length.
fn ticks<'a>(events: impl Iterator<Item = (f64, &'a Told)>, tick_s: f64) -> Vec<Tick> {
    let mut buckets: BTreeMap<u64, Tick> = BTreeMap::new();
    for (at_s, told) in events {
        let (first, last, failed) = match told.event() {
            LogEvent::Published { first, last, .. } => (first, last, 0),
            LogEvent::Processed {
                first,
                last,
                failed,
                ..
            } => (first, last, failed.len() as u64),
            _ => continue,
        };
        let bucket = (at_s / tick_s) as u64;
        let tick = buckets.entry(bucket).or_insert(Tick {
            at_s: (bucket as f64 + 0.5) * tick_s,
            count: 0,
            failed: 0,
        });
        tick.count += (last + 1).saturating_sub(*first);
        tick.failed += failed;
    }
    buckets.into_values().collect()
}

/// From the death of a generator to its successor's first line, in ms. Only deaths without another
/// fault at the same time count.
pub fn takeovers_ms(arena: &Arena, told: &[Told]) -> Vec<f64> {
    let deaths = arena.deaths.iter().filter(|death| death.generator);
    let took = deaths.filter_map(|death| {
        let from = told.partition_point(|told| told.at < death.at);
        let mut later = told[from..].iter();
        let next = later.find(|told| {
            matches!(told.event(), LogEvent::Generator { .. }) && told.copy != death.node
        })?;
        Some(next.at - death.at)
    });
    milliseconds(took)
}

/// From the death of a worker that held messages to their return to the queue, in ms.
pub fn recoveries_ms(arena: &Arena, told: &[Told]) -> Vec<f64> {
    let took = arena.deaths.iter().filter_map(|death| {
        let name = &arena.nodes[death.node].name;
        let from = told.partition_point(|told| told.at < death.at);
        let back = told[from..].iter().find(|told| {
            matches!(told.event(), LogEvent::Reclaimed { nodes, .. } if nodes.contains(name))
        })?;
        Some(back.at - death.at)
    });
    milliseconds(took)
}

fn milliseconds(times: impl Iterator<Item = Duration>) -> Vec<f64> {
    times
        .filter(|time| *time < LONGEST)
        .map(|time| time.as_secs_f64() * 1000.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use baton_log::Line;

    use super::*;

    fn told(event: LogEvent<'static>) -> Told {
        Told {
            copy: 0,
            at: Instant::now(),
            line: Line {
                at: SystemTime::UNIX_EPOCH,
                node: "n".into(),
                partition: None,
                event,
            },
        }
    }

    #[test]
    fn a_life_is_cut_into_roles_and_pauses_without_overlap() {
        let worker = |generator: &'static str| LogEvent::Worker {
            generator: generator.into(),
        };
        let lines = [
            (1.0, told(worker("x"))),
            (2.0, told(worker("y"))),
            (4.0, told(LogEvent::Generator { epoch: 7 })),
            (6.0, told(LogEvent::Fenced { epoch: 7, by: None })),
            (8.0, told(worker("z"))),
        ];
        let events = lines.iter().map(|(at, told)| (*at, told));
        let all = overlay(spans(events, 10.0), [(5.0, 7.0)].into_iter());
        let all: Vec<(f64, f64, Role)> = all
            .iter()
            .map(|span| (span.from_s, span.to_s, span.role))
            .collect();
        assert_eq!(
            all,
            [
                (1.0, 4.0, Role::Worker),
                (4.0, 5.0, Role::Generator { epoch: 7 }),
                (5.0, 7.0, Role::Paused),
                (8.0, 10.0, Role::Worker),
            ]
        );
    }

    #[test]
    fn messages_of_about_one_moment_are_one_tick() {
        let processed = |first, last, failed: &'static [u64]| {
            told(LogEvent::Processed {
                first,
                last,
                failed: failed.into(),
                delayed: Vec::new().into(),
                attempt: 1,
            })
        };
        let published = told(LogEvent::Published {
            epoch: 1,
            first: 5,
            last: 9,
            text: None,
        });
        let lines = [
            (0.1, processed(1, 3, &[2])),
            (0.4, processed(4, 4, &[])),
            (0.6, published),
            (0.7, told(LogEvent::Lost { first: 1, last: 9 })),
        ];
        let ticks = ticks(lines.iter().map(|(at, told)| (*at, told)), 0.5);
        let ticks: Vec<(f64, u64, u64)> = ticks
            .iter()
            .map(|tick| (tick.at_s, tick.count, tick.failed))
            .collect();
        assert_eq!(ticks, [(0.25, 4, 1), (0.75, 5, 0)]);
    }
}
