//! Servers, fleets and the page of the program.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use baton::FailedMessage;
use baton_processes::{Fleet, command, wait_status};
use baton_protocol::record;
use baton_server::PrivateServer;

/// Longest wait for anything. Generous: a busy machine must not fail a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that keeps nothing.
pub(crate) fn server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

/// A fleet on that server with `count` copies that know their roles. On a busy machine none of
/// them loses its lease for being slow; a killed one does not keep it any longer.
pub(crate) fn fleet_of(count: usize, server: &PrivateServer, args: &[&str]) -> Fleet {
    let url = server.url();
    let mut all = vec!["--redis", url.as_str(), "--lease-ttl", "10s"];
    all.extend(args);
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &all);
    fleet.start_many(count, PATIENCE).unwrap();
    fleet
}

/// A running `baton web`. It is killed when this is dropped.
pub(crate) struct Web {
    process: Child,
    /// Where its page is, with a slash at the end.
    pub(crate) url: String,
}

impl Web {
    /// Starts one on any free port.
    #[track_caller]
    pub(crate) fn start(server: &PrivateServer, args: &[&str]) -> Self {
        let mut process = command(Path::new(env!("CARGO_BIN_EXE_baton")))
            .args(["web", "--redis", &server.url(), "--http", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("http://"));
        let url = url
            .unwrap_or_else(|| panic!("no address: {line:?}"))
            .to_owned();
        Self { process, url }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A failed message.
pub(crate) fn failure(seq: u64, reason: &str, text: &str) -> FailedMessage {
    let mut made = FailedMessage::default();
    made.seq = seq;
    made.at_ms = 1_700_000_000_000 + seq;
    made.node = "worker-1".to_owned();
    made.reason = reason.to_owned();
    made.attempt = 1;
    made.text = text.into();
    made
}

/// Puts failed messages into the errors store, the last one as the newest.
pub(crate) fn push(server: &PrivateServer, failures: &[FailedMessage]) {
    let keys = baton_protocol::Keys::new(&baton::FleetName::new("default").unwrap());
    let mut redis = redis(server);
    let last: u64 = redis::cmd("HINCRBY")
        .arg(&keys.errors_ids)
        .arg("last")
        .arg(failures.len())
        .query(&mut redis)
        .unwrap();
    let first = last + 1 - failures.len() as u64;
    let records = (first..).zip(failures).flat_map(|(id, failed)| {
        let id = id.to_string().into_bytes();
        [id, baton_protocol::record::encode(failed)]
    });
    redis::cmd("HSET")
        .arg(&keys.errors)
        .arg(records.collect::<Vec<_>>())
        .exec(&mut redis)
        .unwrap();
}

/// The failed messages in the errors store, oldest first, whether a person holds them or not.
pub(crate) fn stored(server: &PrivateServer) -> Vec<FailedMessage> {
    let keys = baton_protocol::Keys::new(&baton::FleetName::new("default").unwrap());
    let records: BTreeMap<u64, Vec<u8>> = redis::cmd("HGETALL")
        .arg(&keys.errors)
        .query(&mut redis(server))
        .unwrap();
    records
        .values()
        .map(|record| record::decode(record))
        .collect()
}

fn redis(server: &PrivateServer) -> redis::Connection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_connection().unwrap()
}

/// Waits until Redis's own books say something.
#[track_caller]
pub(crate) fn wait_books(
    server: &PrivateServer,
    what: &str,
    fits: impl Fn(&baton::inspect::Snapshot) -> bool,
) -> baton::inspect::Snapshot {
    wait_status(&server.url(), "default", PATIENCE, what, fits).unwrap()
}

/// Makes a node appear, dead since this moment, that has this name and a host of the same name.
pub(crate) fn hostile_node(server: &PrivateServer, name: &str) {
    let keys = baton_protocol::Keys::new(&baton::FleetName::new("default").unwrap());
    let about = serde_json::json!({"host": name, "pid": 1, "version": name});
    let mut redis = redis(server);
    let (s, _us): (u64, u64) = redis::cmd("TIME").query(&mut redis).unwrap();
    redis::pipe()
        .hset(&keys.nodes, name, format!("12345678 {about}"))
        .zadd(&keys.seen, name, 1000 * s)
        .exec(&mut redis)
        .unwrap();
}
