//! What a node logs.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

/// Something that happened to a node. The node logs it after Redis confirmed it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogEvent<'a> {
    /// The node became the generator.
    Generator {
        /// The epoch of its lease.
        epoch: u64,
    },
    /// The node became a worker.
    Worker {
        /// The name of the generator.
        generator: Cow<'a, str>,
    },
    /// Redis accepted messages of the node.
    Published {
        /// The epoch of the node's lease.
        epoch: u64,
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// The text of a single message.
        text: Option<Cow<'a, str>>,
    },
    /// The node committed messages.
    Processed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
        /// The messages that the handler rejected.
        failed: Cow<'a, [u64]>,
        /// The messages that wait for their next attempt.
        #[serde(default)]
        delayed: Cow<'a, [u64]>,
        /// 1, or more if these messages were tried before or workers died with them.
        attempt: u64,
    },
    /// An attempt failed. The message waits for its next attempt.
    Delayed {
        /// The message.
        seq: u64,
        /// Which attempt failed.
        attempt: u64,
        /// How long the message waits, in ms.
        delay_ms: u64,
        /// Why the attempt failed.
        reason: Cow<'a, str>,
    },
    /// The node lost its lease.
    Fenced {
        /// The epoch of the lost lease.
        epoch: u64,
        /// The name of the next generator, if the node knows it.
        by: Option<Cow<'a, str>>,
    },
    /// The node lost a claim before its commit. Another worker handles the messages.
    Lost {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// The node committed messages and stopped before Redis confirmed that at the node's durability.
    Unconfirmed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// Redis no longer has messages that it had acknowledged to the node.
    Regressed {
        /// The first message.
        first: u64,
        /// The last message.
        last: u64,
    },
    /// The node, a generator, declared that these numbers have no message: Redis forgot it.
    Void {
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
    },
    /// The node put messages of dead workers back into the queue.
    Reclaimed {
        /// How many messages.
        count: u64,
        /// The names of the dead workers.
        nodes: Cow<'a, [String]>,
    },
    /// The node, a generator, dropped failed messages that were older than the fleet keeps them.
    Dropped {
        /// How many messages.
        count: u64,
    },
    /// The node noticed that an operator paused the part of the fleet that it is.
    Paused {
        /// `generator` or `workers`.
        part: Cow<'a, str>,
    },
    /// The node noticed that the pause is over.
    Resumed {
        /// `generator` or `workers`.
        part: Cow<'a, str>,
    },
    /// The node lost or regained Redis.
    Redis {
        /// Which of the two.
        state: RedisState,
        /// Why the node lost Redis.
        reason: Option<Cow<'a, str>>,
    },
    /// Writes of the node are confirmed again, after a warning that nothing counts as written.
    Confirmed,
    /// A handler's command printed a line.
    HandlerOutput {
        /// The message that it handles.
        seq: u64,
        /// The line.
        text: Cow<'a, str>,
    },
    /// The command that is the node's source printed a line on its stderr.
    SourceOutput {
        /// The line.
        text: Cow<'a, str>,
    },
    /// A condition that an operator has to repair. The node logs it once until it is over.
    Warning {
        /// What is wrong.
        text: Cow<'a, str>,
    },
    /// The state of the node and of its fleet, every ten seconds.
    Snapshot {
        /// What the node does.
        role: Role,
        /// Messages that this node published per second since its last such line.
        published_per_s: f64,
        /// Messages that this node processed per second since its last such line.
        processed_per_s: f64,
        /// Messages of the fleet that wait.
        pending: u64,
        /// Messages of the fleet that workers hold.
        claimed: u64,
        /// Messages of the fleet that wait for their next attempt.
        delayed: u64,
        /// Failed messages of the fleet in the errors store.
        errors: u64,
    },
    /// The node stopped in good order.
    Stopped,
    /// The log dropped lines here, because its output took no more.
    LogGap {
        /// How many lines.
        lines: u64,
    },
    /// An event that this version does not know.
    #[serde(other)]
    Other,
}

/// Whether a node has Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedisState {
    /// It does not.
    Lost,
    /// It does again.
    Regained,
}

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It generates messages.
    Generator,
    /// It handles messages.
    Worker,
}

