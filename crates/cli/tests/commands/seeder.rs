//! A client of the tests that publishes, claims and fails messages by hand.

use std::sync::Arc;
use std::time::Duration;

use baton::{Effects, FailedMessage, FleetName, Target};
use baton_protocol::{
    BeatCall, Census, Claim, ClaimCall, Commit, CommitCall, Delay, Note, PackBuilder, Partitions,
    PublishCall, Seal, Slot, Store, record,
};
use baton_server::PrivateServer;
use tokio::runtime::Runtime;

use crate::shared::server;

/// When seeded messages fail.
pub(crate) const AT_MS: u64 = 1_700_000_000_123;
/// The same in words.
pub(crate) const AT: &str = "2023-11-14T22:13:20.123Z";
/// Longer than any test.
const TTL: Duration = Duration::from_secs(600);
/// Max messages in a pack.
const PACK: usize = 500;

/// Generates and works in a fleet, but only when a test says so.
pub(crate) struct Seeder {
    runtime: Arc<Runtime>,
    pub(crate) store: Store,
    next: u64,
    claim: u64,
}

impl Seeder {
    /// In the fleet `default` of a server.
    pub(crate) fn new(server: &PrivateServer) -> Self {
        Self::at(&server.url_with_password())
    }

    /// The same by its URL.
    pub(crate) fn at(url: &str) -> Self {
        let runtime = runtime();
        let store = runtime.block_on(async {
            let (target, fleet) = (
                Target::parse(url).unwrap(),
                FleetName::new("default").unwrap(),
            );
            Store::open(&target, &fleet, "seeder", |_| {})
                .await
                .unwrap()
        });
        Self::over(runtime, store)
    }

    /// One for each partition of a fleet of so many.
    pub(crate) fn of_partitions(url: &str, count: u32) -> Vec<Self> {
        let runtime = runtime();
        let partitions = runtime.block_on(async {
            let target = Target::parse(url).unwrap();
            let fleet = FleetName::new("default").unwrap();
            let opened = Partitions::open(&target, &fleet, "seeder", Some(count), |_| {});
            let (partitions, _) = opened.await.unwrap();
            let beat = partitions.control().beat(BeatCall {
                lease_ttl: TTL,
                about: "{}",
                above: 0,
                is_candidate: true,
                known: 0,
            });
            let _ = beat.await.unwrap();
            partitions
        });
        let stores = partitions.all().iter().cloned();
        stores
            .map(|store| Self::over(Arc::clone(&runtime), store))
            .collect()
    }

    fn over(runtime: Arc<Runtime>, store: Store) -> Self {
        let sealed = runtime.block_on(store.seal(1)).unwrap();
        assert!(matches!(sealed, Seal::Sealed { last: 0, .. }), "{sealed:?}");
        Self {
            runtime,
            store,
            next: 1,
            claim: 0,
        }
    }

    /// Publishes these texts; they wait.
    pub(crate) fn publish(&mut self, texts: &[impl AsRef<[u8]>]) {
        let mut builder = PackBuilder::default();
        texts.iter().for_each(|text| builder.push(text.as_ref()));
        let (count, pack) = (builder.count(), builder.finish(AT_MS, "0123456789", 1));
        let publish = self.store.publish(PublishCall {
            stage: 1,
            is_staged: false,
            claim_ttl: Duration::from_secs(5),
            epoch: 1,
            first: self.next,
            count,
            cursor: b"",
            made: None,
            max_pending: u64::MAX >> 12,
            digest: None,
            pack: &pack,
        });
        assert!(self.runtime.block_on(publish).unwrap().is_written());
        self.next += count;
    }

    /// Declares that the next numbers are void: their messages are lost.
    pub(crate) fn void(&mut self, count: u64) {
        let last = self.next + count - 1;
        let void = self.store.void(1, self.next, last, false);
        assert!(self.runtime.block_on(void).unwrap().is_written());
        self.next = last + 1;
    }

    /// Claims the oldest waiting messages.
    pub(crate) fn claim(&mut self, want: u64) -> (u64, u64) {
        self.claim += 1;
        let slot = self.slot();
        let claim = self.store.claim(ClaimCall {
            slot: &slot,
            number: self.claim,
            want,
            ttl: TTL,
            alone: true,
        });
        match self.runtime.block_on(claim).unwrap() {
            Claim::Claimed { range, .. } => (range.first, range.last),
            other => panic!("nothing to claim: {other:?}"),
        }
    }

