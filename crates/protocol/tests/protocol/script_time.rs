//! No script takes long, whatever is in the store.
//!
//! On a busy machine the wall time of a script says more about the machine. So the test also measures
//! the CPU time of the server's main thread, and takes the smaller of the two.

mod delays;

use std::collections::BTreeSet;

use baton::Inspector;
use baton_protocol::{
    ErrorsClaim, ErrorsCommit, Failure, Settle, Settled, Slot, Store, Wanted, record,
};

use crate::support::{EXPIRED, Fleet, LONG, Lane, failed, pack_of, settle_all, start};

/// Max time of a script, in microseconds.
const MAX_US: f64 = 5_000.0;
/// Failed messages in a large store.
const MANY: u64 = 300_000;

/// Fills the store of a fleet whose messages all failed.
async fn fill(fleet: &Fleet, messages: u64) {
    let count = messages.to_string();
    fleet
        .write(&["HSET", &fleet.keys.fence, "last", &count])
        .await;
    fleet
        .write(&["HSET", &fleet.keys.stats, "failed", &count])
        .await;
    let all: Vec<u64> = (1..=messages).collect();
    for seqs in all.chunks(5_000) {
        let records = seqs.iter().map(|seq| failed(*seq, format!("m{seq}")));
        fleet.fail(&records.collect::<Vec<_>>()).await;
    }
}

/// What the server has spent so far, in microseconds.
struct Spent {
    /// CPU time of its main thread, for scripts and everything else.
    cpu: f64,
    /// Wall time of scripts, in which other processes may have run.
    wall: f64,
    scripts: f64,
}

async fn spent(fleet: &Fleet) -> Spent {
    let info: String = fleet.raw(&["INFO", "everything"]).await;
    let after = |text: &str, name: &str, end: char| {
        let (_, rest) = text.split_once(name)?;
        rest.split(end).next()?.parse::<f64>().ok()
    };
    let cpu = |name| after(&info, name, '\r').unwrap();
    let stat = |name| {
        let lines = info.lines();
        let scripts = lines.filter(|line| line.starts_with("cmdstat_eval"));
        scripts
            .filter_map(|line| after(line, name, ','))
            .sum::<f64>()
    };
    // A server that does not have a script yet gets two calls.
    let unknown = after(&info, "errorstat_NOSCRIPT:count=", '\r').unwrap_or_default();
    Spent {
        cpu: (cpu("used_cpu_user_main_thread:") + cpu("used_cpu_sys_main_thread:")) * 1e6,
        wall: stat(",usec="),
        scripts: stat(":calls=") - unknown,
    }
}

/// Checks the time of the scripts of a call. Neither measure is less than their real time.
async fn bounded<T>(fleet: &Fleet, what: &str, call: impl Future<Output = T>) -> T {
    let before = spent(fleet).await;
    let answer = call.await;
    let after = spent(fleet).await;
    let scripts = after.scripts - before.scripts;
    assert!(scripts > 0.0, "{what}: no script ran");
    let (cpu, wall) = (after.cpu - before.cpu, after.wall - before.wall);
    let each = cpu.min(wall) / scripts;
    assert!(each < MAX_US, "{what}: {each} µs per script");
    answer
}

async fn page(lane: &Lane, before: Option<u64>) -> Vec<Failure> {
    let page = lane.store.errors_before(before, 200).await.unwrap();
    page.failures
}

#[tokio::test]
async fn with_300_000_failed_messages_no_script_takes_longer_than_5_ms() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    fill(&fleet, MANY).await;
    let w = fleet.lane("w").await;
    let settle =
        async |what, failures: &[Failure]| settle_all(&w.store, what, failures).await.unwrap();

    let seen = page(&w, Some(MANY / 2)).await;
    let dropped = bounded(&fleet, "drop 200", settle(Settle::Drop, &seen)).await;
    assert_eq!(dropped, [Settled::Dropped; 200]);
    let missing = bounded(&fleet, "drop 200 again", settle(Settle::Drop, &seen)).await;
    assert_eq!(missing, [Settled::Missing; 200]);
    let seen = page(&w, Some(MANY / 4)).await;
    let retried = bounded(&fleet, "retry 200", settle(Settle::Retry, &seen)).await;
    assert_eq!(retried, [Settled::Retried; 200]);

    // Each is the first message of a pack of 256 kB that still exists.
    let seen = page(&w, Some(MANY / 5)).await;
    let pack = pack_of(&vec![vec![b'x'; 256]; 1000]);
    for failure in &seen {
        let seq = record::decode(&failure.record).seq;
        let mut put = redis::cmd("SET");
        put.arg(fleet.keys.pack_key(seq)).arg(&pack);
        fleet.send(&put).await;
        let seq = seq.to_string();
        fleet.write(&["HSET", &fleet.keys.left, &seq, "999"]).await;
    }
    let retried = bounded(&fleet, "retry in packs", settle(Settle::Retry, &seen)).await;
    assert_eq!(retried, [Settled::Retried; 200]);

    let snapshot = bounded(
        &fleet,
        "newest",
        Inspector::over(w.store.clone()).snapshot(),
    )
    .await;
    assert_eq!(snapshot.unwrap().newest[0].seq, MANY);
    let claim = bounded(&fleet, "claim of the oldest", w.drain(1, 100, 1 << 20)).await;
    assert_eq!(claim, ErrorsClaim::Claimed((1..=100).collect()));
    let commit = w.store.errors_commit(&w.slot, 1, 50);
    let commit = bounded(&fleet, "commit", commit).await.unwrap();
    assert_eq!(commit, ErrorsCommit::Done);
}

