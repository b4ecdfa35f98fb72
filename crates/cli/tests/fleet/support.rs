//! What the fleet tests share.

use std::time::Duration;

use baton_log::{LogEvent, RedisState};
use baton_processes::{Fleet, History, Told, wait_status};
use baton_server::{Fsync, PrivateServer};

/// Longest wait for anything. Generous: a busy machine must not fail a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that keeps what it confirmed.
pub(crate) fn durable_server() -> PrivateServer {
    PrivateServer::builder()
        .appendonly(Fsync::Always)
        .start()
        .unwrap()
}

pub(crate) fn server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

/// A fleet on that server with `count` copies that know their roles.
pub(crate) fn fleet_of(count: usize, server: &PrivateServer, args: &[&str]) -> Fleet {
    let url = server.url();
    let mut all = vec!["--redis", url.as_str()];
    all.extend(args);
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &all);
    fleet.start_many(count, PATIENCE).unwrap();
    fleet
}

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
/// them exactly once, in Redis's books and in what the nodes told.
pub(crate) fn assert_each_once(fleet: &Fleet, server: &PrivateServer, messages: u64) {
    let status = wait_status(&server.url(), "default", PATIENCE, "all to end", |status| {
        status.done + status.failed == messages
    })
    .unwrap();
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

/// A raw connection to the server.
pub(crate) fn redis(server: &PrivateServer) -> redis::Connection {
    redis::Client::open(server.url())
        .unwrap()
        .get_connection()
        .unwrap()
}

/// The fleet's key names.
pub(crate) fn keys() -> baton_protocol::Keys {
    baton_protocol::Keys::new(&baton::FleetName::new("default").unwrap())
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
