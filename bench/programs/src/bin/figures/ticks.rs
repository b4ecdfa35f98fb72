//! Whether ticks are lost or doubled when the generator dies just before or after one.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use baton::FleetName;
use baton_figures::{TIMEOUT, fleet, server};
use baton_processes::History;
use baton_protocol::Keys;

use crate::Rounds;
use crate::report::Report;

const EVERY_MS: u64 = 100;
/// A kill counts if it is no further from a tick.
const NEAR_MS: u64 = 8;
/// A busy machine kills too late at times: at most so many attempts for each kill that counts.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(2);

/// Where the fleet stands. A publish changes number and tick in one step.
struct Place {
    node: String,
    /// The number of the last message.
    last: u64,
    /// The next tick on the server's clock, which is this machine's.
    due_ms: u64,
}

impl Place {
    fn read(redis: &mut redis::Connection, keys: &Keys) -> Result<Self> {
        let (node, last, cursor): (String, u64, String) = redis::cmd("HMGET")
            .arg(&keys.fence)
            .arg(&["node", "last", "cursor"])
            .query(redis)?;
        // The source's kind, the next tick, and the time at which the generator wrote it.
        let due = cursor.split(' ').nth(1).context("no tick in the cursor")?;
        Ok(Self {
            node,
            last,
            due_ms: due.parse()?,
        })
    }
}

/// Kills generators within 8 ms of a tick, and compares messages with ticks after each kill.
pub(crate) fn around_kills(program: &Path, rounds: Rounds, report: &mut Report) -> Result<()> {
    let server = server()?;
    let mut fleet = fleet(program, &server, 4, "--interval 100ms --error-rate 0")?;
    fleet.wait_for(0, TIMEOUT, "a message", |told| told.is_published())?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let keys = Keys::new(&FleetName::new("default")?);
    let (mut kills, mut missed, mut doubled) = (0, 0, 0);
    for attempt in 0..rounds.tick_kills * ATTEMPTS {
        if kills == rounds.tick_kills {
            break;
        }
        let generator = fleet.generator().context("the fleet has no generator")?;
        let before = Place::read(&mut redis, &keys)?;
        // From 7 ms before the tick to 7 ms after it, by turns.
        let offset_ms = attempt as u64 % (2 * NEAR_MS - 1);
        let mark = fleet.mark();
        sleep_until(before.due_ms + offset_ms - (NEAR_MS - 1));
        fleet.kill9(generator)?;
        let distance = now().abs_diff(Duration::from_millis(before.due_ms));
        kills += usize::from(distance <= Duration::from_millis(NEAR_MS));

        let after = successor(&mut redis, &keys, &before)?;
        let ticks = (after.due_ms - before.due_ms) / EVERY_MS;
        let beat = (after.due_ms - before.due_ms) % EVERY_MS;
        ensure!(beat == 0, "the ticks moved by {beat} ms");
        let made = after.last - before.last;
        missed += ticks.saturating_sub(made);
        doubled += made.saturating_sub(ticks);
        // Its log may be read later than Redis, and the next round asks the logs who generates.
        fleet.wait_for(mark, TIMEOUT, "a generator", |told| told.is_generator())?;
        fleet.start_many(1, TIMEOUT)?;
    }
    let history = History::new(&fleet.told());
    doubled += (history.published_twice().len() + history.duplicated().len()) as u64;
    report.add(
        "kill -9 within 8 ms of a tick, every 100 ms",
        &format!("{missed} missed, {doubled} doubled of {kills}"),
        &format!("0, 0 of {}", rounds.tick_kills),
        missed == 0 && doubled == 0 && kills == rounds.tick_kills,
    );
    Ok(())
}

/// Where the fleet stands when a successor has published.
fn successor(redis: &mut redis::Connection, keys: &Keys, before: &Place) -> Result<Place> {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        let place = Place::read(redis, keys)?;
        if place.node != before.node && place.last > before.last + 1 {
            return Ok(place);
        }
        std::thread::sleep(PAUSE);
    }
    bail!("no successor published within {TIMEOUT:?}")
}

fn now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

fn sleep_until(at_ms: u64) {
    std::thread::sleep(Duration::from_millis(at_ms).saturating_sub(now()));
}
