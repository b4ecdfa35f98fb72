//! `--keep-errors`: the generator drops failed messages that are old, and only those.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::inspect::Snapshot;
use baton::{FleetName, Inspector, Target};
use baton_log::LogEvent;
use baton_processes::Fleet;
use baton_protocol::{Store, record};
use baton_server::PrivateServer;

use crate::shared::fake_clock::FakeClock;
use crate::support::{
    fleet_of, keys, redis, server, status, wait_for, wait_status, wait_until, warns,
};

/// Long enough for any test, short against an hour.
const TTL: Duration = Duration::from_secs(600);
const HOUR_MS: u64 = 3_600_000;

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// The record of a message that failed at this time.
fn failed_at(at_ms: u64) -> Vec<u8> {
    record::encode(&record::failed_once(1, at_ms, "node", "a reason", "text"))
}

/// Puts records into the errors store, with ids from 1 on.
fn store_records(server: &PrivateServer, records: &[Vec<u8>]) {
    let mut pipe = redis::pipe();
    for (id, record) in (1..).zip(records) {
        pipe.hset(&keys().errors, id, record.as_slice());
    }
    pipe.hset(&keys().errors_ids, "last", records.len());
    pipe.exec(&mut redis(server)).unwrap();
}

/// The ids in the errors store.
fn ids(server: &PrivateServer) -> Vec<u64> {
    let mut command = redis::cmd("HKEYS");
    let mut ids: Vec<u64> = command
        .arg(&keys().errors)
        .query(&mut redis(server))
        .unwrap();
    ids.sort_unstable();
    ids
}

/// How many messages the log says were dropped.
fn logged(fleet: &Fleet) -> u64 {
    let told = fleet.told();
    let counts = told.iter().map(|told| match told.event() {
        LogEvent::Dropped { count } => *count,
        _ => 0,
    });
    counts.sum()
}

#[test]
fn what_is_older_than_the_time_to_keep_is_dropped_counted_and_logged() {
    let server = server();
    let (old, young) = (now_ms() - HOUR_MS, now_ms());
    let mut records: Vec<Vec<u8>> = (1..=1200).map(|_| failed_at(old)).collect();
    records[100] = b"foreign bytes".to_vec();
    records[200] = failed_at(now_ms() + 24 * HOUR_MS);
    records[300] = record::encode(&record::failed_once(
        1,
        old,
        "n",
        "r",
        vec![b'x'; 600 << 10],
    ));
    // Behind the first young record the walk ends, whatever comes there.
    records.extend([failed_at(young), b"foreign bytes".to_vec()]);
    store_records(&server, &records);

    // A drain holds the oldest hundred.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let drain = runtime.block_on(async {
        let target = Target::parse(&server.url()).unwrap();
        let inspector = Inspector::connect(&target, &FleetName::new("default").unwrap()).await;
        let mut drain = inspector.unwrap().drain(TTL).await.unwrap();
        assert_eq!(drain.next().await.unwrap().len(), 100);
        drain
    });

    let fleet = fleet_of(
        2,
        &server,
        "--interval 1h --keep-errors 10min --error-rate 0",
    );
    let waiting = wait_status(&server, "the drops", |status| status.errors == 102);
    assert_eq!((waiting.dropped, waiting.failed), (1100, 0));
    let expected: Vec<u64> = (1..=100).chain([1201, 1202]).collect();
    assert_eq!(ids(&server), expected);
    wait_until("the log", || logged(&fleet) == 1100);

    // The drain gives them back.
    let mut drain = drain;
    let _ = runtime.block_on(drain.commit(0)).unwrap();
    let left = wait_status(&server, "the rest", |status| status.errors == 2);
    assert_eq!((left.dropped, ids(&server)), (1200, vec![1201, 1202]));
    wait_until("the log", || logged(&fleet) == 1200);
}

#[test]
fn failed_messages_stay_for_ever_unless_a_time_is_set() {
    let server = server();
    store_records(&server, &[failed_at(1), failed_at(now_ms())]);
    let _fleet = fleet_of(2, &server, "--interval 10ms --messages 50 --error-rate 0");
    // The generator had time for many walks.
    let ended = wait_status(&server, "50 messages", |status| status.done == 50);
    assert_eq!((ended.errors, ended.dropped), (2, 0));
}

#[test]
fn a_full_store_holds_workers_back_until_old_messages_are_dropped() {
    let server = server();
    let args = "--interval 0 --error-rate 1 --max-errors 10 --messages 30 --max-pending 5 \
                --keep-errors 2s";
    let args: Vec<&str> = args.split_whitespace().collect();
    let fleet = fleet_of(2, &server, &args.join(" "));
    wait_for(&fleet, 0, "a full store", |told| warns(told, "getErrors"));
    let full = status(&server);
    assert!(full.errors <= 10 && full.failed < 30, "{full:?}");
    let bounded = |status: &Snapshot| {
        assert!(status.errors <= 10 && status.balanced, "{status:?}");
        status.failed == 30 && status.errors == 0
    };
    let ended = wait_status(&server, "all to be dropped", bounded);
    assert_eq!(ended.dropped, 30);
}

#[test]
fn a_server_whose_clock_is_set_ahead_loses_no_failed_message() {
    let Some(clock) = FakeClock::start() else {
        return;
    };
    let server = &clock.server;
    store_records(
        server,
        &[failed_at(now_ms() - HOUR_MS), failed_at(now_ms())],
    );
    clock.set(365 * 24 * 3600);
    let fleet = fleet_of(
        2,
        server,
        "--interval 1h --keep-errors 10min --error-rate 0",
    );
    // The walk drops the first record, so it has met the second.
    wait_until("the first drop", || logged(&fleet) == 1);
    assert_eq!(ids(server), [2]);
}

#[test]
fn two_clients_that_drop_the_same_records_count_each_once() {
    let server = server();
    let records: Vec<Vec<u8>> = (0..300).map(|_| failed_at(1)).collect();
    store_records(&server, &records);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dropped = runtime.block_on(async {
        let target = Target::parse(&server.url()).unwrap();
        let fleet = FleetName::new("default").unwrap();
        let open = async |name| Store::open(&target, &fleet, name, |_| {}).await.unwrap();
        let (one, other) = (
            Inspector::over(open("one").await),
            Inspector::over(open("other").await),
        );
        let page = one
            .failed_messages(baton::inspect::FailedCursor::OLDEST, 500)
            .await
            .unwrap();
        let ids: Vec<_> = page.messages.iter().map(|failed| failed.id).collect();
        let (one, other) = tokio::join!(one.drop(&ids), other.drop(&ids));
        one.dropped + other.dropped
    });
    assert_eq!((dropped, status(&server).dropped), (300, 300));
}