    /// Publishes these texts, handles and rejects every one of them.
    pub(crate) fn fail(&mut self, texts: &[impl AsRef<[u8]>]) {
        for texts in texts.chunks(PACK) {
            self.publish(texts);
            let (first, last) = self.claim(texts.len() as u64);
            let failed: Vec<Vec<u8>> = texts
                .iter()
                .zip(first..)
                .map(|(text, seq)| baton_protocol::record::encode(&record(seq, text.as_ref())))
                .collect();
            self.commit(first, last, &failed, &[]);
        }
    }

    /// Publishes these texts and handles each of them once, in vain: they wait for so long.
    pub(crate) fn delay(&mut self, texts: &[impl AsRef<[u8]>], delay: Duration) {
        let note = Note {
            first_reason: "no answer".to_owned(),
            last_reason: "no answer".to_owned(),
        };
        for text in texts {
            self.publish(&[text]);
            let (seq, _) = self.claim(1);
            let delayed = Delay {
                seq,
                delay,
                note: note.encode(),
                pack: Vec::new(),
            };
            self.commit(seq, seq, &[], &[delayed]);
        }
    }

    /// Commits the latest claim.
    fn commit(&self, first: u64, last: u64, failed: &[Vec<u8>], delayed: &[Delay]) {
        let (slot, effects) = (self.slot(), Effects::default());
        let call = CommitCall {
            delayed,
            first,
            last,
            failed,
            effects: &effects,
            max_errors: 1_000_000,
            digest: None,
        };
        let commit = self.store.commit(&slot, self.claim, call);
        assert_eq!(self.runtime.block_on(commit).unwrap(), Commit::Done);
    }

    /// Puts records into the errors store as they are, behind the others. Returns the first id.
    pub(crate) fn put(&self, server: &PrivateServer, records: &[Vec<u8>]) -> u64 {
        let keys = crate::shared::keys();
        let mut connection = crate::shared::redis(server);
        let last: Option<u64> = redis::cmd("HGET")
            .arg(&keys.errors_ids)
            .arg("last")
            .query(&mut connection)
            .unwrap();
        let first = last.unwrap_or_default() + 1;
        let mut pipe = redis::pipe();
        for (id, record) in (first..).zip(records) {
            pipe.hset(&keys.errors, id, record.as_slice());
        }
        pipe.hset(&keys.errors_ids, "last", first - 1 + records.len() as u64);
        pipe.exec(&mut connection).unwrap();
        first
    }

    /// Claims the oldest failed messages as a drain does. Returns how many.
    pub(crate) fn drain_some(&self, ttl: Duration) -> usize {
        let inspector = baton::Inspector::over(self.store.clone());
        self.runtime.block_on(async {
            let mut drain = inspector.drain(ttl).await.unwrap();
            drain.next().await.unwrap().len()
        })
    }

    /// Where every message is.
    pub(crate) fn census(&self) -> Census {
        self.runtime.block_on(self.store.census()).unwrap()
    }

    /// The texts of all failed messages that wait, in their order.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let (mut texts, mut after) = (Vec::new(), Some(0));
        while let Some(id) = after {
            let page = self.store.errors_after(id, 500);
            let page = self.runtime.block_on(page).unwrap();
            let failures = page.failures.iter();
            let failed = failures.map(|failure| record::decode(&failure.record));
            texts.extend(failed.map(|failed| String::from_utf8(failed.text).unwrap()));
            after = page.next;
        }
        texts
    }

    fn slot(&self) -> Slot {
        Slot::new(self.store.node(), 0)
    }
}

fn runtime() -> Arc<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    Arc::new(runtime.unwrap())
}

/// A server on which the messages `m1` to `m{count}` have failed, and their seeder.
pub(crate) fn with_failures(count: u64) -> (PrivateServer, Seeder) {
    let server = server();
    let mut seeder = Seeder::new(&server);
    seeder.fail(&texts(1..=count));
    (server, seeder)
}

/// A failed message as seeded.
pub(crate) fn record(seq: u64, text: &[u8]) -> FailedMessage {
    record::failed_once(seq, AT_MS, "seeder", "no such customer", text)
}

/// Texts `m1`, `m2` and so on.
pub(crate) fn texts(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    numbers.map(|number| format!("m{number}")).collect()
}

/// The line that `getErrors` prints for a seeded message.
pub(crate) fn line(seq: u64, text: &str) -> String {
    format!("{AT}\t#{seq}\tseeder\tno such customer\t{text}")
}
