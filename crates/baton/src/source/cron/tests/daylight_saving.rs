//! Ticks when clocks are put forward and back.

use super::*;

const VIENNA: &str = "Europe/Vienna";
const NEW_YORK: &str = "America/New_York";
/// 2026-03-29T00:00:00Z and 2026-10-25T00:00:00Z: Vienna changes its clocks an hour later.
const VIENNA_FORWARD: u64 = 1_774_742_400 * SECOND;
const VIENNA_BACK: u64 = 1_792_886_400 * SECOND;
/// 2026-03-08T06:00:00Z and 2026-11-01T05:00:00Z: New York changes its clocks an hour later.
const NEW_YORK_FORWARD: u64 = 1_772_949_600 * SECOND;
const NEW_YORK_BACK: u64 = 1_793_509_200 * SECOND;

/// What the clocks of the zone show at the ticks of six hours.
fn local_ticks(entry: &str, zone: &str, from: u64) -> Vec<String> {
    let spec = CronSpec::new(entry, zone).unwrap();
    let ticks = std::iter::successors(spec.next_after(from - 1), |tick| spec.next_after(*tick));
    let ticks = ticks.take_while(|tick| *tick < from + 6 * HOUR);
    ticks
        .map(|tick| spec.local(tick)[11..].to_owned())
        .collect()
}

#[test]
fn one_time_a_day_that_does_not_exist_is_the_moment_after_the_gap() {
    for (entry, zone, from, tick) in [
        ("30 2 * * *", VIENNA, VIENNA_FORWARD, "03:00:00+02:00"),
        ("0 2 * * *", VIENNA, VIENNA_FORWARD, "03:00:00+02:00"),
        ("30 2 * * *", NEW_YORK, NEW_YORK_FORWARD, "03:00:00-04:00"),
    ] {
        assert_eq!(local_ticks(entry, zone, from), [tick], "{entry} {zone}");
    }
}

#[test]
fn one_time_a_day_that_exists_twice_is_the_first() {
    for (entry, zone, from, tick) in [
        ("30 2 * * *", VIENNA, VIENNA_BACK, "02:30:00+02:00"),
        ("30 1 * * *", NEW_YORK, NEW_YORK_BACK, "01:30:00-04:00"),
    ] {
        assert_eq!(local_ticks(entry, zone, from), [tick], "{entry} {zone}");
    }
}

#[test]
fn many_times_a_day_are_left_out_if_they_do_not_exist_and_come_twice_if_they_do() {
    let forward = |entry| local_ticks(entry, VIENNA, VIENNA_FORWARD);
    assert_eq!(forward("*/30 2 * * *"), [""; 0]);
    assert_eq!(
        forward("0 1-4 * * *"),
        ["01:00:00+01:00", "03:00:00+02:00", "04:00:00+02:00"]
    );
    let back = |entry| local_ticks(entry, VIENNA, VIENNA_BACK);
    let twice = [
        "02:00:00+02:00",
        "02:30:00+02:00",
        "02:00:00+01:00",
        "02:30:00+01:00",
    ];
    assert_eq!(back("*/30 2 * * *"), twice);
    assert_eq!(back("0,30 2 * * *"), twice);
    assert_eq!(
        local_ticks("0 0-2 * * *", NEW_YORK, NEW_YORK_BACK - HOUR),
        [
            "00:00:00-04:00",
            "01:00:00-04:00",
            "01:00:00-05:00",
            "02:00:00-05:00"
        ]
    );
}

#[test]
fn every_hour_is_every_hour_even_when_the_clocks_change() {
    for (zone, from) in [
        (VIENNA, VIENNA_FORWARD),
        (VIENNA, VIENNA_BACK),
        (NEW_YORK, NEW_YORK_FORWARD),
        (NEW_YORK, NEW_YORK_BACK),
    ] {
        let spec = CronSpec::new("@hourly", zone).unwrap();
        for hour in 0..6 {
            let at = from + hour * HOUR;
            assert_eq!(spec.next_after(at - 1), Some(at), "{zone} {hour}");
        }
    }
}

/// A successor begins in the middle: it must see the ticks that its predecessor would have seen.
#[test]
fn the_next_tick_is_the_same_from_wherever_one_looks() {
    for (zone, from) in [
        (VIENNA, VIENNA_FORWARD),
        (VIENNA, VIENNA_BACK),
        (NEW_YORK, NEW_YORK_FORWARD),
        (NEW_YORK, NEW_YORK_BACK),
    ] {
        for entry in [
            "30 2 * * *",
            "30 1 * * *",
            "0 3 * * *",
            "*/20 1-3 * * *",
            "0 * * * *",
            "15 2,3 * * *",
        ] {
            let spec = CronSpec::new(entry, zone).unwrap();
            let mut next = spec.next_after(from);
            for at in (from..from + 30 * HOUR).step_by(10_500) {
                if next.is_some_and(|tick| tick <= at) {
                    next = next.and_then(|tick| spec.next_after(tick));
                }
                assert_eq!(spec.next_after(at), next, "{entry} {zone} after {at}");
            }
        }
    }
}
