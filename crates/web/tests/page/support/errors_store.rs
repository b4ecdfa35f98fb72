//! The errors store of a page's fleet, written and read behind the page's back.

use std::collections::BTreeMap;

use baton::FailedMessage;
use baton_protocol::record;
use redis::Commands;

use super::Site;

impl Site {
    /// Puts a failed message into the store.
    pub(crate) fn fail(&self, seq: u64, reason: &str, text: &[u8]) {
        self.push(&record(seq, reason, text));
    }

    /// Puts the failed messages `text 1` to `text N` into the store.
    pub(crate) fn fail_many(&self, messages: u64, reason: impl Fn(u64) -> &'static str) {
        let records: Vec<_> = (1..=messages)
            .map(|seq| record(seq, reason(seq), format!("text {seq}").as_bytes()))
            .collect();
        self.push_all(&records);
    }

    /// Puts a record of these bytes into the store.
    pub(crate) fn push(&self, record: &[u8]) {
        self.push_all(&[record.to_vec()]);
    }

    fn push_all(&self, records: &[Vec<u8>]) {
        let mut redis = self.redis.lock().unwrap();
        let count = records.len() as u64;
        let last: u64 = redis.hincr(&self.keys.errors_ids, "last", count).unwrap();
        let ids: Vec<u64> = (last - count + 1..=last).collect();
        let pairs: Vec<_> = ids.iter().zip(records).collect();
        for pairs in pairs.chunks(1000) {
            let _: () = redis.hset_multiple(&self.keys.errors, pairs).unwrap();
        }
    }

    /// Deletes the errors store and the fleet's counters, as a server that loses its data does.
    pub(crate) fn lose_all(&self) {
        let mut redis = self.redis.lock().unwrap();
        let keys = &self.keys;
        for key in [&keys.errors, &keys.errors_ids, &keys.fence, &keys.stats] {
            let _: () = redis.del(key).unwrap();
        }
    }

    /// Sets the counters of a fleet that has published so many messages, all of which failed.
    pub(crate) fn set_failed(&self, messages: u64) {
        let mut redis = self.redis.lock().unwrap();
        let _: () = redis.hset(&self.keys.fence, "last", messages).unwrap();
        let _: () = redis.hset(&self.keys.stats, "failed", messages).unwrap();
    }

    /// The texts of all messages in the store, claimed or not, oldest first.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut redis = self.redis.lock().unwrap();
        let records: BTreeMap<u64, Vec<u8>> = redis.hgetall(&self.keys.errors).unwrap();
        let text =
            |record: &Vec<u8>| String::from_utf8_lossy(&record::decode(record).text).into_owned();
        records.values().map(text).collect()
    }
}

fn record(seq: u64, reason: &str, text: &[u8]) -> Vec<u8> {
    let mut failed = FailedMessage::default();
    failed.seq = seq;
    failed.at_ms = 1_700_000_000_000 + seq;
    failed.node = "node1".to_owned();
    failed.reason = reason.to_owned();
    failed.attempt = 1;
    failed.text = text.to_vec();
    record::encode(&failed)
}
