//! One lane of a worker, with short calls.

use std::ops::RangeInclusive;
use std::sync::LazyLock;
use std::time::Duration;

use baton::Effects;
use baton_protocol::{
    Claim, ClaimCall, ClaimedPack, Commit, CommitCall, ErrorsClaim, Extend, Failure, GiveBack,
    Pack, Range, Slot, Store, Wanted, record,
};

use super::LONG;

/// No effects.
pub(crate) static NO_EFFECTS: LazyLock<Effects> = LazyLock::new(Effects::default);

/// A worker's store and its slot.
pub(crate) struct Lane {
    pub(crate) store: Store,
    pub(crate) slot: Slot,
}

impl Lane {
    pub(crate) fn new(store: Store) -> Self {
        let slot = Slot::new(store.node(), 0);
        Self { store, slot }
    }

    /// Another lane of the same node.
    pub(crate) fn sibling(&self, lane: u64) -> Self {
        Self {
            store: self.store.clone(),
            slot: Slot::new(self.store.node(), lane),
        }
    }

    pub(crate) async fn claim(&self, number: u64, want: u64) -> Claim {
        self.claim_for(number, want, LONG).await
    }

    pub(crate) async fn claim_for(&self, number: u64, want: u64, ttl: Duration) -> Claim {
        self.claim_with(number, want, ttl, true).await
    }

    /// Claims although the lane may hold another claim.
    pub(crate) async fn claim_beside(&self, number: u64, want: u64) -> Claim {
        self.claim_with(number, want, LONG, false).await
    }

    async fn claim_with(&self, number: u64, want: u64, ttl: Duration, alone: bool) -> Claim {
        let claim = self
            .store
            .claim(ClaimCall {
                slot: &self.slot,
                number,
                want,
                ttl,
                alone,
            })
            .await;
        claim.unwrap()
    }

    /// Claims, which must succeed, and returns the texts: `m1 m2`, or `m3 (2)` for a message that was
    /// reclaimed twice.
    pub(crate) async fn take(&self, number: u64, want: u64) -> String {
        self.taken(&self.claim(number, want).await).await
    }

    /// Like [`Lane::take`], with a deadline that has passed when it returns.
    pub(crate) async fn take_and_stall(&self, number: u64, want: u64) -> String {
        self.taken(&self.claim_for(number, want, super::EXPIRED).await)
            .await
    }

    /// Commits messages that all ended well.
    pub(crate) async fn commit(&self, number: u64, ended: RangeInclusive<u64>) -> Commit {
        self.commit_failed(number, ended, &[]).await
    }

    /// Commits messages, some of which failed.
    pub(crate) async fn commit_failed(
        &self,
        number: u64,
        ended: RangeInclusive<u64>,
        failed: &[Vec<u8>],
    ) -> Commit {
        self.commit_with(number, ended, failed, &NO_EFFECTS).await
    }

    /// Commits messages, some of which failed or staged effects.
    pub(crate) async fn commit_with(
        &self,
        number: u64,
        ended: RangeInclusive<u64>,
        failed: &[Vec<u8>],
        effects: &Effects,
    ) -> Commit {
        let outcomes = CommitCall {
            effects,
            ..commit_call(ended, failed)
        };
        self.commit_outcomes(number, outcomes).await
    }

    pub(crate) async fn commit_outcomes(&self, number: u64, outcomes: CommitCall<'_>) -> Commit {
        let commit = self.store.commit(&self.slot, number, outcomes).await;
        commit.unwrap()
    }

    /// Claims the oldest records, of about so many bytes.
    pub(crate) async fn drain(&self, number: u64, max: u64, bytes: u64) -> ErrorsClaim {
        self.drain_for(number, max, bytes, LONG).await
    }

    /// Like [`Lane::drain`], with this time to live.
    pub(crate) async fn drain_for(
        &self,
        number: u64,
        max: u64,
        bytes: u64,
        ttl: Duration,
    ) -> ErrorsClaim {
        let last = u64::from(u32::MAX);
        let wanted = Wanted::Oldest { max, bytes, last };
        let claim = self.store.errors_claim(&self.slot, number, wanted, ttl);
        claim.await.unwrap()
    }

    /// All failed messages that no drain holds, the oldest first.
    pub(crate) async fn failures(&self) -> Vec<Failure> {
        let (mut failures, mut after) = (Vec::new(), Some(0));
        while let Some(id) = after {
            let page = self.store.errors_after(id, 100).await.unwrap();
            failures.extend(page.failures);
            after = page.next;
        }
        failures
    }

    pub(crate) async fn extend(&self, number: u64) -> Extend {
        let claims = [(self.slot.clone(), number)];
        let extended = self.store.extend(&claims, LONG).await.unwrap();
        assert_eq!(extended.len(), 1);
        extended[0]
    }

    pub(crate) async fn give_back(&self, number: u64) -> GiveBack {
        self.store.give_back(&self.slot, number).await.unwrap()
    }

    /// The pack of a claim, read if it was not sent.
    pub(crate) async fn pack_of(&self, range: &Range, pack: &ClaimedPack) -> Vec<u8> {
        match pack {
            ClaimedPack::Sent(pack) => pack.clone(),
            ClaimedPack::Whole | ClaimedPack::Part { .. } => {
                self.store.pack(range.pack).await.unwrap().unwrap()
            }
        }
    }

    /// The texts of a claim, and how often they came back.
    async fn taken(&self, claim: &Claim) -> String {
        let Claim::Claimed { range, pack } = claim else {
            panic!("nothing was claimed: {claim:?}");
        };
        let pack = self.pack_of(range, pack).await;
        let pack = Pack::parse(&pack).unwrap();
        let texts: Vec<String> = (range.first..=range.last)
            .map(|seq| text_of(range, &pack, seq).escape_ascii().to_string())
            .collect();
        let returns = match range.returns {
            0 => String::new(),
            returns => format!(" ({returns})"),
        };
        texts.join(" ") + &returns
    }
}

/// The commit of messages, some of which failed, without effects and with room for ten records.
pub(crate) fn commit_call(ended: RangeInclusive<u64>, failed: &[Vec<u8>]) -> CommitCall<'_> {
    CommitCall {
        delayed: &[],
        first: *ended.start(),
        last: *ended.end(),
        failed,
        effects: &NO_EFFECTS,
        max_errors: 10,
        digest: None,
    }
}

/// The text of one message of a range.
pub(crate) fn text_of<'a>(range: &Range, pack: &Pack<'a>, seq: u64) -> &'a [u8] {
    assert_eq!(pack.texts.len() as u64, range.count);
    pack.texts[(seq - range.pack) as usize]
}

/// The record of a message that its handler rejected.
pub(crate) fn failed(seq: u64, text: impl AsRef<[u8]>) -> Vec<u8> {
    record::encode(&record::failed_once(seq, 5, "w", "bad", text))
}