impl LogEvent<'_> {
    /// The event's name in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Generator { .. } => "generator",
            Self::Worker { .. } => "worker",
            Self::Published { .. } => "published",
            Self::Processed { .. } => "processed",
            Self::Delayed { .. } => "delayed",
            Self::Fenced { .. } => "fenced",
            Self::Lost { .. } => "lost",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Regressed { .. } => "regressed",
            Self::Void { .. } => "void",
            Self::Reclaimed { .. } => "reclaimed",
            Self::Dropped { .. } => "dropped",
            Self::Paused { .. } => "paused",
            Self::Resumed { .. } => "resumed",
            Self::Redis { .. } => "redis",
            Self::Confirmed => "confirmed",
            Self::HandlerOutput { .. } => "handler_output",
            Self::SourceOutput { .. } => "source_output",
            Self::Warning { .. } => "warning",
            Self::Snapshot { .. } => "snapshot",
            Self::Stopped => "stopped",
            Self::LogGap { .. } => "log_gap",
            Self::Other => "other",
        }
    }

    /// The epoch of the lease that the event is about.
    pub fn epoch(&self) -> Option<u64> {
        match self {
            Self::Generator { epoch }
            | Self::Published { epoch, .. }
            | Self::Fenced { epoch, .. } => Some(*epoch),
            _ => None,
        }
    }

    /// The messages that were published, processed or lost.
    pub fn messages(&self) -> Option<RangeInclusive<u64>> {
        match self {
            Self::Published { first, last, .. }
            | Self::Processed { first, last, .. }
            | Self::Lost { first, last } => Some(*first..=*last),
            _ => None,
        }
    }

    pub(crate) fn serialize_fields<M: SerializeMap>(&self, line: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Generator { epoch } => line.serialize_entry("epoch", epoch),
            Self::Worker { generator } => line.serialize_entry("generator", generator),
            Self::Published {
                epoch,
                first,
                last,
                text,
            } => {
                line.serialize_entry("epoch", epoch)?;
                line.serialize_entry("first", first)?;
                line.serialize_entry("last", last)?;
                serialize_if_some(line, "text", text)
            }
            Self::Processed {
                first,
                last,
                failed,
                delayed,
                attempt,
            } => {
                line.serialize_entry("first", first)?;
                line.serialize_entry("last", last)?;
                line.serialize_entry("failed", failed)?;
                if !delayed.is_empty() {
                    line.serialize_entry("delayed", delayed)?;
                }
                line.serialize_entry("attempt", attempt)
            }
            Self::Delayed {
                seq,
                attempt,
                delay_ms,
                reason,
            } => {
                line.serialize_entry("seq", seq)?;
                line.serialize_entry("attempt", attempt)?;
                line.serialize_entry("delay_ms", delay_ms)?;
                line.serialize_entry("reason", reason)
            }
            Self::Fenced { epoch, by } => {
                line.serialize_entry("epoch", epoch)?;
                line.serialize_entry("by", by)
            }
            Self::Lost { first, last }
            | Self::Unconfirmed { first, last }
            | Self::Regressed { first, last }
            | Self::Void { first, last } => {
                line.serialize_entry("first", first)?;
                line.serialize_entry("last", last)
            }
            Self::Reclaimed { count, nodes } => {
                line.serialize_entry("count", count)?;
                line.serialize_entry("nodes", nodes)
            }
            Self::Dropped { count } => line.serialize_entry("count", count),
            Self::Paused { part } | Self::Resumed { part } => line.serialize_entry("part", part),
            Self::Redis { state, reason } => {
                line.serialize_entry("state", state)?;
                serialize_if_some(line, "reason", reason)
            }
            Self::HandlerOutput { seq, text } => {
                line.serialize_entry("seq", seq)?;
                line.serialize_entry("text", text)
            }
            Self::SourceOutput { text } | Self::Warning { text } => {
                line.serialize_entry("text", text)
            }
            Self::Snapshot {
                role,
                published_per_s,
                processed_per_s,
                pending,
                claimed,
                delayed,
                errors,
            } => {
                line.serialize_entry("role", role)?;
                line.serialize_entry("published_per_s", published_per_s)?;
                line.serialize_entry("processed_per_s", processed_per_s)?;
                line.serialize_entry("pending", pending)?;
                line.serialize_entry("claimed", claimed)?;
                line.serialize_entry("delayed", delayed)?;
                line.serialize_entry("errors", errors)
            }
            Self::LogGap { lines } => line.serialize_entry("lines", lines),
            Self::Confirmed | Self::Stopped | Self::Other => Ok(()),
        }
    }
}

fn serialize_if_some<M: SerializeMap>(
    line: &mut M,
    name: &'static str,
    value: &Option<Cow<'_, str>>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => line.serialize_entry(name, value),
        None => Ok(()),
    }
}
