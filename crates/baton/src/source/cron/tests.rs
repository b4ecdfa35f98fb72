//! Which ticks there are, in which order, and what becomes of missed ones.

mod daylight_saving;

use baton_protocol::{Pack, PackBuilder, PackKeys};
use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// 2026-11-15T10:00:00Z, a Sunday.
const TEN: u64 = 1_794_736_800 * SECOND;

fn spec(spec: &str) -> CronSpec {
    CronSpec::new(spec, "UTC").unwrap()
}

/// A crontab in UTC that stands at a tick without a name.
fn crontab(entries: &[(&str, &str)], missed: Missed, at_ms: u64) -> Crontab {
    let mut crontab = Crontab::default();
    for (name, entry) in entries {
        assert!(crontab.add(name, spec(entry)), "{name}");
    }
    crontab.set_missed(missed);
    crontab.resume(Some(tick(at_ms, "")));
    crontab
}

fn tick(at_ms: u64, name: &str) -> Tick {
    let name = name.to_owned();
    Tick { at_ms, name }
}

/// What is due now, and how many are left out.
fn due(crontab: &mut Crontab, now_ms: u64) -> (Vec<Tick>, usize) {
    let (mut due, mut left_out) = (Vec::new(), 0);
    loop {
        match crontab.step(now_ms) {
            Step::Due(tick) => due.push(tick),
            Step::LeftOut(_) => left_out += 1,
            Step::Wait(at_ms) => {
                assert!(at_ms > now_ms);
                return (due, left_out);
            }
            Step::End => return (due, left_out),
        }
    }
}

fn batch(limit: u64) -> Batch {
    Batch::new(1, limit, false, false, PackBuilder::default())
}

#[test]
fn ticks_come_in_order_of_time_and_of_name_at_one_time() {
    let entries = [
        ("b", "*/2 * * * *"),
        ("c", "*/3 * * * *"),
        ("a", "*/3 * * * *"),
    ];
    let mut crontab = crontab(&entries, Missed::default(), TEN);
    let at = |minute: u64, name| tick(TEN + minute * MINUTE, name);
    let expected = [
        at(0, "a"),
        at(0, "b"),
        at(0, "c"),
        at(2, "b"),
        at(3, "a"),
        at(3, "c"),
        at(4, "b"),
        at(6, "a"),
        at(6, "b"),
        at(6, "c"),
    ];
    assert_eq!(due(&mut crontab, TEN + 6 * MINUTE), (expected.to_vec(), 0));
    assert_eq!(crontab.step(TEN + 6 * MINUTE), Step::Wait(TEN + 8 * MINUTE));
}

#[test]
fn a_successor_continues_behind_any_tick() {
    let entries = [
        ("a", "* * * * * *"),
        ("b", "*/2 * * * * *"),
        ("c", "* * * * * *"),
    ];
    let now = TEN + 10 * SECOND;
    let (all, _) = due(&mut crontab(&entries, Missed::default(), TEN), now);
    assert_eq!(all.len(), 28);
    for made in 0..all.len() {
        let cursor = all[made].cursor();
        let mut successor = crontab(&entries, Missed::default(), 0);
        successor.resume(Tick::parse(cursor.as_bytes()));
        assert_eq!(due(&mut successor, now).0, all[made + 1..], "{cursor}");
    }
}

#[test]
fn a_cursor_is_a_time_and_a_name_or_nothing() {
    for (cursor, position) in [
        ("1794736800000 report", tick(TEN, "report")),
        ("1794736800000", tick(TEN, "")),
        ("0 ä=1", tick(0, "ä=1")),
    ] {
        assert_eq!(Tick::parse(cursor.as_bytes()), Some(position.clone()));
        assert_eq!(position.cursor(), cursor);
    }
    for bad in [
        &b""[..],
        b"report",
        b" report",
        b"-1 a",
        b"1.5 a",
        b"99999999999999999999",
        b"\xff",
    ] {
        assert_eq!(Tick::parse(bad), None, "{bad:?}");
    }
}

#[test]
fn a_crontab_begins_now_unless_it_stands_somewhere_near() {
    let entries = [("a", "* * * * *")];
    let mut new = crontab(&entries, Missed::default(), 0);
    new.resume(None);
    assert!(new.begins(TEN + 1));
    assert_eq!(new.position(), Some(&tick(TEN + 1, "")));
    assert!(!new.begins(TEN + 2), "once");
    assert_eq!(new.step(TEN + 2), Step::Wait(TEN + MINUTE));

    // The clock was set back: a little means to wait, a lot to begin anew.
    for (ahead, begins) in [
        (0, false),
        (3 * HOUR, false),
        (3 * HOUR + 1, true),
        (u64::MAX - TEN, true),
    ] {
        let mut ahead_of_time = crontab(&entries, Missed::default(), TEN + ahead);
        assert_eq!(ahead_of_time.begins(TEN), begins, "{ahead}");
    }
}

