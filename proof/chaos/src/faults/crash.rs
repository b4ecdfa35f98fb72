//! A process that dies between two chosen instructions.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use baton_protocol::crash::POINTS;

use super::{Fault, Note};
use crate::dice::Dice;
use crate::history::End;
use crate::stage::Stage;

/// Longest wait for the point to be reached.
const PATIENCE: Duration = Duration::from_secs(6);
/// How long nobody generates before a large pack: less than the lease's time.
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

/// Who is to die, and where.
enum Armed {
    Node(usize),
    Drain(usize),
}

pub(super) struct Crash {
    dice: Dice,
    armed: Option<Armed>,
}

impl Crash {
    pub(super) fn new(dice: Dice) -> Self {
        Self { dice, armed: None }
    }
}

impl Fault for Crash {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let point = self.dice.pick(POINTS).context("there are no points")?;
        // What happens often may also happen at the sixth time; a reign begins but once.
        let often = !matches!(point, "before-leave" | "after-reclaim")
            && !point.starts_with("drain-")
            && !point.contains("give-back")
            && !GENERATOR[..3].contains(&point);
        let time = if often { self.dice.between(1, 6) } else { 1 };
        note.text = format!("{point}:{time}");
        let mut env = vec![("BATON_CRASH_AT", note.text.clone())];
        if point.starts_with("drain-") {
            let drain = stage.start_drain(&env)?;
            note.targets = vec![format!("getErrors {}", drain + 1)];
            self.armed = Some(Armed::Drain(drain));
            return Ok(());
        }
        if point.contains("extend") {
            // So long that the claim would run out.
            env.push(("BATON_WORK", "600ms".to_owned()));
        }
        let node = stage.start_node(&env)?;
        note.targets = stage.labels(&[node]);
        self.armed = Some(Armed::Node(node));
        provoke(stage, node, point, &mut self.dice)
    }

    fn finish(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let reached = match self.armed {
            Some(Armed::Node(node)) => wait_death(stage, node)?,
            Some(Armed::Drain(drain)) => {
                stage.wait_drain(drain)?;
                stage.drained[drain].killed
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

/// Whether the armed node dies of its point. It is gone in any case.
fn wait_death(stage: &mut Stage, node: usize) -> Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Another fault may have killed it.
        if stage.nodes[node].gone.is_some() {
            return Ok(false);
        }
        if let Some(status) = stage.fleet.ended(node)? {
            let reached = status.code().is_none();
            let end = if reached { End::Killed } else { End::Stopped };
            stage.bury(node, Instant::now(), end);
            if status.code().is_some_and(|code| code != 0) {
                let (label, words) = (&stage.nodes[node].label, stage.last_words(node));
                let finding = format!("{label} ended by itself with {status}: {words}");
                stage.findings.push(finding);
            }
            return Ok(reached);
        }
        if Instant::now() > deadline {
            stage.kill(node)?;
            return Ok(false);
        }
        stage.stop.look_again()?;
    }
}

/// Brings the armed node to where its point lies.
fn provoke(stage: &mut Stage, node: usize, point: &str, dice: &mut Dice) -> Result<()> {
    if !stage.wait_joined(node)? {
        return Ok(());
    }
    let others = stage.fleet.alive().into_iter();
    let others: Vec<usize> = others.filter(|other| *other != node).collect();
    let generator = stage.generator();
    match point {
        // The last in line generates when nobody else is left.
        point if GENERATOR.contains(&point) => {
            others.into_iter().try_for_each(|other| stage.kill(other))
        }
        // The first in line sees what the dead leave behind: all before it must go, and of those
        // who come after it one must die with messages in its hands.
        "after-reclaim" => {
            for other in others.into_iter().filter(|other| Some(*other) != generator) {
                stage.kill(other)?;
            }
            stage.fill()?;
            let young: Vec<usize> = (node + 1..stage.nodes.len()).collect();
            for other in &young {
                stage.wait_joined(*other)?;
            }
            let holder = stage.pause_holder(&young, dice)?;
            holder.map_or(Ok(()), |holder| stage.kill(holder))
        }
        "mid-handling" => one_large_pack(stage, &others, generator, |_| Ok(())),
        // Stopped in the middle of a claim, it returns the rest.
        "before-give-back" | "after-give-back" => {
            one_large_pack(stage, &others, generator, |stage| {
                stage.stop.wait(HALFWAY);
                stage.terminate(node)
            })
        }
        "before-leave" => {
            // With messages in its hands, or none.
            stage.stop.wait(Duration::from_millis(dice.between(0, 300)));
            stage.terminate(node)
        }
        _ => Ok(()),
    }
}

/// Messages that nobody made in time come in one pack, and the armed node is there alone to
/// take them: its claims have more than one message.
fn one_large_pack(
    stage: &mut Stage,
    others: &[usize],
    generator: Option<usize>,
    then: impl FnOnce(&mut Stage) -> Result<()>,
) -> Result<()> {
    others
        .iter()
        .try_for_each(|other| stage.fleet.pause(*other))?;
    stage.stop.wait(MISSED);
    if let Some(generator) = generator {
        stage.fleet.resume(generator)?;
    }
    let done = then(stage);
    stage.stop.wait(HALFWAY);
    others
        .iter()
        .try_for_each(|other| stage.fleet.resume(*other))?;
    done
}
