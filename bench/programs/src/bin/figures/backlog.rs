//! What a long queue costs: processor time per claim and commit, and memory per message.

use std::path::Path;

use anyhow::Result;
use baton_figures::{runtime, server};
use baton_print::errln;
use baton_processes::Info;
use baton_protocol::PackBuilder;

use crate::Rounds;
use crate::line::Line;
use crate::report::{Report, quartiles};

const TEXT: [u8; 64] = [b'x'; 64];
/// Packs that are claimed and committed between two looks at the clock. Half of them are above
/// the level and half below, so that even the shortest queue is as long as it says on average.
const GROUP: u64 = 10;
/// The shortest queue; each next one is ten times as long.
const SHORTEST: u64 = 10_000;
/// From here on filling takes long enough to tell how far it is.
const SLOW_FILL: u64 = 1_000_000;

pub(crate) fn cost(_: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    runtime()?.block_on(processor(rounds, report))
}

/// Takes the levels in turns, so that whatever else the machine does hits all of them.
async fn processor(rounds: Rounds, report: &mut Report) -> Result<()> {
    let levels = std::iter::successors(Some(SHORTEST), |level| Some(level * 10));
    let mut backlogs = Vec::new();
    for level in levels.take_while(|level| *level <= rounds.backlog) {
        backlogs.push(Backlog::fill(level).await?);
    }
    let mut costs = vec![Vec::new(); backlogs.len()];
    for round in 0..rounds.groups {
        let mut order: Vec<usize> = (0..backlogs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for level in order {
            costs[level].push(backlogs[level].group().await?);
        }
    }

    for (backlog, costs) in backlogs.iter().zip(&costs) {
        let [low, median, high] = quartiles(costs);
        report.tell(
            &format!("{} pending: Redis CPU per claim+commit", backlog.level),
            &format!("{median:.0} µs ({low:.0}–{high:.0} µs)"),
        );
        let of_one = 1000.0 * median / backlog.line.count() as f64;
        report.tell("  of a message", &format!("{of_one:.0} ns"));
    }
    let (Some(long), Some(shortest), Some(longest)) =
        (backlogs.last(), costs.first(), costs.last())
    else {
        return Ok(());
    };
    let ratio = quartiles(longest)[1] / quartiles(shortest)[1];
    let pairs: Vec<f64> = longest.iter().zip(shortest).map(|(a, b)| a / b).collect();
    let [low, _, high] = quartiles(&pairs);
    report.add(
        &format!("{} pending ÷ {SHORTEST} pending: the same", long.level),
        &format!("{ratio:.3} ({low:.2}–{high:.2})"),
        "≤ 1.10",
        ratio <= 1.1,
    );
    report.add(
        &format!(
            "{} pending, packs of {}, {}: memory ÷ texts",
            long.level,
            long.line.count(),
            long.allocator
        ),
        &format!("{:.3} ×", long.memory),
        "≤ 1.3",
        long.memory <= 1.3,
    );
    Ok(())
}

/// A line with so many messages pending.
struct Backlog {
    level: u64,
    /// How much `used_memory` grew while it was filled, in sizes of the texts.
    memory: f64,
    allocator: String,
    line: Line,
}

impl Backlog {
    async fn fill(level: u64) -> Result<Self> {
        let mut line = Line::new(server()?, PackBuilder::is_full, &TEXT).await?;
        let before = Info::read(&mut line.redis, "memory")?;
        for tenth in 1..=10 {
            let packs = (level * tenth / 10).saturating_sub(line.last()) / line.count();
            line.publish(packs).await?;
            if level >= SLOW_FILL {
                errln!("backlog: {} of {level} published", line.last());
            }
        }
        let after = Info::read(&mut line.redis, "memory")?;
        let grown = after.number("used_memory")? - before.number("used_memory")?;
        let texts = line.last() * TEXT.len() as u64;
        line.publish(GROUP / 2).await?;
        Ok(Self {
            level,
            memory: grown / texts as f64,
            allocator: before.text("mem_allocator")?.to_owned(),
            line,
        })
    }

    /// Microseconds of the server's main thread per claim and commit. What was taken is
    /// published again afterwards.
    async fn group(&mut self) -> Result<f64> {
        let line = &mut self.line;
        // Two looks in a row tell what a look itself costs.
        let look = line.cpu_us()?;
        let began = line.cpu_us()?;
        line.consume(GROUP, &[]).await?;
        let ended = line.cpu_us()?;
        line.publish(GROUP).await?;
        Ok((ended - began - (began - look)) / GROUP as f64)
    }
}