#[test]
fn missed_ticks_are_made_up_for_within_the_bound_and_others_are_counted() {
    let entries = [("a", "* * * * *"), ("b", "* * * * *")];
    let missed = |at_most| {
        due(
            &mut crontab(&entries, at_most, TEN - DAY),
            TEN + 30 * SECOND,
        )
    };
    let catch_up = |minutes: u64| Missed::CatchUp {
        at_most: Duration::from_secs(60 * minutes),
    };
    // The beginning of the day counts, too.
    let all = 2 * (24 * 60 + 1);
    for (at_most, minutes) in [
        (Missed::default(), 10),
        (catch_up(30), 30),
        (catch_up(1), 1),
    ] {
        let (made, left_out) = missed(at_most);
        assert_eq!(made.len(), 2 * minutes, "{at_most:?}");
        assert_eq!(left_out, all - 2 * minutes, "{at_most:?}");
        let first = TEN - (minutes as u64 - 1) * MINUTE;
        assert_eq!(made.first(), Some(&tick(first, "a")), "{at_most:?}");
        assert_eq!(made.last(), Some(&tick(TEN, "b")), "{at_most:?}");
    }
    assert_eq!(missed(catch_up(0)), (vec![], all), "30 s is not on time");
    assert_eq!(missed(catch_up(48 * 60)).1, 0);
}

#[test]
fn a_tick_is_skipped_when_it_is_more_than_five_seconds_late() {
    let entries = [("daily", "0 10 * * *"), ("second", "* * * * * *")];
    let skipped = |now| due(&mut crontab(&entries, Missed::Skip, TEN - 3 * DAY), now);
    let seconds =
        |from: u64, until: u64| (from..=until).map(|at| tick(TEN + at * SECOND, "second"));
    let (made, left_out) = skipped(TEN + 5 * SECOND);
    let mut expected = vec![tick(TEN, "daily")];
    expected.extend(seconds(0, 5));
    assert_eq!((made, left_out), (expected, 0));
    let (made, left_out) = skipped(TEN + 5 * SECOND + 1);
    assert_eq!((made, left_out), (seconds(1, 5).collect(), 0));
}

#[test]
fn a_takeover_loses_no_tick_whatever_becomes_of_missed_ones() {
    let now = TEN + 4 * SECOND;
    let catch_up = Missed::CatchUp {
        at_most: Duration::ZERO,
    };
    for missed in [Missed::default(), catch_up, Missed::Skip, Missed::Last] {
        let mut crontab = crontab(&[("a", "* * * * * *")], missed, TEN);
        let all = (0..=4).map(|at| tick(TEN + at * SECOND, "a"));
        assert_eq!(due(&mut crontab, now), (all.collect(), 0), "{missed:?}");
    }
}

#[test]
fn of_the_missed_ticks_of_an_entry_the_last_one_is_made() {
    let entries = [
        ("hourly", "30 * * * *"),
        ("morning", "* 8 * * *"),
        ("yearly", "@yearly"),
    ];
    let now = TEN + 10 * MINUTE;
    let mut late = crontab(&entries, Missed::Last, TEN - 30 * DAY);
    let expected = vec![
        tick(TEN - HOUR - MINUTE, "morning"),
        tick(TEN - 30 * MINUTE, "hourly"),
    ];
    assert_eq!(due(&mut late, now), (expected, 0));
    assert_eq!(late.step(now), Step::Wait(TEN + 30 * MINUTE));
    // One that is on time is the last one.
    let mut daily = crontab(&[("daily", "0 10 * * *")], Missed::Last, TEN - 3 * DAY);
    assert_eq!(due(&mut daily, TEN + 3 * SECOND).0, [tick(TEN, "daily")]);
    let mut second = crontab(&[("a", "* * * * * *")], Missed::Last, TEN - 3 * DAY);
    let on_time = (0..=5).map(|at| tick(TEN + at * SECOND, "a"));
    assert_eq!(due(&mut second, TEN + 5 * SECOND), (on_time.collect(), 0));
}

#[test]
fn the_last_tick_is_found_however_many_there_are() {
    for (entry, now, days) in [
        ("* * * * * *", TEN + 300, 1),
        ("*/7 * * * *", TEN + 3 * MINUTE, 40),
        ("* 3 * * *", TEN, 40),
        ("0 0 1 * *", TEN, 100),
        ("0 12 14 11 *", TEN, 1000),
    ] {
        let spec = spec(entry);
        let first = spec.next_after(TEN - days * DAY).unwrap();
        let mut last = first;
        while let Some(tick) = spec.next_after(last).filter(|tick| *tick <= now) {
            last = tick;
        }
        assert_eq!(spec.last_until(first, now), last, "{entry}");
    }
    // It would take hours to walk all of them.
    assert_eq!(spec("* * * * * *").last_until(0, TEN), TEN);
}

