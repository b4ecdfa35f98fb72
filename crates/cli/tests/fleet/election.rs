//! Exactly one generator, and another one when it is gone.

use std::time::{Duration, Instant};

use baton::inspect::NodeRole;
use baton_log::LogEvent;
use baton_processes::Told;

use crate::support::{
    TIMEOUT, assert_published_once, durable_server, fleet_of, messages, replace_generator, server,
    status, wait_for, wait_status, workers,
};

/// A lease that no test waits for: a node that takes over before it ends has noticed the death.
const ENDLESS_LEASE: &str = "--interval 20ms --lease-ttl 10m";

fn is_published_in(told: &Told, epoch: u64) -> bool {
    told.is_published() && told.event().epoch() == Some(epoch)
}

#[test]
fn fifty_nodes_starting_at_the_same_moment_elect_exactly_one() {
    let server = server();
    let fleet = fleet_of(50, &server, "--interval 50ms");
    let elected: Vec<_> = fleet
        .told()
        .into_iter()
        .filter(|told| told.is_generator())
        .collect();
    assert_eq!(elected.len(), 1, "{elected:?}");
    let status = status(&server);
    let generators: Vec<_> = status
        .nodes
        .iter()
        .filter(|node| node.role == NodeRole::Generator)
        .collect();
    assert_eq!(generators.len(), 1);
    assert_eq!(
        status
            .nodes
            .iter()
            .filter(|node| node.role == NodeRole::Worker)
            .count(),
        49
    );
    assert_eq!(status.generator.node.as_deref(), Some(elected[0].node()));
    assert_eq!(status.generator.epoch, 1);
}

#[test]
fn a_killed_generator_is_replaced_long_before_its_lease_ends() {
    let server = server();
    let mut fleet = fleet_of(4, &server, ENDLESS_LEASE);
    for epoch in 2..5 {
        let mark = fleet.mark();
        let next = replace_generator(&mut fleet);
        assert_eq!(next.event().epoch(), Some(epoch));
        wait_for(&fleet, mark, "its messages", |told| {
            is_published_in(told, epoch)
        });
        fleet.start_many(1, TIMEOUT).unwrap();
    }
    assert_published_once(&fleet, &server);
}

#[test]
fn takeover_also_works_when_most_of_the_fleet_dies_at_the_same_moment() {
    let server = server();
    let mut fleet = fleet_of(12, &server, "--interval 20ms");
    let generator = fleet.generator().unwrap();
    // All but the two that joined last: the nodes that are first in line die too.
    let mut doomed = fleet.alive();
    let survivors = [10, 11].map(|copy| if copy == generator { 9 } else { copy });
    doomed.retain(|copy| !survivors.contains(copy));
    let mark = fleet.mark();
    for copy in &doomed {
        fleet.pause(*copy).unwrap();
    }
    for copy in doomed {
        fleet.kill9(copy).unwrap();
    }
    let next = wait_for(&fleet, mark, "a survivor to generate", Told::is_generator);
    assert!(survivors.contains(&next.copy));
    wait_for(&fleet, mark, "the other to work", |told| {
        told.is_processed() && survivors.contains(&told.copy)
    });
}

#[test]
fn a_generator_paused_past_its_lease_wakes_up_fenced() {
    let server = server();
    let fleet = fleet_of(
        3,
        &server,
        "--interval 0 --lease-ttl 500ms --max-pending 5000",
    );
    for _ in 0..3 {
        let generator = fleet.generator().unwrap();
        let mark = fleet.mark();
        fleet.pause(generator).unwrap();
        let next = wait_for(&fleet, mark, "a successor", |told| {
            told.is_generator() && told.copy != generator
        });
        let mark = fleet.mark();
        fleet.resume(generator).unwrap();
        wait_for(&fleet, mark, "the old one to notice", |told| {
            told.copy == generator && matches!(told.event(), LogEvent::Fenced { .. })
        });
        wait_for(&fleet, mark, "the old one to work", |told| {
            told.copy == generator && told.is_processed()
        });
        let epoch = next.event().epoch().unwrap();
        wait_for(&fleet, 0, "a message of the successor", |told| {
            is_published_in(told, epoch)
        });
        // Nothing of the old one was accepted after the seal: the numbers under each epoch
        // end where the next one's begin.
        let told = fleet.told();
        let numbers = |epoch: u64| {
            let published = told.iter().filter(|told| is_published_in(told, epoch));
            published.map(messages).collect::<Vec<_>>()
        };
        let first_of_new = numbers(epoch)
            .iter()
            .map(|(first, _)| *first)
            .min()
            .unwrap();
        assert!(
            numbers(epoch - 1)
                .iter()
                .all(|(_, last)| *last < first_of_new)
        );
    }
    assert_published_once(&fleet, &server);
}

