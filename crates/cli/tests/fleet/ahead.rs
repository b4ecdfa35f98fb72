//! Workers that hold two claims: one that they handle, and one that they claimed ahead.

use baton_processes::Fleet;
use baton_server::PrivateServer;
use redis::Commands;

use crate::support::{
    assert_each_once, fleet_of, keys, redis, server, status, wait_for, wait_until, workers,
};
use baton_log::LogEvent;

const MESSAGES: u64 = 400_000;
const ARGS: &str = "--interval 0 --messages 400000 --max-pending 400000 --claim-ttl 10m";

/// Pauses the fleet's one worker at a moment at which it holds two claims. Returns the worker.
fn pause_with_two_claims(fleet: &Fleet, server: &PrivateServer) -> usize {
    let worker = workers(fleet)[0];
    let mut redis = redis(server);
    wait_until("two claims", || {
        fleet.pause(worker).unwrap();
        let slots: Vec<String> = redis.hkeys(keys().claims).unwrap();
        // Beside one that it was handed and may not have heard of, it has none ahead.
        let is_ahead = |slot: &String| slot.ends_with("+1");
        let has_both = slots.len() == 2 && slots.iter().any(is_ahead);
        if !has_both {
            fleet.resume(worker).unwrap();
        }
        has_both
    });
    worker
}

#[test]
fn both_claims_of_a_killed_worker_come_back() {
    let server = server();
    let mut fleet = fleet_of(2, &server, ARGS);
    let worker = pause_with_two_claims(&fleet, &server);
    let held = status(&server).claimed;
    let mark = fleet.mark();
    fleet.kill9(worker).unwrap();
    fleet.start().unwrap();
    let mut back = 0;
    wait_until("all that it held", || {
        let told = fleet.told_since(mark);
        let counts = told.iter().filter_map(|told| match told.event() {
            LogEvent::Reclaimed { count, .. } => Some(*count),
            _ => None,
        });
        back = counts.sum::<u64>();
        back >= held
    });
    assert_eq!(back, held);
    assert_each_once(&fleet, &server, MESSAGES);
}

#[test]
fn a_stopping_worker_gives_back_both_claims_without_blame() {
    let server = server();
    let mut fleet = fleet_of(2, &server, ARGS);
    let worker = pause_with_two_claims(&fleet, &server);
    fleet.terminate(worker).unwrap();
    fleet.resume(worker).unwrap();
    assert_eq!(fleet.wait(worker).unwrap(), Some(0));
    let mut redis = redis(&server);
    assert_eq!(redis.hlen::<_, u64>(keys().claims).unwrap(), 0);
    let queue: Vec<String> = redis.lrange(keys().queue, 0, -1).unwrap();
    // "pack count first last returns", and behind it the suspects.
    let blamed: Vec<_> = queue
        .iter()
        .filter(|range| range.split(' ').count() > 5 || !range.ends_with(" 0"))
        .collect();
    assert_eq!(blamed, Vec::<&String>::new());
    let mark = fleet.mark();
    fleet.start().unwrap();
    wait_for(&fleet, mark, "another worker to go on", |told| {
        told.is_processed()
    });
    assert_each_once(&fleet, &server, MESSAGES);
}
