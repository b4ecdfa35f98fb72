//! Servers, fleets and the page of the program.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton::FailedMessage;
use baton_processes::Fleet;
use baton_protocol::record;
use baton_server::PrivateServer;

use crate::devtools::Browser;
pub(crate) use crate::shared::page::Page;
pub(crate) use crate::shared::replicated::{PlantedNode, Replicated, lose};
pub(crate) use crate::shared::{TIMEOUT, server, status, wait_for, wait_status};
use crate::shared::{keys, redis};
use crate::tab::Tab;

/// A fleet on that server with `count` copies that know their roles. On a busy machine none of
/// them loses its lease because it is slow. A killed one keeps it no longer than usual.
pub(crate) fn fleet_of(count: usize, server: &PrivateServer, args: &str) -> Fleet {
    crate::shared::fleet_of(count, server, &format!("--lease-ttl 10s {args}"))
}

/// A page in a browser's tab, whose visitor may act.
pub(crate) struct Visit {
    pub(crate) tab: Tab,
    pub(crate) page: Page,
    pub(crate) server: PrivateServer,
    pub(crate) browser: Arc<Browser>,
}

impl Visit {
    /// Opens the page of a server and waits until it lists so many failed messages. `None` if
    /// this machine has no browser.
    #[track_caller]
    pub(crate) fn start(server: impl FnOnce() -> PrivateServer, failed: usize) -> Option<Self> {
        let browser = Browser::shared()?;
        let server = server();
        let page = Page::start(&server, &["--allow-actions"]);
        let tab = Tab::open(&browser, &page.url);
        wait_items(&tab, failed);
        Some(Self {
            tab,
            page,
            server,
            browser,
        })
    }
}

/// Waits until the page lists so many failed messages.
#[track_caller]
pub(crate) fn wait_items(tab: &Tab, count: usize) {
    tab.wait_until(
        &format!("{count} failed messages"),
        &format!("document.querySelectorAll('#failed [data-id]').length === {count}"),
    );
}

/// A failed message.
pub(crate) fn failure(seq: u64, reason: &str, text: &str) -> FailedMessage {
    record::failed_once(seq, 1_700_000_000_000 + seq, "worker-1", reason, text)
}

/// Puts failed messages into the errors store, the last one as the newest.
pub(crate) fn push(server: &PrivateServer, failures: &[FailedMessage]) {
    let keys = keys();
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
    let keys = keys();
    let records: BTreeMap<u64, Vec<u8>> = redis::cmd("HGETALL")
        .arg(&keys.errors)
        .query(&mut redis(server))
        .unwrap();
    records
        .values()
        .map(|record| record::decode(record))
        .collect()
}

/// Makes a node appear, dead since this moment, that has this name and a host of the same name.
pub(crate) fn hostile_node(server: &PrivateServer, name: &str) {
    let keys = keys();
    let about = serde_json::json!({"host": name, "pid": 1, "version": name});
    let mut redis = redis(server);
    let (s, _us): (u64, u64) = redis::cmd("TIME").query(&mut redis).unwrap();
    redis::pipe()
        .hset(&keys.nodes, name, format!("12345678 {about}"))
        .zadd(&keys.seen, name, 1000 * s)
        .exec(&mut redis)
        .unwrap();
}