#[tokio::test]
async fn a_search_over_many_holes_takes_many_short_steps() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    fill(&fleet, 20_000).await;
    let w = fleet.lane("w").await;
    let holes: Vec<String> = (1..20_000).map(|id| id.to_string()).collect();
    for holes in holes.chunks(5_000) {
        let mut delete = redis::cmd("HDEL");
        fleet.send(delete.arg(&fleet.keys.errors).arg(holes)).await;
    }
    let mut again = 0;
    let found = bounded(&fleet, "search", async {
        loop {
            match w.drain(1, 9, 1 << 20).await {
                ErrorsClaim::Again => again += 1,
                found => return found,
            }
        }
    });
    assert_eq!(found.await, ErrorsClaim::Claimed(vec![20_000]));
    assert_eq!(again, 19);
    assert_eq!(page(&w, None).await, [], "a drain holds it");
    assert_eq!(w.give_back(1).await, baton_protocol::GiveBack::Ok);
    let newest = page(&w, None).await;
    assert_eq!(newest[0].id, 20_000);
}

#[tokio::test]
async fn records_of_many_dead_drains_return_in_short_steps() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    fill(&fleet, 20_000).await;
    let w = fleet.lane("w").await;
    let ids: Vec<u64> = (1..=20_000).collect();
    for (lane, ids) in ids.chunks(100).enumerate() {
        let slot = Slot::new("w", lane);
        let claim = w
            .store
            .errors_claim(&slot, 1, Wanted::Exactly(ids), EXPIRED)
            .await;
        assert_eq!(claim.unwrap(), ErrorsClaim::Claimed(ids.to_vec()));
    }
    assert_eq!(w.store.errors_len().await.unwrap(), 0);
    let returned = bounded(&fleet, "reclaim", w.store.reclaim()).await.unwrap();
    assert_eq!(returned.records, 2_000);
    let rest = bounded(&fleet, "clean", w.store.reclaim_absent()).await;
    assert_eq!(rest.unwrap().records, 18_000);
    assert_eq!(w.store.errors_len().await.unwrap(), 20_000);
    assert_eq!(w.drain(1, 1, 1).await, ErrorsClaim::Claimed(vec![1]));
}

#[tokio::test]
async fn cleaning_up_very_many_nodes_and_claims_takes_many_short_steps() {
    const DEAD: usize = 20_000;
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let (g, w) = fleet.with_messages(1).await;
    let _ = crate::support::beat(&g).await;
    assert_eq!(w.take(1, 1).await, "m1");
    let dead: Vec<usize> = (0..DEAD).collect();
    for dead in dead.chunks(2_000) {
        let mut nodes = redis::cmd("HSET");
        nodes.arg(&fleet.keys.nodes);
        let mut claims = redis::cmd("HSET");
        claims.arg(&fleet.keys.claims);
        let mut deadlines = redis::cmd("ZADD");
        deadlines.arg(&fleet.keys.deadlines);
        for at in dead {
            nodes.arg(format!("dead{at}")).arg("0 {}");
            let seq = at + 2;
            claims
                .arg(format!("dead{at}:0"))
                .arg(format!("m 1 0 {seq} 1 {seq} {seq} 0"));
            // Later deadlines than those of living nodes.
            deadlines.arg(1e15).arg(format!("dead{at}:0"));
        }
        for command in [&nodes, &claims, &deadlines] {
            fleet.send(command).await;
        }
    }
    let returned = bounded(&fleet, "clean", g.reclaim_absent()).await.unwrap();
    assert_eq!(returned.messages, DEAD as u64);
    assert_eq!(returned.nodes.len(), DEAD);
    let forgotten = bounded(&fleet, "forget", g.forget()).await.unwrap();
    assert_eq!(forgotten.iter().collect::<BTreeSet<_>>().len(), DEAD);
    assert_eq!(g.roster().await.unwrap().nodes.len(), 1);
    assert_eq!(w.commit(1, 1..=1).await, baton_protocol::Commit::Done);
}

