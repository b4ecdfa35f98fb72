//! Catching up is bounded, and a clock that is set is not time that passed.

use std::time::{Duration, Instant};

use baton_log::LogEvent;
use baton_processes::{Fleet, Told};
use baton_server::PrivateServer;
use redis::Commands;

use crate::shared::fake_clock::FakeClock;
use crate::support::{
    TIMEOUT, durable_server, fleet_of, keys, messages, redis, status, wait_for, wait_status,
};

const DAY_S: i64 = 24 * 3600;

fn published(server: &PrivateServer) -> u64 {
    status(server).published
}

/// Waits until so many more messages are published, and returns how many there are then.
fn wait_published(server: &PrivateServer, at_least: u64) -> u64 {
    wait_status(server, "messages", |status| status.published >= at_least).published
}

fn kill_all(fleet: &mut Fleet) {
    for copy in fleet.alive() {
        fleet.kill9(copy).unwrap();
    }
}

fn warnings(fleet: &Fleet, mark: usize, word: &str) -> Vec<String> {
    let told = fleet.told_since(mark).into_iter();
    told.filter_map(|told| match told.line.event {
        LogEvent::Warning { text } if text.contains(word) => Some(text.into_owned()),
        _ => None,
    })
    .collect()
}

/// A fleet that has published, is dead, and left a cursor that its next generator finds.
fn with_cursor(server: &PrivateServer, args: &str, cursor: &str) -> (Fleet, usize, u64) {
    let mut fleet = fleet_of(1, server, args);
    wait_published(server, 2);
    kill_all(&mut fleet);
    let _: () = redis(server).hset(keys().fence, "cursor", cursor).unwrap();
    let (before, mark) = (published(server), fleet.mark());
    fleet.start_many(1, TIMEOUT).unwrap();
    (fleet, mark, before)
}

/// A time on Redis's clock, so long ago.
fn ago(server: &PrivateServer, ms: u64) -> String {
    let now_ms = status(server).now_ms;
    format!("interval {}", now_ms - ms)
}

#[test]
fn a_cursor_a_day_back_is_made_up_for_to_the_bound_and_the_rest_is_said_once() {
    for (missed, bound_ms, words) in [
        ("catch-up", 600_000, "10m"),
        ("catch-up:30s", 30_000, "30s"),
    ] {
        let server = durable_server();
        let args = format!("--interval 100ms --missed {missed}");
        let cursor = ago(&server, DAY_S as u64 * 1000);
        let (fleet, mark, before) = with_cursor(&server, &args, &cursor);
        let made = |fleet: &Fleet| fleet.told_since(mark).iter().map(published_by).sum::<u64>();
        let started = Instant::now();
        wait_published(&server, before + bound_ms / 100);
        // Until the schedule has its beat again: one message at a time.
        let mark_beat = fleet.mark();
        let single = |told: &Told| published_by(told) == 1;
        wait_for(&fleet, mark_beat, "the beat", single);
        let most = bound_ms / 100 + started.elapsed().as_millis() as u64 / 100 + 20;
        assert!(made(&fleet) <= most, "{missed}: {} messages", made(&fleet));
        let said = warnings(&fleet, mark, "left out");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(words), "{said:?}");
        let left_out: u64 = said[0]
            .split_whitespace()
            .find_map(|word| word.parse().ok())
            .unwrap();
        let expected = DAY_S as u64 * 10 - bound_ms / 100;
        assert!(left_out.abs_diff(expected) < 600, "{said:?}");
    }
}

fn published_by(told: &Told) -> u64 {
    match told.event() {
        LogEvent::Published { first, last, .. } => last - first + 1,
        _ => 0,
    }
}

#[test]
fn a_cursor_far_ahead_or_of_garbage_does_not_stop_the_schedule() {
    for (cursor, said) in [
        ("interval 9007199254740991", None),
        ("interval 9007199254740991 9007199254740991", None),
        ("interval -5", Some("cursor")),
        ("soon", Some("cursor")),
        ("1e300", Some("cursor")),
    ] {
        let server = durable_server();
        let (fleet, mark, before) = with_cursor(&server, "--interval 50ms", cursor);
        let began = Instant::now();
        wait_published(&server, before + 3);
        let most = began.elapsed().as_millis() as u64 / 50 + 10;
        let made: u64 = fleet.told_since(mark).iter().map(published_by).sum();
        assert!(made <= most, "{cursor}: {made} messages");
        let warned = warnings(&fleet, mark, "cursor");
        assert_eq!(warned.len(), usize::from(said.is_some()), "{warned:?}");
        let key = keys().fence;
        assert!(warned.iter().all(|text| text.contains(&key)), "{warned:?}");
    }
}

