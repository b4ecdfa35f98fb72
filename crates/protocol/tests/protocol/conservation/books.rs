//! What must hold after each step, and at the end.

use baton::FailedMessage;
use baton_protocol::{Claim, Commit, record};
use proptest::prelude::*;

use super::Step;
use super::world::World;
use crate::support::eventually;

impl World {
    /// After each step: every message is in one place.
    pub(super) async fn check(&self, step: &Step) -> Result<(), TestCaseError> {
        let census = self.drain.store.census().await.unwrap();
        prop_assert!(census.balanced(), "{step:?}: {census:?}");
        Ok(())
    }

    /// Ends the messages that are left, and compares all outcomes with the numbers.
    pub(super) async fn finish(&mut self) -> Result<(), TestCaseError> {
        let keys = &self.fleet.keys;
        let late: Vec<String> = self
            .fleet
            .raw(&["ZRANGE", &keys.deadlines, "0", "-1"])
            .await;
        for slot in late {
            let _: () = self.fleet.raw(&["ZADD", &keys.deadlines, "1", &slot]).await;
        }
        // A message that is due within this very millisecond may take another call.
        eventually("no message is delayed", async || {
            let reclaimed = self.drain.store.reclaim().await.unwrap();
            reclaimed.next_due.is_none()
        })
        .await;
        let last = self.fleet.lane("last").await;
        let mut number = 1;
        while let Claim::Claimed { range, .. } = last.claim(number, 100).await {
            let sent = self.outcomes(number, range.first..=range.last, 0, 0);
            let commit = last.commit_with(number, sent.ended, &[], &sent.effects);
            prop_assert_eq!(commit.await, Commit::Done);
            number += 1;
        }
        self.check(&Step::Reclaim).await?;

        let failures = last.failures().await.into_iter();
        let mut records: Vec<Vec<u8>> = failures.map(|failure| failure.record).collect();
        records.append(&mut self.drained);
        let records: Vec<FailedMessage> = records
            .iter()
            .map(|record| record::decode(record))
            .collect();
        if records.iter().any(|it| it.reason.contains("worker died")) {
            self.seen.insert("poison");
        }
        let app = self.fleet.app("done");
        let done: Vec<u64> = self.fleet.raw(&["LRANGE", &app, "0", "-1"]).await;
        let failed = records.iter().map(|it| it.seq).filter(|seq| *seq > 0);
        let failed: Vec<u64> = failed.collect();
        let census = last.store.census().await.unwrap();
        prop_assert_eq!(
            (census.done, census.failed),
            (done.len() as u64, failed.len() as u64)
        );
        prop_assert_eq!(census.foreign, self.vandalized);
        let mut ended: Vec<u64> = done.into_iter().chain(failed).collect();
        ended.sort_unstable();
        let all: Vec<u64> = (1..=census.published).collect();
        prop_assert_eq!(ended, all);
        let left = self
            .fleet
            .only("queue packs left claims deadlines delayed notes");
        prop_assert_eq!(left.await, [""; 0]);
        Ok(())
    }
}
