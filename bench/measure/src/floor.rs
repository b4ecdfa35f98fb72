//! The floor: the same messages through an unsafe queue, with variadic RPUSH and LPOP with a
//! count. Nothing is fenced, and the messages of a dead worker are lost. Its list is on one server, so there
//! is no floor for a cluster of several masters.
//!
//! [`set_and_get`] is the floor below: the server only stores and returns the bytes.

mod batch_size;
mod copies;
mod set_and_get;

use anyhow::{Context, Result};
use baton_processes::Fleet;

pub use batch_size::{batch_sizes, best_batch_size};
pub use copies::{consume, produce};
pub use set_and_get::set_and_get;

use crate::timed_fleet::{Progress, TimedFleet, Usage};
use crate::{FleetProbe, Plan, ServerProbe};

/// The keys of an unsafe queue.
pub struct Queue {
    messages: String,
    errors: String,
    ended: String,
    times: String,
}

impl Queue {
    /// The keys of the queue with this name.
    pub fn new(name: &str) -> Self {
        let key = |what: &str| format!("{name}:{what}");
        Self {
            messages: key("messages"),
            errors: key("errors"),
            ended: key("ended"),
            times: key("times"),
        }
    }

    fn all(&self) -> [&str; 4] {
        [&self.messages, &self.errors, &self.ended, &self.times]
    }

    /// How many messages wait, and how many have ended.
    fn counts(&self, probe: &mut ServerProbe) -> Result<(u64, u64)> {
        let (waiting, ended): (u64, Option<u64>) = redis::pipe()
            .cmd("LLEN")
            .arg(&self.messages)
            .cmd("GET")
            .arg(&self.ended)
            .query(probe.redis())?;
        Ok((waiting, ended.unwrap_or_default()))
    }

    /// What the copies have recorded so far.
    pub(crate) fn times(&self, probe: &mut ServerProbe) -> Result<Vec<RecordedTime>> {
        let lines: Vec<String> = redis::cmd("LRANGE")
            .arg(&self.times)
            .arg(0)
            .arg(-1)
            .query(probe.redis())?;
        let times = lines.iter().map(|line| RecordedTime::parse(line));
        times.collect::<Option<_>>().context("not a recorded time")
    }

    pub(crate) fn remove(&self, probe: &mut ServerProbe) -> Result<()> {
        redis::cmd("UNLINK")
            .arg(&self.all())
            .exec(probe.redis())
            .context("cannot remove the keys of the floor")
    }
}

/// A time on the server's clock that a copy recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedTime {
    /// How many messages had ended since the copy's last record; 0 for the first push.
    pub(crate) ended: u64,
    /// When, in µs.
    pub(crate) at_us: u64,
}

impl RecordedTime {
    fn parse(line: &str) -> Option<Self> {
        let (ended, at_us) = line.split_once(' ')?;
        Some(Self {
            ended: ended.parse().ok()?,
            at_us: at_us.parse().ok()?,
        })
    }

    fn line(self) -> String {
        format!("{} {}", self.ended, self.at_us)
    }
}

/// A fresh queue, and the fleet that will use it. Copies record their times if they are asked to.
pub(crate) fn fleet(plan: &Plan, messages: u64, batch: u64, times: bool) -> (Queue, Fleet) {
    let name = format!("baton-bench-floor:{{{}}}", baton_protocol::new_name());
    let args = [
        "bench-floor",
        "--queue",
        &name,
        "--batch",
        &batch.to_string(),
        "--messages",
        &messages.to_string(),
        "--size",
        &plan.size.to_string(),
        "--error-rate",
        &plan.error_rate.to_string(),
    ];
    let args = args.iter().copied().chain(times.then_some("--times"));
    let fleet = Fleet::of(&plan.program, args.map(str::to_owned).collect());
    (Queue::new(&name), fleet.with_env(&plan.env))
}

/// Times the floor at one batch size. Returns the seconds, and what the run used.
pub fn run(
    plan: &Plan,
    messages: u64,
    batch: u64,
    mut report: impl FnMut(Progress) -> Result<()>,
) -> Result<(f64, Usage)> {
    let (queue, fleet) = fleet(plan, messages, batch, false);
    let mut probe = FleetProbe::open(&plan.target)?;
    let role = |copy| if copy == 0 { "produce" } else { "consume" };
    let mut timed = TimedFleet::start(fleet, plan.workers + 1, role, &mut probe)?;
    let watched = timed.watch(
        |probe| {
            let (waiting, ended) = queue.counts(probe.only()?)?;
            Ok(Progress {
                messages,
                published: ended + waiting,
                ended,
            })
        },
        |_, now| report(now),
    );
    let measured = (timed.elapsed().as_secs_f64(), timed.usage()?);
    drop(timed);
    queue.remove(probe.only()?)?;
    watched.map(|()| measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_time_is_read_as_it_was_written() {
        let time = RecordedTime {
            ended: 500,
            at_us: 1_700_000_000_123_456,
        };
        assert_eq!(RecordedTime::parse(&time.line()), Some(time));
        assert_eq!(RecordedTime::parse("500"), None);
    }
}