#[test]
fn missed_ticks_are_caught_up_at_once_by_default_and_left_out_on_request() {
    for (missed, caught_up) in [("catch-up", true), ("skip", false)] {
        let server = durable_server();
        let args = format!("--interval 20ms --missed {missed}");
        let mut fleet = fleet_of(2, &server, &args);
        wait_for(&fleet, 0, "messages", |told| {
            told.is_published() && told.covers(3)
        });
        for copy in fleet.alive() {
            fleet.kill9(copy).unwrap();
        }
        let before = status(&server);
        // No node generates until many ticks have passed on Redis's clock.
        let later = before.now_ms + 2_000;
        wait_status(&server, "two seconds", |status| status.now_ms >= later);
        let mark = fleet.mark();
        fleet.start_many(1, TIMEOUT).unwrap();
        let first = wait_for(&fleet, mark, "a message", Told::is_published);
        let (first, last) = messages(&first);
        let size = last - first + 1;
        assert_eq!(first, before.published + 1);
        assert_eq!(size >= 90, caught_up, "{missed}: {size} messages at once");
        assert!(caught_up || size == 1, "{missed}: {size} messages at once");
    }
}

#[test]
fn a_successor_keeps_the_beat() {
    let server = server();
    let mut fleet = fleet_of(3, &server, "--interval 200ms");
    wait_for(&fleet, 0, "messages", Told::is_published);
    let (began, at_start) = (Instant::now(), status(&server));
    for _ in 0..3 {
        let generator = fleet.generator().unwrap();
        let mark = fleet.mark();
        fleet.kill9(generator).unwrap();
        wait_for(&fleet, mark, "the next", |told| {
            told.is_published() && told.copy != generator
        });
        fleet.start_many(1, TIMEOUT).unwrap();
    }
    let at_end = status(&server);
    let ticks = (at_end.now_ms - at_start.now_ms) / 200;
    let made = at_end.published - at_start.published;
    assert!(
        made.abs_diff(ticks) <= 1,
        "{made} messages in {ticks} ticks, {:?}",
        began.elapsed()
    );
    assert!(!workers(&fleet).is_empty());
}

#[test]
fn a_resigning_generator_hands_over_within_a_beat() {
    let server = server();
    let mut fleet = fleet_of(3, &server, ENDLESS_LEASE);
    let generator = fleet.generator().unwrap();
    let mark = fleet.mark();
    fleet.terminate(generator).unwrap();
    wait_for(&fleet, mark, "a successor", |told| {
        told.is_generator() && told.copy != generator
    });
    assert_eq!(fleet.wait(generator).unwrap(), Some(0));
    let name = fleet
        .told()
        .iter()
        .find(|told| told.copy == generator)
        .map(|told| told.node().to_owned());
    let status = baton_processes::wait_status(
        &server.url(),
        "default",
        Duration::from_secs(5),
        "it to be gone",
        |status| status.nodes.len() == 2,
    )
    .unwrap();
    assert!(
        status
            .nodes
            .iter()
            .all(|node| Some(&node.node) != name.as_ref())
    );
}

#[test]
fn a_lone_generator_paused_past_its_lease_goes_on_under_a_new_epoch() {
    let server = server();
    let fleet = fleet_of(1, &server, "--interval 20ms --lease-ttl 300ms");
    for epoch in 1..4 {
        wait_for(&fleet, 0, "messages", |told| is_published_in(told, epoch));
        fleet.pause(0).unwrap();
        // No other node can take the lease when it has run out on Redis's clock.
        let paused = status(&server);
        wait_status(&server, "the lease to run out", |status| {
            status.now_ms > paused.now_ms + 600
        });
        fleet.resume(0).unwrap();
    }
    assert!(status(&server).balanced);
}
