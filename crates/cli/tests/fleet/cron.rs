//! Ticks of a crontab are neither lost nor doubled, whatever crashes.

use std::time::Duration;

use baton_log::LogEvent;
use baton_processes::Fleet;
use baton_server::PrivateServer;
use redis::Commands;

use crate::shared::fake_clock::FakeClock;
use crate::support::{
    TIMEOUT, assert_each_once, durable_server, keys, redis, replace_generator, status, wait_for,
    wait_status, wait_until, warns,
};

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;
/// Keeps number and text of each message, in the step that commits it.
const KEEP: &str =
    r#"printf '["RPUSH","ticks","%s %s"]\n' "$BATON_SEQ" "$(cat)" > "$BATON_EFFECTS""#;

/// A fleet with this crontab, that keeps its messages.
fn fleet_with(count: usize, server: &PrivateServer, cron: &[&str], args: &str) -> Fleet {
    let url = server.url();
    let mut all = vec!["--redis", &url, "--exec", KEEP];
    all.extend(cron.iter().flat_map(|entry| ["--cron", entry]));
    all.extend(args.split_whitespace());
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &all);
    fleet.start_many(count, TIMEOUT).unwrap();
    fleet
}

/// The texts of all messages, in order of their numbers.
fn texts(server: &PrivateServer) -> Vec<String> {
    let kept: Vec<String> = redis(server).lrange("ticks", 0, -1).unwrap();
    let mut texts: Vec<(u64, String)> = kept
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(seq, text)| (seq.parse().unwrap(), text.to_owned()))
        .collect();
    texts.sort();
    texts.into_iter().map(|(_, text)| text).collect()
}

fn cursor(server: &PrivateServer) -> Option<String> {
    redis(server).hget(keys().fence, "cursor").unwrap()
}

/// What the fleet stores when it begins: a time without a name.
fn wait_beginning(server: &PrivateServer) -> u64 {
    wait_until("the beginning", || cursor(server).is_some());
    let cursor = cursor(server).unwrap();
    cursor.strip_prefix("cron ").unwrap().parse().unwrap()
}

fn kill_all(fleet: &mut Fleet) {
    for copy in fleet.alive() {
        fleet.kill9(copy).unwrap();
    }
}

fn now_s(server: &PrivateServer) -> u64 {
    status(server).now_ms / 1000
}

/// An expression for one time of the hour, and one for one time of the day.
fn hourly(at_s: u64) -> String {
    format!("{} {} * * * *", at_s % 60, at_s / MINUTE_S % 60)
}

fn daily(at_s: u64) -> String {
    format!(
        "{} {} {} * * *",
        at_s % 60,
        at_s / MINUTE_S % 60,
        at_s / HOUR_S % 24
    )
}

/// The text of a tick.
fn text(name: &str, at_s: u64) -> String {
    let at = std::time::UNIX_EPOCH + Duration::from_secs(at_s);
    format!("{name}@{}", humantime::format_rfc3339_seconds(at))
}

/// Leaves a cursor of a fleet that died so long ago.
fn leave_cursor(server: &PrivateServer, fleet: &mut Fleet, at_s: u64) {
    kill_all(fleet);
    let cursor = format!("cron {}", at_s * 1000);
    let _: () = redis(server).hset(keys().fence, "cursor", cursor).unwrap();
}

#[test]
fn generators_killed_around_ticks_lose_none_and_double_none() {
    const TICKS: u64 = 30;
    let server = durable_server();
    let cron = ["b=* * * * * *", "c=*/2 * * * * *", "a=* * * * * *"];
    let mut fleet = fleet_with(4, &server, &cron, "--messages 30");
    for kill in 0..8 {
        // From just before a tick to just after it.
        let offset_ms = 5 * kill;
        wait_until("the moment of the kill", || {
            (status(&server).now_ms + 15 - offset_ms) % 1000 < 15
        });
        replace_generator(&mut fleet);
        fleet.start().unwrap();
    }
    assert_each_once(&fleet, &server, TICKS);

    let made = texts(&server);
    let first = humantime::parse_rfc3339(made[0].split_once('@').unwrap().1).unwrap();
    let first_s = first
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let expected = (first_s..).flat_map(|at_s| {
        let names = ["a", "b", "c"].into_iter();
        let due = names.filter(move |name| *name != "c" || at_s.is_multiple_of(2));
        due.map(move |name| text(name, at_s))
    });
    assert_eq!(made, expected.take(TICKS as usize).collect::<Vec<_>>());
}

#[test]
fn a_fleet_killed_before_its_first_tick_makes_it_later() {
    let server = durable_server();
    let at_s = now_s(&server) + 8;
    let entry = format!("first={}", daily(at_s));
    let mut fleet = fleet_with(1, &server, &[&entry], "");
    let began_ms = wait_beginning(&server);
    kill_all(&mut fleet);
    assert!(began_ms < at_s * 1000, "began after the tick");
    assert_eq!(status(&server).published, 0);
    wait_until("the time of the tick", || now_s(&server) > at_s);
    assert_eq!(cursor(&server), Some(format!("cron {began_ms}")));
    fleet.start_many(2, TIMEOUT).unwrap();
    assert_each_once(&fleet, &server, 1);
    assert_eq!(texts(&server), [text("first", at_s)]);
    assert_eq!(cursor(&server), Some(format!("cron {} first", at_s * 1000)));
}

