//! A process that dies between two chosen instructions.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton_protocol::crash::POINTS;

use super::{Fault, Note};
use crate::arena::Arena;
use crate::handlers::WORK_MS;
use crate::history::End;
use crate::rng::Rng;

/// Longest wait for the point to be reached.
const TIMEOUT: Duration = Duration::from_secs(6);
/// The pause in publishing before a large pack; shorter than the lease.
const MISSED: Duration = Duration::from_millis(600);
/// How long a node works on a large pack until it is in the middle of it.
const HALFWAY: Duration = Duration::from_millis(60);
/// Points that only a generator reaches.
const GENERATOR: [&str; 5] = [
    "after-beat-took-lease",
    "before-seal",
    "after-seal",
    "before-publish",
    "after-publish",
];

/// The process that shall die at its point.
enum Armed {
    Node(usize),
    Drain(usize),
}

pub(super) struct Crash {
    rng: Rng,
    armed: Option<Armed>,
}

impl Crash {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, armed: None }
    }
}

impl Fault for Crash {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let point = self.rng.pick(POINTS).context("there are no points")?;
        // A node passes some points often: it may die at any of the first six times.
        let often = !matches!(point, "before-leave" | "after-reclaim")
            && !point.starts_with("drain-")
            && !point.contains("give-back")
            && !GENERATOR[..3].contains(&point);
        let time = if often { self.rng.between(1, 6) } else { 1 };
        note.text = format!("{point}:{time}");
        let mut env = vec![("BATON_CRASH_AT", note.text.clone())];
        if point.starts_with("drain-") {
            let drain = arena.start_drain(&env)?;
            note.targets = vec![format!("getErrors {}", drain + 1)];
            self.armed = Some(Armed::Drain(drain));
            return Ok(());
        }
        if point.contains("extend") {
            // The handler takes so long that the worker must extend its claim.
            env.push((WORK_MS, "600".to_owned()));
        }
        let node = arena.start_node(&env)?;
        note.targets = arena.labels(&[node]);
        self.armed = Some(Armed::Node(node));
        provoke(arena, node, point, &mut self.rng)
    }

    fn finish(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let reached = match self.armed {
            Some(Armed::Node(node)) => wait_death(arena, node)?,
            Some(Armed::Drain(drain)) => {
                arena.wait_drain(drain)?;
                arena.drained[drain].killed
            }
            None => false,
        };
        note.over = Some(Instant::now());
        if !reached {
            note.text.push_str(" not reached");
        }
        Ok(())
    }
}

/// Whether the armed node dies at its point. It is dead afterwards in any case.
fn wait_death(arena: &mut Arena, node: usize) -> Result<bool> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        // Another fault may have killed it.
        if arena.nodes[node].gone.is_some() {
            return Ok(false);
        }
        if let Some(status) = arena.fleet.ended(node)? {
            let reached = status.code().is_none();
            let end = if reached { End::Killed } else { End::Stopped };
            arena.bury(node, Instant::now(), end);
            if status.code().is_some_and(|code| code != 0) {
                let (label, words) = (&arena.nodes[node].label, arena.last_words(node));
                let finding = format!("{label} ended by itself with {status}: {words}");
                arena.findings.push(finding);
            }
            return Ok(reached);
        }
        if Instant::now() > deadline {
            arena.kill(node)?;
            return Ok(false);
        }
        arena.stop.pause_poll()?;
    }
}

/// Brings the armed node to where its point lies.
fn provoke(arena: &mut Arena, node: usize, point: &str, rng: &mut Rng) -> Result<()> {
    if !arena.wait_joined(node)? {
        return Ok(());
    }
    let others = arena.fleet.alive().into_iter();
    let others: Vec<usize> = others.filter(|other| *other != node).collect();
    let generator = arena.generator();
    match point {
        // The armed node is last in line: it generates when all others are dead.
        point if GENERATOR.contains(&point) => {
            others.into_iter().try_for_each(|other| arena.kill(other))
        }
        // The first standby reclaims. So all standbys before the armed node die, and then a younger
        // one dies while it holds messages.
        "after-reclaim" => {
            for other in others.into_iter().filter(|other| Some(*other) != generator) {
                arena.kill(other)?;
            }
            arena.fill()?;
            let young: Vec<usize> = (node + 1..arena.nodes.len()).collect();
            for other in &young {
                arena.wait_joined(*other)?;
            }
            let holder = arena.pause_holder(&young, rng)?;
            holder.map_or(Ok(()), |holder| arena.kill(holder))
        }
        "mid-handling" => one_large_pack(arena, &others, generator, |_| Ok(())),
        // A node that is asked to stop in the middle of a claim gives back the rest.
        "before-give-back" | "after-give-back" => {
            one_large_pack(arena, &others, generator, |arena| {
                arena.stop.wait(HALFWAY);
                arena.terminate(node)
            })
        }
        "before-leave" => {
            // It may hold messages or none.
            arena.stop.wait(Duration::from_millis(rng.between(0, 300)));
            arena.terminate(node)
        }
        _ => Ok(()),
    }
}

/// Makes the armed node claim several messages at once: publishing pauses, then all due messages
/// come in one pack, and the armed node is the only worker.
fn one_large_pack(
    arena: &mut Arena,
    others: &[usize],
    generator: Option<usize>,
    then: impl FnOnce(&mut Arena) -> Result<()>,
) -> Result<()> {
    others
        .iter()
        .try_for_each(|other| arena.fleet.pause(*other))?;
    arena.stop.wait(MISSED);
    if let Some(generator) = generator {
        arena.fleet.resume(generator)?;
    }
    let done = then(arena);
    arena.stop.wait(HALFWAY);
    others
        .iter()
        .try_for_each(|other| arena.fleet.resume(*other))?;
    done
}
