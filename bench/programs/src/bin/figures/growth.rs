//! How the server's cost grows with the size of packs and of messages, beside an unsafe queue
//! with batches of the same size. Tables to read, no goals.

use std::path::Path;

use anyhow::Result;
use baton_figures::{runtime, server};
use baton_protocol::{PackBuilder, record};

use crate::Rounds;
use crate::line::Line;
use crate::report::{Report, quartiles};

/// Messages per pack that are tried with texts of 64 bytes.
const PACKS: [u64; 6] = [1, 10, 100, 250, 500, 1000];
/// Sizes of texts that are tried in the generator's own packs.
const SIZES: [usize; 7] = [16, 64, 256, 1 << 10, 16 << 10, 128 << 10, 1 << 20];
/// Bytes of texts between two looks at the clock, about, and most packs.
const GROUP_BYTES: usize = 2 << 20;
const GROUP_PACKS: u64 = 200;

pub(crate) fn cost(_: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    runtime()?.block_on(async {
        report.tell("Redis CPU per message, whole life", "ours, unsafe queue");
        for count in PACKS {
            let text = vec![b'x'; 64];
            let full = |builder: &PackBuilder| builder.count() >= count;
            let costs = Pair::measure(rounds, full, &text).await?;
            report.tell(&format!("packs of {count}, 64 bytes"), &costs.words());
        }
        for size in SIZES {
            let text = vec![b'x'; size];
            let costs = Pair::measure(rounds, PackBuilder::is_full, &text).await?;
            let what = format!("{size} bytes, packs of {}", costs.count);
            report.tell(&what, &costs.words());
        }
        Ok(())
    })
}

/// Microseconds of the server's main thread per message.
struct Pair {
    count: u64,
    ours: Vec<f64>,
    floor: Vec<f64>,
}

impl Pair {
    /// Takes both in turns, on the same server.
    async fn measure(
        rounds: Rounds,
        is_full: impl Fn(&PackBuilder) -> bool,
        text: &[u8],
    ) -> Result<Self> {
        let mut line = Line::new(server()?, is_full, text).await?;
        let count = line.count();
        let pack_bytes = text.len() * count as usize;
        let packs = ((GROUP_BYTES / pack_bytes) as u64).clamp(1, GROUP_PACKS);
        let failed = failed(text, count);
        let mut pair = Self {
            count,
            ours: Vec::new(),
            floor: Vec::new(),
        };
        let each = |us: f64| us / (packs * count) as f64;
        // The first round warms up.
        for round in 0..=rounds.growth {
            let began = line.cpu_us()?;
            line.publish(packs).await?;
            line.consume(packs, &failed).await?;
            let middle = line.cpu_us()?;
            floor(&mut line.redis, packs, count, text, failed.len())?;
            let ended = line.cpu_us()?;
            line.forget_errors()?;
            if round > 0 {
                pair.ours.push(each(middle - began));
                pair.floor.push(each(ended - middle));
            }
        }
        Ok(pair)
    }

    fn words(&self) -> String {
        let ([low, ours, high], [_, floor, _]) = (quartiles(&self.ours), quartiles(&self.floor));
        format!("{ours:.2} µs ({low:.2}–{high:.2}), {floor:.2} µs")
    }
}

/// The records of one message in twenty.
fn failed(text: &[u8], count: u64) -> Vec<Vec<u8>> {
    let record = |seq| {
        let reason = "found faulty by chance (5 %)";
        let failed = record::failed_once(seq, 1_700_000_000_000, "0123456789", reason, text);
        record::encode(&failed)
    };
    (1..=count / 20).map(record).collect()
}

/// The same through RPUSH and LPOP with a count.
fn floor(
    redis: &mut redis::Connection,
    batches: u64,
    count: u64,
    text: &[u8],
    failed: usize,
) -> Result<()> {
    for _ in 0..batches {
        let mut push = redis::cmd("RPUSH");
        push.arg("floor");
        for _ in 0..count {
            push.arg(text);
        }
        push.exec(redis)?;
    }
    for _ in 0..batches {
        let popped: Vec<Vec<u8>> = redis::cmd("LPOP").arg("floor").arg(count).query(redis)?;
        if failed > 0 {
            let kept: Vec<&Vec<u8>> = popped.iter().take(failed).collect();
            redis::cmd("RPUSH")
                .arg("floor errors")
                .arg(kept)
                .exec(redis)?;
        }
    }
    Ok(redis::cmd("UNLINK").arg("floor errors").exec(redis)?)
}
