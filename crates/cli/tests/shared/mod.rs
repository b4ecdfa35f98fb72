//! What the tests of the program share.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod nginx;
pub(crate) mod page;
pub(crate) mod pty;
pub(crate) mod server_matrix;
pub(crate) mod tool;

use std::thread;
use std::time::{Duration, Instant};

use baton_processes::Fleet;
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

/// A fleet on that server with `count` copies that know their roles.
pub(crate) fn fleet_of(count: usize, server: &PrivateServer, args: &[&str]) -> Fleet {
    let url = server.url();
    let mut all = vec!["--redis", url.as_str()];
    all.extend(args);
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &all);
    fleet.start_many(count, TIMEOUT).unwrap();
    fleet
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