#[tokio::test]
async fn a_void_of_very_many_numbers_is_one_short_step() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    let g = fleet.generator().await;
    let last = 1 << 52;
    let void = bounded(&fleet, "void", g.void(1, 1, last, true)).await;
    assert!(void.unwrap().is_written());
    let census = g.census().await.unwrap();
    assert!(census.balanced() && census.void == last, "{census:?}");
}

/// Drains all failed messages, as `baton getErrors` does. Returns their numbers.
async fn take_all(store: Store) -> Vec<u64> {
    let mut taken = Vec::new();
    let mut drain = Inspector::over(store).drain(LONG).await.unwrap();
    loop {
        let batch = drain.next().await.unwrap();
        if batch.is_empty() {
            return taken;
        }
        let committed = drain.commit(batch.len()).await.unwrap();
        assert_eq!(committed, ErrorsCommit::Done);
        taken.extend(batch.iter().map(|failed| failed.seq));
    }
}

/// Drops all failed messages, the newest first. Returns the numbers of those that it dropped.
async fn drop_all(store: Store) -> Vec<u64> {
    let (mut dropped, mut before) = (Vec::new(), None);
    loop {
        let page = store.errors_before(before, 500).await.unwrap();
        let settled = settle_all(&store, Settle::Drop, &page.failures).await;
        for (failure, settled) in page.failures.iter().zip(settled.unwrap()) {
            if settled == Settled::Dropped {
                dropped.push(record::decode(&failure.record).seq);
            }
        }
        match page.next {
            Some(next) => before = Some(next),
            None => return dropped,
        }
    }
}

#[tokio::test]
async fn a_drop_of_all_and_two_drains_together_take_each_record_once() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    fill(&fleet, MANY).await;
    let (a, b, c) = tokio::join!(
        async { take_all(fleet.node("a").await).await },
        async { take_all(fleet.node("b").await).await },
        async { drop_all(fleet.node("c").await).await },
    );
    println!("taken {} and {}, dropped {}", a.len(), b.len(), c.len());
    assert!([&a, &b, &c].iter().all(|some| !some.is_empty()));
    let mut all = [a, b, c].concat();
    all.sort_unstable();
    assert!(all.iter().copied().eq(1..=MANY), "{} in all", all.len());
    assert_eq!(fleet.only("errors errors_held claims").await, [""; 0]);
}

#[tokio::test]
async fn a_record_of_16_mb_keeps_no_script_busy() {
    let server = start();
    let fleet = Fleet::on(&server.url()).await;
    fill(&fleet, 2).await;
    let huge = failed(1, vec![b'x'; 16 << 20]);
    for _ in 0..3 {
        fleet.fail(&[&huge]).await;
    }
    let w = fleet.lane("w").await;
    let snapshot = bounded(
        &fleet,
        "newest",
        Inspector::over(w.store.clone()).snapshot(),
    )
    .await;
    let snapshot = snapshot.unwrap();
    assert_eq!((snapshot.errors, snapshot.newest.len()), (5, 5));
    assert!(snapshot.newest[0].cut);
    let claim = bounded(&fleet, "claim", w.drain(1, 3, 1 << 20)).await;
    assert_eq!(claim, ErrorsClaim::Claimed(vec![1, 2, 3]));
    let commit = w.store.errors_commit(&w.slot, 1, 3);
    let commit = bounded(&fleet, "commit", commit).await.unwrap();
    assert_eq!(commit, ErrorsCommit::Done);

    let settle = async |what, record: &[u8]| {
        let (id, record) = (4, record.to_vec());
        let long = [Failure::short(id, record)];
        settle_all(&w.store, what, &long).await.unwrap()
    };
    let mut other = huge.clone();
    other[1000] ^= 1;
    for (what, record, fate) in [
        (Settle::Drop, &other, Settled::Missing),
        (Settle::Retry, &huge, Settled::Unfit),
        (Settle::Drop, &huge, Settled::Dropped),
        (Settle::Drop, &huge, Settled::Missing),
    ] {
        let settled = settle(what, record);
        let settled = bounded(&fleet, &format!("{what:?} {fate:?}"), settled).await;
        assert_eq!(settled, [fate]);
    }
    assert_eq!(w.failures().await.len(), 1);
    assert_eq!(fleet.only("errors_held claims").await, [""; 0]);
}
