//! Times in the log: RFC 3339, milliseconds, UTC.

use std::time::SystemTime;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time that is written without an allocation.
pub(crate) struct Rfc3339(pub(crate) SystemTime);

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_rfc3339_millis(self.0))
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_rfc3339(&text).map_err(D::Error::custom)
}
