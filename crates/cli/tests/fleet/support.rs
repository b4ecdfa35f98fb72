//! What the fleet tests share.

use baton_log::{LogEvent, RedisState};
use baton_processes::{Fleet, History, Told};
use baton_server::PrivateServer;

pub(crate) use crate::shared::{
    TIMEOUT, durable_server, fleet_at, fleet_of, keys, redis, server, status, wait_for,
    wait_status, wait_until,
};

/// The copies that do not generate.
pub(crate) fn workers(fleet: &Fleet) -> Vec<usize> {
    let generator = fleet.generator();
    fleet
        .alive()
        .into_iter()
        .filter(|copy| Some(*copy) != generator)
        .collect()
}

/// Waits until the fleet has ended `messages` messages, and makes sure that it ended each of
/// them exactly once, in Redis's books and in the logs of the nodes.
pub(crate) fn assert_each_once(fleet: &Fleet, server: &PrivateServer, messages: u64) {
    let status = wait_status(server, "all to end", |status| {
        status.done + status.failed == messages
    });
    assert!(status.balanced && status.counted, "{status:?}");
    assert_eq!(
        (status.published, status.pending, status.claimed),
        (messages, 0, 0),
        "{status:?}"
    );
    assert_eq!(
        (status.errors, status.foreign),
        (status.failed, 0),
        "{status:?}"
    );

    let told = fleet.told();
    let unknown = told.iter().find(|told| *told.event() == LogEvent::Other);
    assert!(unknown.is_none(), "an event without a type: {unknown:?}");
    let history = History::new(&told);
    assert_eq!(
        history.duplicated(),
        Vec::<u64>::new(),
        "told as processed twice"
    );
    assert_eq!(
        history.published_twice(),
        Vec::<u64>::new(),
        "told as published twice"
    );
    assert_eq!(
        history.phantoms(messages),
        Vec::<u64>::new(),
        "processed but never published"
    );
}

/// Kills the generator and waits for its successor. Returns what the successor logged.
#[track_caller]
pub(crate) fn replace_generator(fleet: &mut Fleet) -> Told {
    let generator = fleet.generator().unwrap();
    let mark = fleet.mark();
    fleet.kill9(generator).unwrap();
    wait_for(fleet, mark, "a successor", |told| {
        told.is_generator() && told.copy != generator
    })
}

/// Waits until workers have claimed so many messages.
#[track_caller]
pub(crate) fn wait_claimed(server: &PrivateServer, messages: u64) {
    wait_status(server, "a worker to be busy", |status| {
        status.claimed == messages
    });
}

/// Makes sure that the books balance and that no node published a message twice.
#[track_caller]
pub(crate) fn assert_published_once(fleet: &Fleet, server: &PrivateServer) {
    let status = status(server);
    assert!(status.balanced, "{status:?}");
    assert_eq!(
        History::new(&fleet.told()).published_twice(),
        Vec::<u64>::new()
    );
}

/// Whether a node warns with this word.
pub(crate) fn warns(told: &Told, word: &str) -> bool {
    matches!(told.event(), LogEvent::Warning { text } if text.contains(word))
}

/// Whether a node lost or regained Redis.
pub(crate) fn is_redis(told: &Told, now: RedisState) -> bool {
    matches!(told.event(), LogEvent::Redis { state, .. } if *state == now)
}

/// The first and the last message of an event.
#[track_caller]
pub(crate) fn messages(told: &Told) -> (u64, u64) {
    let messages = told.event().messages();
    messages.unwrap().into_inner()
}
