//! The life of a worker's claim: claim, extend, give back. Commits are in `commit`.

use std::time::Duration;

use super::{Store, decode};
use crate::encoding::note::Note;
use crate::encoding::pack::Range;
use crate::{Error, scripts};

/// After so many deaths of its workers a message fails.
const POISON_DEATHS: u64 = 3;

/// The part of a node that gets messages in the step that publishes them; the script knows it, too.
const HANDED: &str = "handed";

/// The name under which a part of a node claims: `node:part`. A slot has at most one claim at a
/// time, and numbers its claims.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    name: String,
}

impl Slot {
    /// The slot of a part of a node: the number of a worker's lane, or a word for a part that
    /// claims failed messages (`errors`, `take1`, `settle1`).
    pub fn new(node: &str, part: impl std::fmt::Display) -> Self {
        Self {
            name: format!("{node}:{part}"),
        }
    }

    /// The slot in which a node gets messages in the step that publishes them.
    pub fn handed(node: &str) -> Self {
        Self::new(node, HANDED)
    }

    fn node(&self) -> &str {
        self.name.split_once(':').map_or("", |(node, _)| node)
    }

    /// `node:part`, the slot's field in `claims`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What to claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimCall<'a> {
    /// The slot of the lane that claims.
    pub slot: &'a Slot,
    /// The number of the claim. Each claim of a slot has a higher one.
    pub number: u64,
    /// Max messages.
    pub want: u64,
    /// When the claim expires, from now on.
    pub ttl: Duration,
    /// Whether the lane holds no other claim. Else it gets no message that a worker may have died
    /// with.
    pub alone: bool,
}

/// The pack of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedPack {
    /// The answer has it: it is small.
    Sent(Vec<u8>),
    /// It is large, and the claim takes all of it: the lane reads it.
    Whole,
    /// It is large, and the claim takes a part: a node reads it once for all its lanes.
    Part {
        /// The name of the data that the pack belongs to. When the server loses all data, numbers
        /// begin anew under another name.
        born: String,
    },
}

impl ClaimedPack {
    /// Reads what scripts say: `born` if the claim takes a part of a large pack, the bytes if the pack
    /// comes along.
    pub(super) fn read(born: &str, pack: &[u8]) -> Self {
        match (pack, born) {
            ([], "") => Self::Whole,
            ([], born) => Self::Part {
                born: born.to_owned(),
            },
            (pack, _) => Self::Sent(pack.to_vec()),
        }
    }
}

/// The answer to a claim.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This slot has claimed these messages until the deadline.
    Claimed {
        /// The messages.
        range: Range,
        /// Their pack, or how [`Store::pack`] finds it.
        pack: ClaimedPack,
    },
    /// No message waits that this call may claim.
    Empty,
    /// An operator has paused the workers.
    Paused,
    /// This claim's number was committed or given back before.
    Stale,
    /// The slot still has another claim.
    Held {
        /// The number of that claim.
        number: u64,
    },
}

/// The answer to an extend, for one claim.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extend {
    /// The slot still has the claim; its deadline is extended.
    Held,
    /// The slot does not have the claim any more.
    Lost,
}

/// The answer to a give-back.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveBack {
    /// What was left of the claim is free again.
    Ok,
    /// The slot does not have the claim any more.
    Lost,
}

impl Store {
    /// Claims messages for a slot.
    pub async fn claim(&self, call: ClaimCall<'_>) -> Result<Claim, Error> {
        self.claim_with(call, None).await
    }

    /// Claims messages for a lane that has slept. So many other lanes of its node wait to sleep.
    pub async fn claim_awake(&self, call: ClaimCall<'_>, sleepers: usize) -> Result<Claim, Error> {
        self.claim_with(call, Some(sleepers)).await
    }

    async fn claim_with(
        &self,
        call: ClaimCall<'_>,
        sleepers: Option<usize>,
    ) -> Result<Claim, Error> {
        let (keys, args) = self.claim_words(call, sleepers);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        decode::claim(&self.eval(&scripts::CLAIM, &keys, &args).await?)
    }

