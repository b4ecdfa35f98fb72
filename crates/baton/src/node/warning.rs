//! What a node warns of.

use std::fmt;
use std::time::Duration;

use baton_protocol::Durability;

/// Something is wrong that an operator should know. A node warns once until it passes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The queue is full: the generator waits.
    QueueFull {
        /// How many messages have not ended.
        open: u64,
    },
    /// The errors store is full: workers wait.
    ErrorsFull {
        /// How many failed messages it has.
        records: u64,
    },
    /// Another program wrote the fleet's last sequence number.
    ForeignNumber {
        /// The key that has it.
        key: String,
        /// What it says.
        found: u64,
        /// The last message of the fleet, as far as this node knows.
        last: u64,
    },
    /// Another source, or another program, wrote the source's cursor: the source begins anew.
    ForeignCursor {
        /// The key that has it.
        key: String,
    },
    /// Redis's clock was set. The schedule goes on as if it were not.
    ClockSet {
        /// By how many milliseconds: forward, or back if negative.
        by_ms: i64,
    },
    /// More ticks were missed than the generator makes up for.
    LeftOut {
        /// How many messages the generator left out.
        count: u64,
        /// The time in which they were due, in ms.
        of_ms: u64,
        /// How much time the generator makes up for, in ms.
        at_most_ms: u64,
    },
    /// The source cannot make messages for now.
    SourceFailed {
        /// Why, in the source's words.
        reason: String,
    },
    /// The source cannot make messages on this node: the node resigns and generates no more.
    SourceGaveUp {
        /// Why, in the source's words.
        reason: String,
    },
    /// The handler cannot work, whatever the message: the worker gives messages back and pauses.
    HandlerUnavailable {
        /// Why, in the handler's words.
        reason: String,
    },
    /// The fleet has no worker: messages wait.
    NoWorker,
    /// What Redis acknowledges is not as durable as the settings ask: the node waits.
    NotDurable {
        /// What the settings ask for.
        asked: Durability,
        /// Why Redis cannot give it.
        reason: String,
    },
    /// Redis answers and takes no messages.
    CannotPublish {
        /// Why, in Redis's words.
        reason: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { open } => write!(
                f,
                "the queue is full ({open} messages have not ended): the generator waits for the \
                 workers"
            ),
            Self::ErrorsFull { records } => write!(
                f,
                "the errors store is full ({records} failed messages): take or drop some, or \
                 raise its limit"
            ),
            Self::ForeignNumber { key, found, last } => write!(
                f,
                "the field last of {key} is {found}, but the last message of the fleet is #{last}: \
                 another hand wrote it. Messages go on with #{}, those between do not exist",
                found.max(last) + 1
            ),
            Self::ForeignCursor { key } => write!(
                f,
                "the field cursor of {key} is not of this source, which begins anew"
            ),
            Self::ClockSet { by_ms } => {
                let by = duration(by_ms.unsigned_abs());
                let way = if *by_ms > 0 { "forward" } else { "back" };
                write!(
                    f,
                    "Redis's clock was set {way} by {by}; the schedule goes on as if it were not"
                )
            }
            Self::LeftOut {
                count,
                of_ms,
                at_most_ms,
            } => write!(
                f,
                "left out {count} missed messages of {}: no more than {} are made up for",
                duration(*of_ms),
                duration(*at_most_ms)
            ),
            Self::SourceFailed { reason } => {
                write!(f, "the source failed: {reason}; it is opened again")
            }
            Self::SourceGaveUp { reason } => write!(
                f,
                "the source cannot go on: {reason}; this node generates no more"
            ),
            Self::HandlerUnavailable { reason } => write!(
                f,
                "the handler cannot work: {reason}; messages wait, and no attempt counts"
            ),
            Self::NoWorker => f.write_str(
                "no worker: messages wait; start another copy, or let the generator work alone",
            ),
            Self::NotDurable { asked, reason } => write!(
                f,
                "nothing counts as written for now: {reason}; the durability is {asked}, so this node waits"
            ),
            Self::CannotPublish { reason } => write!(f, "cannot publish for now: {reason}"),
        }
    }
}

/// A time as people write it, such as `10m` or `23h 59m 58s`; below a second in milliseconds.
fn duration(ms: u64) -> humantime::FormattedDuration {
    let exact = Duration::from_millis(ms);
    let whole = Duration::from_secs(exact.as_secs());
    humantime::format_duration(if ms < 1000 { exact } else { whole })
}
