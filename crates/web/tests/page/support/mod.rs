//! A page on a port of its own, a client that sends exact bytes, and the errors store behind both.

mod client;
mod errors_store;
mod site;

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use baton::inspect::{Limits, Watch};
use baton::{FleetName, Target};
use baton_server::PrivateServer;

pub(crate) use client::{Answer, Events, connect};
pub(crate) use site::Site;

/// No condition takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// A free port of this machine.
pub(crate) const ANY: &str = "127.0.0.1:0";
/// The token of a page that has one.
pub(crate) const TOKEN: &str = "the token of the tests";

/// One server for all tests that do not stop it; each test has a fleet of its own.
static SERVER: LazyLock<PrivateServer> = LazyLock::new(start_server);

/// A server for a test that stops it.
pub(crate) fn start_server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, mut is_met: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_met() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Calls a function at the end of a block, also if the test panics in it.
pub(crate) struct Defer<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A watch without a server.
pub(crate) fn idle_watch() -> Watch {
    let limits = Limits::new(TIMEOUT, TIMEOUT);
    let target = Target::parse("redis://127.0.0.1:1").unwrap();
    Watch::start(target, FleetName::new("idle").unwrap(), TIMEOUT, limits)
}