    /// Reads the pack of a claim, which begins with message `first`; none if it is gone. While the
    /// claim holds, it is the pack that was claimed. After that it may be gone, or another one if
    /// Redis lost data; then the commit is lost.
    pub async fn pack(&self, first: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.pack_key(first));
        decode::pack(self.link.call(&command).await)
    }

    /// Keys and arguments of a claim. `sleepers` says for a lane that sleeps before it claims how
    /// many other lanes of this node wait to sleep.
    pub(super) fn claim_words(
        &self,
        call: ClaimCall<'_>,
        sleepers: Option<usize>,
    ) -> ([&[u8]; 13], [String; 10]) {
        let keys = &self.keys;
        let names = [
            &keys.queue,
            &keys.pack,
            &keys.left,
            &keys.claims,
            &keys.deadlines,
            &keys.workers,
            &keys.errors,
            &keys.stats,
            &keys.idle,
            &keys.ledger,
            &keys.fence,
            &keys.errors_ids,
            &keys.notes,
        ];
        let args = [
            call.slot.name.clone(),
            call.number.to_string(),
            self.link.run_id(),
            call.want.to_string(),
            call.ttl.as_millis().to_string(),
            POISON_DEATHS.to_string(),
            keys.presence.clone(),
            u8::from(call.alone).to_string(),
            sleepers.map_or_else(String::new, |count| count.to_string()),
            self.sleeper(call.slot.node()),
        ];
        (names.map(|key| key.as_bytes()), args)
    }

    /// Extends the deadlines of claims. Returns one answer per claim.
    pub async fn extend(
        &self,
        claims: &[(Slot, u64)],
        ttl: Duration,
    ) -> Result<Vec<Extend>, Error> {
        let mut args = vec![ttl.as_millis().to_string()];
        for (slot, claim) in claims {
            args.push(slot.name.clone());
            args.push(claim.to_string());
        }
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let answer = self
            .eval(
                &scripts::EXTEND,
                &[&self.keys.claims, &self.keys.deadlines],
                &args,
            )
            .await?;
        decode::extend(&answer)
    }

    /// Returns what is left of a claim. It does not count as a death of the worker.
    pub async fn give_back(&self, slot: &Slot, claim: u64) -> Result<GiveBack, Error> {
        self.give_back_part(slot, claim, "", "front").await
    }

    /// Returns what is left of a claim to the end of the queue: other messages go before it.
    pub async fn give_back_last(&self, slot: &Slot, claim: u64) -> Result<GiveBack, Error> {
        self.give_back_part(slot, claim, "", "end").await
    }

    /// Returns the messages of a claim behind `keep`, which is one of them.
    pub async fn give_back_after(
        &self,
        slot: &Slot,
        claim: u64,
        keep: u64,
    ) -> Result<GiveBack, Error> {
        let keep = keep.to_string();
        self.give_back_part(slot, claim, &keep, "front").await
    }

    async fn give_back_part(
        &self,
        slot: &Slot,
        claim: u64,
        keep: &str,
        place: &str,
    ) -> Result<GiveBack, Error> {
        let answer = self
            .eval(
                &scripts::GIVE_BACK,
                &self.return_keys(),
                &[
                    slot.name.as_bytes(),
                    claim.to_string().as_bytes(),
                    self.keys.presence.as_bytes(),
                    keep.as_bytes(),
                    place.as_bytes(),
                ],
            )
            .await?;
        decode::give_back(&answer)
    }

    /// The note of a message that was tried before; none if it has none.
    pub async fn note(&self, seq: u64) -> Result<Option<Note>, Error> {
        let mut command = redis::cmd("HGET");
        let key = &self.keys.notes;
        command.arg(key).arg(seq);
        let answer = self.link.call(&command).await;
        let answer = answer.map_err(|error| match error {
            // Redis does not say which key has the wrong type.
            Error::Refused(problem) => Error::Refused(format!("{key}: {problem}")),
            error => error,
        });
        decode::note(&answer?)
    }

    pub(super) fn return_keys(&self) -> [&[u8]; 7] {
        let keys = &self.keys;
        [
            &keys.queue,
            &keys.claims,
            &keys.deadlines,
            &keys.workers,
            &keys.idle,
            &keys.errors_held,
            &keys.errors_ids,
        ]
        .map(|key| key.as_bytes())
    }
}
