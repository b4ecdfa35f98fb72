//! Redis forgets what it confirmed, or another hand writes what no generator sent: the log says so.

use std::time::Duration;

use baton_log::LogEvent;
use baton_processes::{Fleet, History, Told};
use baton_server::PrivateServer;
use redis::Commands;

use crate::support::{
    TIMEOUT, fleet_of, keys, redis, replace_generator, server, status, wait_for, wait_status, warns,
};

fn wait_published(server: &PrivateServer, at_least: u64) {
    wait_status(server, "messages", |status| status.published >= at_least);
}

/// Whether the node says that Redis forgot messages.
fn is_regressed(told: &Told) -> bool {
    matches!(told.event(), LogEvent::Regressed { .. })
}

fn says<'a>(word: &'a str) -> impl Fn(&Told) -> bool + 'a {
    move |told| warns(told, word)
}

fn warning(told: &Told) -> &str {
    match told.event() {
        LogEvent::Warning { text } => text,
        other => panic!("no warning: {other:?}"),
    }
}

/// The highest number that a node told before a moment of its log.
fn highest_told(fleet: &Fleet, copy: usize, before: usize) -> u64 {
    let told = fleet.told().into_iter().take(before);
    told.filter(|told| told.copy == copy)
        .filter_map(|told| match told.event() {
            LogEvent::Published { last, .. } | LogEvent::Processed { last, .. } => Some(*last),
            _ => None,
        })
        .max()
        .unwrap_or_default()
}

fn flush_is_said(args: &str, messages: u64) {
    let server = server();
    let fleet = fleet_of(4, &server, args);
    // A second reign, too: epochs begin anew.
    for round in 1..=2 {
        wait_published(&server, round * messages);
        let generator = fleet.generator().unwrap();
        let mark = fleet.mark();
        let _: () = ::redis::cmd("FLUSHALL").query(&mut redis(&server)).unwrap();
        let said = wait_for(&fleet, mark, "the generator to say so", |told| {
            told.copy == generator && is_regressed(told)
        });
        let LogEvent::Regressed { first, last } = *said.event() else {
            unreachable!("the wait was for it");
        };
        assert_eq!(first, 1, "all is gone");
        // What the generator told as published before Redis forgot it.
        assert!(last >= highest_told(&fleet, generator, mark), "{last}");
        wait_published(&server, last + 3);
        wait_for(&fleet, mark, "work to go on", Told::is_processed);
        // Let every node have its say: once per loss, whichever of its parts noticed.
        fleet.watch_for(Duration::from_secs(1)).unwrap();
        for copy in fleet.alive() {
            let told = fleet.told_since(mark);
            let own = told.iter().filter(|told| told.copy == copy);
            let count = own.filter(|told| is_regressed(told)).count();
            assert!(
                count <= 1,
                "round {round}: node {copy} said it {count} times"
            );
        }
        // The latch of the last loss must have opened before the next.
        fleet.watch_for(Duration::from_secs(1)).unwrap();
    }
    assert!(status(&server).balanced);
    let history = History::new(&fleet.told());
    assert_eq!(history.published_twice(), Vec::<u64>::new());
}

#[test]
fn a_flush_at_full_speed_is_said_by_the_generator_with_the_numbers_that_are_gone() {
    flush_is_said("--interval 0 --max-pending 5000", 20_000);
}

#[test]
fn a_flush_at_one_message_per_500_ms_is_said_by_the_generator_with_the_numbers_that_are_gone() {
    flush_is_said("--interval 500ms", 3);
}

#[test]
fn a_flush_after_takeovers_is_said() {
    let server = server();
    let mut fleet = fleet_of(4, &server, "--interval 20ms");
    // Some takeovers before: the lease of a fleet that begins anew has another epoch.
    for _ in 0..2 {
        replace_generator(&mut fleet);
    }
    fleet.start_many(1, TIMEOUT).unwrap();
    wait_published(&server, 50);
    let (mark, generator) = (fleet.mark(), fleet.generator().unwrap());
    let worked = |told: &Told| told.is_processed() && told.copy != generator;
    wait_for(&fleet, mark, "work", worked);
    let _: () = ::redis::cmd("FLUSHALL").query(&mut redis(&server)).unwrap();
    // Workers know them, too, and say so if they beat before the numbers are filled again.
    wait_for(&fleet, mark, "a node to say so", is_regressed);
}

#[test]
fn a_last_number_that_another_hand_wrote_makes_no_message_that_does_not_exist() {
    const AHEAD: u64 = 1_000_000;
    for interval in ["0", "20ms"] {
        let server = server();
        let args = format!("--interval {interval} --max-pending 3000000");
        let fleet = fleet_of(2, &server, &args);
        wait_published(&server, 20);
        let mark = fleet.mark();
        let mut connection = redis(&server);
        let forged: u64 = connection.hincr(keys().fence, "last", AHEAD).unwrap();
        let said = wait_for(
            &fleet,
            mark,
            "the generator to say so",
            says("another hand"),
        );
        let text = warning(&said);
        assert!(text.contains(&keys().fence), "{text}");
        assert!(text.contains(&forged.to_string()), "{text}");
        wait_for(
            &fleet,
            mark,
            "messages after it",
            |told| matches!(told.event(), LogEvent::Published { first, .. } if *first > forged),
        );
        let told = fleet.told();
        let phantoms: Vec<_> = told
            .iter()
            .map(Told::event)
            .filter(|event| {
                matches!(event, LogEvent::Published { first, last, .. }
                    if *last > forged - AHEAD && *first <= forged)
            })
            .collect();
        assert_eq!(phantoms, Vec::<&LogEvent>::new());
        assert_eq!(
            told.iter()
                .filter(|told| says("another hand")(told))
                .count(),
            1
        );
        let history = History::new(&told);
        assert_eq!(history.published_twice(), Vec::<u64>::new());
    }
}
