//! Now, as people and programs read it.

use std::time::SystemTime;

/// Now, on this machine's clock: RFC 3339, milliseconds, UTC.
pub(crate) fn now() -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_millis(SystemTime::now())
}