#[test]
fn time_in_which_the_limit_was_reached_is_not_missed() {
    let server = durable_server();
    let mut fleet = fleet_of(2, &server, "--interval 20ms --messages 10");
    let reached = wait_status(&server, "ten", |status| status.published == 10);
    wait_status(&server, "two seconds", |status| {
        status.now_ms > reached.now_ms + 2_000
    });
    kill_all(&mut fleet);
    let fleet = fleet_of(1, &server, "--interval 20ms --messages 1000");
    let first = wait_for(&fleet, 0, "a message", Told::is_published);
    assert_eq!(messages(&first), (11, 11));
}

/// Lets a fleet publish every 20 ms while the clock is set and set back, and returns how many
/// messages came for how many ticks.
fn messages_over_a_step(nodes: usize, ahead_s: i64, hurt: impl Fn(&mut Fleet)) -> Option<()> {
    const INTERVAL_MS: u64 = 20;
    let fake = FakeClock::start()?;
    let server = &fake.server;
    let mut fleet = fleet_of(nodes, server, "--interval 20ms --lease-ttl 600ms");
    let mark = fleet.mark();
    wait_published(server, 20);
    let (began, before) = (Instant::now(), published(server));
    for ahead_s in [ahead_s, 0] {
        fake.set(ahead_s);
        // The schedule must not stop for as long as the clock went back.
        let at_least = published(server) + 2 * 1000 / INTERVAL_MS;
        wait_published(server, at_least);
        hurt(&mut fleet);
        wait_published(server, published(server) + 10);
    }
    let (took, made) = (began.elapsed(), published(server) - before);
    let ticks = took.as_millis() as u64 / INTERVAL_MS;
    // A second of slack, for a takeover and for a status that comes late.
    assert!(
        made.abs_diff(ticks) <= 1000 / INTERVAL_MS,
        "{made} messages in {ticks} ticks, {took:?}"
    );
    let said = warnings(&fleet, mark, "clock was set");
    assert!(!said.is_empty(), "no node said that the clock was set");
    assert_eq!(warnings(&fleet, mark, "left out"), Vec::<String>::new());
    Some(())
}

#[test]
fn a_step_of_the_clock_makes_and_withholds_no_messages_of_a_lone_node() {
    messages_over_a_step(1, DAY_S, |_| {});
    messages_over_a_step(1, -DAY_S, |_| {});
    messages_over_a_step(1, 60, |_| {});
}

#[test]
fn a_step_of_the_clock_makes_and_withholds_no_messages_across_takeovers() {
    let takeover = |fleet: &mut Fleet| {
        let generator = fleet.generator().unwrap();
        let mark = fleet.mark();
        fleet.kill9(generator).unwrap();
        wait_for(fleet, mark, "a successor", |told| {
            told.is_published() && told.copy != generator
        });
    };
    messages_over_a_step(4, DAY_S, takeover);
    messages_over_a_step(4, -DAY_S, takeover);
}

#[test]
fn a_paused_server_is_missed_time_and_not_a_step_of_its_clock() {
    let mut server = durable_server();
    let fleet = fleet_of(2, &server, "--interval 20ms --lease-ttl 10m");
    wait_published(&server, 20);
    let (began, before) = (Instant::now(), published(&server));
    let mark = fleet.mark();
    server.pause().unwrap();
    fleet.watch_for(Duration::from_secs(2)).unwrap();
    server.resume().unwrap();
    wait_published(&server, before + 120);
    let (took, made) = (began.elapsed(), published(&server) - before);
    let ticks = took.as_millis() as u64 / 20;
    assert!(
        made.abs_diff(ticks) <= 25,
        "{made} messages in {ticks} ticks"
    );
    assert_eq!(
        warnings(&fleet, mark, "clock was set"),
        Vec::<String>::new()
    );
}