#[test]
fn a_batch_has_room_for_so_many_and_the_rest_comes_with_the_next() {
    let mut cron = Cron::new().entry("a", "* * * * * *", "UTC").unwrap();
    cron.crontab.resume(Some(tick(TEN, "a")));
    let now = TEN + 5 * SECOND;
    for count in [2, 2, 1] {
        let mut batch = batch(2);
        assert_eq!(cron.fill(now, &mut batch), None);
        assert_eq!((batch.count(), batch.is_scheduled), (count, true));
    }
    assert_eq!(
        cron.fill(now, &mut batch(2)),
        Some(Step::Wait(now + SECOND))
    );
    assert_eq!(cron.crontab.position(), Some(&tick(now, "a")));
}

#[test]
fn what_is_left_out_is_counted_in_portions() {
    let mut cron = Cron::new().entry("a", "* * * * * *", "UTC").unwrap();
    cron.crontab.resume(Some(tick(TEN - DAY, "a")));
    let (mut count, mut of_ms, mut made, mut batches) = (0, 0, 0, 0);
    loop {
        let mut batch = batch(1000);
        if cron.fill(TEN, &mut batch).is_some() {
            break;
        }
        batches += 1;
        made += batch.count();
        count += batch.left_out.count;
        of_ms += batch.left_out.of_ms;
    }
    // The last ten minutes, and the tick at their beginning.
    assert_eq!(
        (made, count, of_ms),
        (601, 86_400 - 601, DAY - 601 * SECOND)
    );
    assert_eq!(batches, 87);
}

#[test]
fn the_text_names_the_entry_and_the_tick() {
    let report = tick(TEN, "report");
    assert_eq!(written(TEXT, &report), "report@2026-11-15T10:00:00Z");
    let text = "{name} {name} at {time} {else}";
    assert_eq!(
        written(text, &tick(TEN, "{time}")),
        "{time} {time} at 2026-11-15T10:00:00Z {else}"
    );
}

#[test]
fn the_key_of_a_message_names_its_tick_whatever_its_text() {
    for (text, expected) in [
        (None, "report@2026-11-15T10:00:00Z"),
        (Some("run it"), "run it"),
    ] {
        let mut cron = Cron::new().entry("report", "0 * * * * *", "UTC").unwrap();
        cron.text = text.map(str::to_owned);
        cron.crontab.resume(Some(tick(TEN - MINUTE, "report")));
        let mut batch = batch(1);
        assert!(cron.fill(TEN, &mut batch).is_none());
        let pack = batch.pack.finish(TEN, "k3v9x0a7qm", 1);
        let pack = Pack::parse(&pack).unwrap();
        assert_eq!(pack.texts, [expected.as_bytes()]);
        assert_eq!(
            pack.keys,
            PackKeys::Each(vec!["report@2026-11-15T10:00:00Z"])
        );
    }
}

#[test]
fn a_wrong_entry_is_refused_with_the_reason() {
    let long = "x".repeat(129);
    for (name, spec, zone, reason) in [
        (
            "a",
            "* * * *",
            "UTC",
            "'* * * *' is no cron expression: write minute,",
        ),
        (
            "a",
            "0 0 0 1 1 * 2030",
            "UTC",
            "is no cron expression: write minute,",
        ),
        ("a", "", "UTC", "'' is no cron expression"),
        (
            "a",
            "61 * * * *",
            "UTC",
            "'61 * * * *' is no cron expression: '61' in the field of the minute",
        ),
        (
            "a",
            "*/0 * * * *",
            "UTC",
            "'*/0' in the field of the minute: a step is a whole number from 1 on",
        ),
        ("a", "x * * * *", "UTC", "illegal character 'X'"),
        ("a", "@hourly now", "UTC", "write one of @hourly, @daily"),
        ("a", "@reboot", "UTC", "'@reboot' is no cron expression"),
        ("a", "0 0 30 2 *", "UTC", "'0 0 30 2 *' never fires"),
        ("a", "0 0 31 4,6,9,11 *", "Europe/Vienna", "never fires"),
        (
            "a",
            "* * * * *",
            "Europe/Wien",
            "there is no time zone 'Europe/Wien'",
        ),
        ("a", "* * * * *", "", "there is no time zone ''"),
        ("", "* * * * *", "UTC", "an entry needs a name"),
        (
            "a b",
            "* * * * *",
            "UTC",
            "'a b' is no name: it has a space",
        ),
        ("a\n", "* * * * *", "UTC", "'a\\n' is no name"),
        (&long, "* * * * *", "UTC", "is longer than the 128 bytes"),
        (
            "twice",
            "* * * * *",
            "UTC",
            "'twice' is the name of two entries",
        ),
    ] {
        let cron = Cron::new().entry("twice", "@daily", "utc").unwrap();
        let error = cron.entry(name, spec, zone).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} instead of {reason}");
    }
}

proptest! {
    #[test]
    fn no_expression_panics(text in "([0-9*/,@?LW#+A-Za-zß -]{1,6} ){4,6}[0-9*,SUN]{1,3}", after: u64) {
        if let Ok(spec) = CronSpec::new(&text, "Europe/Vienna") {
            let next = spec.next_after(after);
            prop_assert!(next.is_none_or(|next| next > after));
        }
    }
}
