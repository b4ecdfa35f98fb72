//! What the tests of the program share.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod fake_clock;
pub(crate) mod markdown;
pub(crate) mod nginx;
pub(crate) mod page;
pub(crate) mod pty;
pub(crate) mod replicated;
pub(crate) mod server_matrix;
pub(crate) mod tool;

use std::thread;
use std::time::{Duration, Instant};

use baton::inspect::Snapshot;
use baton_processes::{Fleet, Told};
use baton_server::{Fsync, PrivateServer};

/// Max wait for anything. Generous: a busy machine must not fail a test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A server that keeps nothing.
pub(crate) fn server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

/// A server that keeps what it confirmed.
pub(crate) fn durable_server() -> PrivateServer {
    PrivateServer::builder()
        .appendonly(Fsync::Always)
        .start()
        .unwrap()
}

/// A raw connection to a server.
pub(crate) fn redis(server: &PrivateServer) -> redis::Connection {
    let client = redis::Client::open(server.url_with_password()).unwrap();
    client.get_connection().unwrap()
}

/// The key names of the fleet `default`.
pub(crate) fn keys() -> baton_protocol::Keys {
    baton_protocol::Keys::new(&baton::FleetName::new("default").unwrap())
}

/// A fleet on that server with `count` copies that know their roles. Blanks separate the
/// arguments of `baton run`.
pub(crate) fn fleet_of(count: usize, server: &PrivateServer, args: &str) -> Fleet {
    fleet_at(count, &server.url(), args)
}

/// Like [`fleet_of`], on the server of that URL.
pub(crate) fn fleet_at(count: usize, url: &str, args: &str) -> Fleet {
    let all: Vec<&str> = ["--redis", url]
        .into_iter()
        .chain(args.split(' '))
        .collect();
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &all);
    fleet.start_many(count, TIMEOUT).unwrap();
    fleet
}

/// The fleet `default` of that server, as Redis's books have it.
#[track_caller]
pub(crate) fn status(server: &PrivateServer) -> Snapshot {
    baton_processes::status(&server.url(), "default").unwrap()
}

/// Waits until the status of the fleet `default` fits.
#[track_caller]
pub(crate) fn wait_status(
    server: &PrivateServer,
    what: &str,
    fits: impl Fn(&Snapshot) -> bool,
) -> Snapshot {
    baton_processes::wait_status(&server.url(), "default", TIMEOUT, what, fits).unwrap()
}

/// Waits for the first log line after `mark` that fits.
#[track_caller]
pub(crate) fn wait_for(
    fleet: &Fleet,
    mark: usize,
    what: &str,
    fits: impl Fn(&Told) -> bool,
) -> Told {
    fleet.wait_for(mark, TIMEOUT, what, fits).unwrap()
}

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_true() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
