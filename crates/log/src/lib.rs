//! The lines that `baton run --log json` writes.
//!
//! A node writes one JSON object per [`LogEvent`]. `baton` serializes a [`Line`], and a
//! program that reads the log deserializes the same type:
//!
//! ```
//! use baton_log::{Line, LogEvent};
//!
//! let text = r#"{"at":"2023-11-14T22:13:20.123Z","event":"generator","node":"k3v9","epoch":3}"#;
//! let line: Line = serde_json::from_str(text)?;
//! assert_eq!(line.node, "k3v9");
//! assert_eq!(line.event, LogEvent::Generator { epoch: 3 });
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! A reader survives a newer writer: it reads an event that it does not know as
//! [`LogEvent::Other`], and it ignores a field that it does not know.

mod event;
mod time;

use std::borrow::Cow;
use std::time::SystemTime;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

pub use event::{LogEvent, RedisState, Role};

/// One line of a node's log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Line<'a> {
    /// When the node wrote the line, on the clock of its machine; the log keeps milliseconds.
    #[serde(deserialize_with = "time::deserialize")]
    pub at: SystemTime,
    /// The name of the node.
    pub node: Cow<'a, str>,
    /// The partition whose messages the event is about; none in a fleet of one partition, and for an event
    /// about the node.
    #[serde(default)]
    pub partition: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub event: LogEvent<'a>,
}

/// By hand, because the node stands between the event's name and the event's fields.
impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("at", &time::Rfc3339(self.at))?;
        line.serialize_entry("event", self.event.name())?;
        line.serialize_entry("node", &self.node)?;
        if let Some(partition) = &self.partition {
            line.serialize_entry("partition", partition)?;
        }
        self.event.serialize_fields(&mut line)?;
        line.end()
    }
}
