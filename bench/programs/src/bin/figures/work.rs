//! Handlers that take a millisecond each: how busy they are kept, and whether any of them idles
//! while another sits on work.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use baton::{FleetName, Target};
use baton_bench::ServerProbe;
use baton_figures::{TIMEOUT, fleet, server};
use baton_protocol::{Keys, Range};

use crate::Rounds;
use crate::report::Report;

/// Two workers of eight lanes, a millisecond per message.
const WORKERS: usize = 2;
const LANES: usize = 8;
const IDEAL: f64 = 16_000.0;
/// The most that a lane may hold while another idles, in messages of a millisecond.
const MOST_HELD: u64 = 50;

pub(crate) fn of_a_millisecond(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let messages = 16_000 * rounds.seconds;
    let args = format!("--interval 0 --messages {messages} --work 1ms --concurrency {LANES}");
    let _fleet = fleet(program, &server, WORKERS + 1, &args)?;
    let keys = Keys::new(&FleetName::new("default")?);
    let mut probe = ServerProbe::open(&Target::parse(&server.url())?)?;
    // From the first tenth, when all are at work, to the last.
    let (mut began, mut most_held) = (None, 0);
    let deadline = Instant::now() + TIMEOUT;
    let rate = loop {
        let (_, ended) = probe.counts(&keys)?;
        if began.is_none() && ended >= messages / 10 {
            began = Some((Instant::now(), ended));
        }
        if let Some((at, before)) = began
            && ended >= messages - messages / 10
        {
            break (ended - before) as f64 / at.elapsed().as_secs_f64();
        }
        if Instant::now() > deadline {
            bail!("{ended} of {messages} ended within {TIMEOUT:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    // The end is where lanes run out of work.
    while probe.counts(&keys)?.1 < messages {
        most_held = most_held.max(held_beside_idlers(&mut probe, &keys)?);
    }
    let share = 100.0 * rate / IDEAL;
    report.add(
        "handlers of 1 ms, 16 at a time",
        &format!("{rate:.0} /s, {share:.1} % of the ideal"),
        "≥ 95 %",
        share >= 95.0,
    );
    report.add(
        "  most messages held by one lane while another idles",
        &format!("{most_held}"),
        "≤ 50",
        most_held <= MOST_HELD,
    );
    Ok(())
}

/// The largest claim at a moment at which nothing waits and some lane has nothing.
fn held_beside_idlers(probe: &mut ServerProbe, keys: &Keys) -> Result<u64> {
    let (waiting, claims): (u64, Vec<String>) = redis::pipe()
        .atomic()
        .cmd("LLEN")
        .arg(&keys.queue)
        .cmd("HVALS")
        .arg(&keys.claims)
        .query(probe.redis())?;
    if waiting > 0 || claims.len() == WORKERS * LANES {
        return Ok(0);
    }
    let size = |claim: &String| {
        let range = claim.splitn(4, ' ').nth(3).and_then(Range::parse);
        range.map_or(0, |range| range.size())
    };
    Ok(claims.iter().map(size).max().unwrap_or_default())
}