#[test]
fn of_missed_ticks_the_last_of_each_entry_is_made() {
    let server = durable_server();
    let now_s = now_s(&server);
    let (hour, day) = (now_s - HOUR_S / 2, now_s - DAY_S / 2);
    let cron = [
        format!("hour={}", hourly(hour)),
        format!("day={}", daily(day)),
    ];
    let cron = [cron[0].as_str(), cron[1].as_str()];
    let mut fleet = fleet_with(1, &server, &cron, "--missed last --cron-text {time}={name}");
    wait_beginning(&server);
    leave_cursor(&server, &mut fleet, now_s - 30 * DAY_S);
    fleet.start_many(2, TIMEOUT).unwrap();
    assert_each_once(&fleet, &server, 2);
    let own_text = |name: &str, at_s| {
        let usual = text(name, at_s);
        let (name, time) = usual.split_once('@').unwrap();
        format!("{time}={name}")
    };
    assert_eq!(
        texts(&server),
        [own_text("day", day), own_text("hour", hour)]
    );
}

#[test]
fn ticks_that_are_too_old_are_left_out_and_the_generator_says_how_many() {
    let server = durable_server();
    let now_s = now_s(&server);
    let hour = now_s - HOUR_S / 2;
    let entry = format!("hour={}", hourly(hour));
    let mut fleet = fleet_with(1, &server, &[&entry], "--missed catch-up:40m");
    wait_beginning(&server);
    leave_cursor(&server, &mut fleet, now_s - DAY_S);
    let mark = fleet.mark();
    fleet.start_many(2, TIMEOUT).unwrap();
    assert_each_once(&fleet, &server, 1);
    assert_eq!(texts(&server), [text("hour", hour)]);
    let warned = wait_for(
        &fleet,
        mark,
        "a warning",
        |told| matches!(told.event(), LogEvent::Warning { text } if text.contains("left out")),
    );
    let LogEvent::Warning { text } = warned.event() else {
        unreachable!("it is a warning");
    };
    let said = "left out 23 missed messages of 22h 30m: no more than 40m are made up for";
    assert_eq!(text, said);
}

#[test]
fn a_fleet_that_had_an_interval_begins_its_crontab_now() {
    let server = durable_server();
    let url = server.url();
    let args = ["--redis", &url, "--interval", "10ms"];
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args);
    fleet.start_many(1, TIMEOUT).unwrap();
    wait_status(&server, "messages", |status| status.published > 2);
    kill_all(&mut fleet);
    let before = status(&server);
    let fleet = fleet_with(1, &server, &["year=@yearly"], "");
    wait_for(
        &fleet,
        0,
        "a warning",
        |told| matches!(told.event(), LogEvent::Warning { text } if text.contains("not of this source")),
    );
    let is_stored = || cursor(&server).is_some_and(|cursor| cursor.starts_with("cron "));
    wait_until("the beginning", is_stored);
    assert!(wait_beginning(&server) >= before.now_ms);
    assert_eq!(status(&server).published, before.published);
}

#[test]
fn a_clock_that_is_set_a_day_ahead_and_back_stops_no_ticks() {
    let Some(fake) = FakeClock::start() else {
        return;
    };
    let server = &fake.server;
    let fleet = fleet_with(1, server, &["second=* * * * * *"], "--missed skip");
    for ahead_s in [0, DAY_S as i64, 0] {
        let mark = fleet.mark();
        fake.set(ahead_s);
        let right_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let right_s = right_s.unwrap().as_secs().saturating_add_signed(ahead_s);
        wait_for(&fleet, mark, "a tick of the new time", |told| {
            let LogEvent::Published { text, .. } = told.event() else {
                return false;
            };
            let near = right_s - 1..right_s + MINUTE_S;
            near.into_iter()
                .any(|at_s| text.as_deref() == Some(&*self::text("second", at_s)))
        });
    }
}

#[test]
fn a_cursor_that_is_no_tick_begins_anew_and_the_log_says_so() {
    let server = durable_server();
    let every_second = ["tick=* * * * * *"];
    let mut fleet = fleet_with(2, &server, &every_second, "");
    wait_status(&server, "a tick", |status| status.done >= 1);
    kill_all(&mut fleet);
    let _: () = redis(&server)
        .hset(keys().fence, "cursor", "cron soon")
        .unwrap();
    let fleet = fleet_with(2, &server, &every_second, "");
    let _ = wait_for(&fleet, 0, "the warning", |told| {
        warns(told, &format!("the field cursor of {}", keys().fence))
    });
    let before = status(&server).published;
    wait_status(&server, "a tick", |status| status.done > before);
    assert!(cursor(&server).unwrap().starts_with("cron 1"));
}
