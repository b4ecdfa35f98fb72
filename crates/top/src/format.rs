//! Numbers, times and takeovers, as a person reads them.

use baton::inspect::{Takeover, TakeoverCause};
pub(crate) use baton_print::thousands;

use crate::text::escape;

/// A message's sequence number; behind that of its partition and a dot if the fleet has several.
pub(crate) fn number(partition: Option<u32>, seq: u64) -> String {
    match partition {
        Some(partition) => format!("{partition}.{}", thousands(seq)),
        None => thousands(seq),
    }
}

/// Messages per second, without the unit.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        ..99.95 => format!("{per_s:.1}"),
        ..999_999.5 => thousands(per_s.round() as u64),
        // This is as wide as a column can be.
        _ => format!("{:.2}M", per_s / 1e6),
    }
}

/// A duration in its two largest units.
pub(crate) fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..10 => format!("{}.{} s", s, ms % 1000 / 100),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} m {:02} s", s / 60, s % 60),
        3600..86400 => format!("{} h {:02} m", s / 3600, s / 60 % 60),
        _ => format!("{} d {:02} h", s / 86400, s / 3600 % 24),
    }
}

/// How long until a message is due, short enough for a narrow column. Delays last an hour at most.
pub(crate) fn time_left(ms: u64) -> String {
    let s = ms.div_ceil(1000);
    match s {
        0 => "due".to_owned(),
        1..100 => format!("in {s} s"),
        _ => format!("in {} m", s / 60),
    }
}

/// A latency.
pub(crate) fn latency(s: Option<f64>) -> String {
    match s {
        None => "–".to_owned(),
        Some(s @ 10.0..) => format!("{s:.0} s"),
        Some(s @ 1.0..) => format!("{s:.1} s"),
        Some(s @ 0.01..) => format!("{:.0} ms", s * 1e3),
        Some(s) => format!("{:.1} ms", s * 1e3),
    }
}

/// Why the lease changed hands, in one word.
pub(crate) fn cause(how: TakeoverCause) -> &'static str {
    match how {
        TakeoverCause::First => "first",
        TakeoverCause::Resigned => "resigned",
        TakeoverCause::Gone => "killed",
        TakeoverCause::Expired => "silent",
        TakeoverCause::Raised => "raised",
        _ => "changed",
    }
}

/// How the lease changed hands, in a sentence.
pub(crate) fn sentence(takeover: &Takeover) -> String {
    let node = escape(&takeover.node);
    match takeover.how {
        TakeoverCause::First => format!("{node} was the first to take the baton"),
        TakeoverCause::Raised => format!(
            "{node} went on with the baton under epoch {}",
            takeover.epoch
        ),
        _ => format!(
            "{node} took over from {} after {} ms ({})",
            takeover.from.as_deref().map_or("nobody".to_owned(), escape),
            thousands(takeover.gap_ms),
            cause(takeover.how)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_easy_to_read() {
        assert_eq!(rate(9.94), "9.9");
        assert_eq!(rate(99.96), "100");
        assert_eq!(rate(54_321.5), "54,322");
        assert_eq!(rate(999_999.4), "999,999");
        assert_eq!(rate(1_694_321.0), "1.69M");
        for (ms, text) in [
            (0, "0.0 s"),
            (9_999, "9.9 s"),
            (59_999, "59 s"),
            (61_000, "1 m 01 s"),
            (3_600_000, "1 h 00 m"),
            (90_000_000, "1 d 01 h"),
        ] {
            assert_eq!(age(ms), text);
        }
        for (ms, text) in [
            (0, "due"),
            (1, "in 1 s"),
            (99_000, "in 99 s"),
            (100_000, "in 1 m"),
            (3_600_000, "in 60 m"),
        ] {
            assert_eq!(time_left(ms), text);
        }
        for (s, text) in [
            (None, "–"),
            (Some(0.0042), "4.2 ms"),
            (Some(0.25), "250 ms"),
            (Some(2.5), "2.5 s"),
            (Some(60.0), "60 s"),
        ] {
            assert_eq!(latency(s), text);
        }
    }
}
