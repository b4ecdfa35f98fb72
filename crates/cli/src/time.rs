//! Moments as people and programs read them: RFC 3339, milliseconds, UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first millisecond that RFC 3339 has no words for.
const YEAR_10000_MS: u64 = 253_402_300_800_000;

/// A moment of Redis's clock; none for 0, which stands for *not known*.
pub(crate) fn moment(ms: u64) -> Option<String> {
    match ms {
        0 => None,
        // Only a record that somebody made by hand says so.
        YEAR_10000_MS.. => Some(format!("{ms}ms")),
        _ => Some(
            humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string(),
        ),
    }
}

/// Now, on this machine's clock.
pub(crate) fn now() -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_millis(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_moment_or_none() {
        assert_eq!(moment(0), None);
        assert_eq!(
            moment(1_700_000_000_123).unwrap(),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(
            moment(YEAR_10000_MS - 1).unwrap(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!(moment(YEAR_10000_MS).unwrap(), "253402300800000ms");
        assert!(moment(u64::MAX).is_some());
    }
}
