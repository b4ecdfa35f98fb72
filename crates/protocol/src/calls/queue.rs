//! The calls that carry a message: seal, publish, claim, extend, commit, give back.

use std::time::Duration;

use super::{Store, decode};
use crate::encoding::effects::Effects;
use crate::encoding::pack::{PACK_MESSAGES, Range};
use crate::{Cursor, Digest, Error, Setting, scripts};

/// A message with which so many workers died goes to errors instead of killing another worker.
const POISON_DEATHS: u64 = 3;

/// One lane of a worker. It holds at most one claim at a time; its claims are numbered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    name: String,
}

impl Slot {
    /// The slot of a node's lane.
    pub fn new(node: &str, lane: impl std::fmt::Display) -> Self {
        Self {
            name: format!("{node}:{lane}"),
        }
    }

    /// `node:lane`, its field in `claims`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The answer to a seal.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seal {
    /// From here on only this generator publishes.
    Sealed {
        /// The fleet's last sequence number.
        last: u64,
        /// Where the schedule stands; none if Redis has something else there.
        cursor: Option<Cursor>,
    },
    /// A newer generator, or another of the same epoch, sealed before.
    Fenced {
        /// That generator.
        node: String,
        /// Its epoch.
        epoch: u64,
    },
}

/// Who may publish, and how far the fleet has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The generator that sealed last; empty before the first.
    pub node: String,
    /// Its epoch.
    pub epoch: u64,
    /// The fleet's last sequence number.
    pub last: u64,
}

/// What to publish.
#[derive(Debug, Clone, Copy)]
pub struct PublishCall<'a> {
    /// Epoch of the lease under which it is published.
    pub epoch: u64,
    /// Sequence number of the first message.
    pub first: u64,
    /// How many messages the pack has.
    pub count: u64,
    /// Where the schedule stands afterwards.
    pub cursor: Cursor,
    /// Backpressure: max messages that may wait or be claimed.
    pub max_pending: u64,
    /// Digest of its texts, if the fleet keeps a ledger.
    pub digest: Option<Digest>,
    /// The pack.
    pub pack: &'a [u8],
}

/// The answer to a publish.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publish {
    /// Written.
    Ok,
    /// Nothing written: the fleet has these numbers. An earlier try of this very call wrote
    /// them, if there was one and if the caller sent the fleet's last number.
    Already {
        /// The fleet's last sequence number.
        last: u64,
    },
    /// Nothing written: the fleet's last number is another.
    Gap {
        /// The fleet's last sequence number.
        last: u64,
    },
    /// Nothing written: another node is the generator.
    Fenced {
        /// That node.
        node: String,
        /// Its epoch.
        epoch: u64,
    },
    /// Nothing written: too many messages have not ended.
    Full {
        /// How many.
        open: u64,
    },
}

/// What to claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimCall<'a> {
    /// The lane that claims.
    pub slot: &'a Slot,
    /// The number of the claim; grows per slot.
    pub number: u64,
    /// Max messages wanted.
    pub want: u64,
    /// How long the claim holds.
    pub ttl: Duration,
}

/// The pack of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimedPack {
    /// It came along: it is small, or the claim takes all of it.
    Sent(Vec<u8>),
    /// It is large and the claim takes a part: a node reads it once for all its lanes.
    Kept {
        /// The name of the data it is part of. Numbers begin anew when all data is lost; then
        /// this is another.
        born: String,
    },
}

/// The answer to a claim.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// These messages are this slot's until the deadline.
    Claimed {
        /// Which.
        range: Range,
        /// The pack they are in, or what it is kept under: [`Store::pack`] reads it.
        pack: ClaimedPack,
    },
    /// Nothing waits.
    Empty,
    /// This claim's number was committed or given back before.
    Stale,
    /// The slot still holds the claim of that number.
    Held {
        /// The number.
        number: u64,
    },
}

/// Whether a claim is still this slot's.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extend {
    /// It is, with a new deadline.
    Held,
    /// It is not.
    Lost,
}

/// What to commit: how messages `first..=last` ended.
#[derive(Debug, Clone, Copy)]
pub struct CommitCall<'a> {
    /// The first message of the claim that has not ended.
    pub first: u64,
    /// The last message that ends now.
    pub last: u64,
    /// Error records of those that failed.
    pub failed: &'a [Vec<u8>],
    /// What the handlers of the others staged.
    pub effects: &'a Effects,
    /// Max error records that the store may keep.
    pub max_errors: u64,
    /// Digest of the texts, if the fleet keeps a ledger.
    pub digest: Option<Digest>,
}

/// The answer to a commit.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// The messages have ended.
    Done,
    /// An earlier try of this very call ended them.
    Already,
    /// The claim is no longer this slot's: nothing written.
    Lost,
    /// The errors store has no room: nothing written.
    Full {
        /// How many records it keeps.
        records: u64,
    },
    /// An effect would fail: nothing written.
    Refused {
        /// Why.
        reason: String,
    },
}

/// The answer to a give-back.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveBack {
    /// What the claim held is in the queue again.
    Ok,
    /// The slot holds no such claim (any more).
    Lost,
}

/// A digest as an argument; empty when there is none.
fn words(digest: Option<Digest>) -> String {
    digest.map(|digest| digest.to_string()).unwrap_or_default()
}

impl Store {
    /// Raises the fence: Redis refuses what an older generator publishes from here on.
    pub async fn seal(&self, epoch: u64) -> Result<Seal, Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::SEAL,
                &[&keys.fence, &keys.queue, &keys.bell],
                &[
                    self.node.as_bytes(),
                    epoch.to_string().as_bytes(),
                    crate::new_name().as_bytes(),
                ],
            )
            .await?;
        decode::seal(&answer)
    }

    /// The fence as it is now; only reads.
    pub async fn fence(&self) -> Result<Fence, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.fence);
        command.arg(&["node", "epoch", "last"]);
        decode::fence(&self.link.call(&command).await?)
    }

    /// Publishes one pack, or nothing.
    pub async fn publish(&self, what: PublishCall<'_>) -> Result<Publish, Error> {
        if what.count > PACK_MESSAGES {
            // The scripts would take it for something that is not ours.
            let count = what.count;
            let problem = format!("a pack has at most {PACK_MESSAGES} messages, not {count}");
            return Err(Error::setting(Setting::PackSize, problem));
        }
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::PUBLISH,
                &[
                    &keys.fence,
                    &keys.queue,
                    &keys.packs,
                    &keys.stats,
                    &keys.bell,
                    &keys.ledger,
                ],
                &[
                    self.node.as_bytes(),
                    what.epoch.to_string().as_bytes(),
                    what.first.to_string().as_bytes(),
                    (what.first + what.count - 1).to_string().as_bytes(),
                    what.count.to_string().as_bytes(),
                    what.cursor.to_string().as_bytes(),
                    what.max_pending.to_string().as_bytes(),
                    what.pack,
                    words(what.digest).as_bytes(),
                ],
            )
            .await?;
        decode::publish(&answer)
    }

    /// Claims at most `want` messages for a slot.
    pub async fn claim(&self, call: ClaimCall<'_>) -> Result<Claim, Error> {
        let (keys, args) = self.claim_words(call);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        decode::claim(&self.eval(&scripts::CLAIM, &keys, &args).await?)
    }

    /// Reads the pack that begins with message `first`; none if it is gone, or if the data is
    /// no longer the one that is called `born`.
    pub async fn pack(&self, born: &str, first: u64) -> Result<Option<Vec<u8>>, Error> {
        let field = |key: &str, field: &str| {
            let mut command = redis::cmd("HGET");
            command.arg(key).arg(field);
            command
        };
        let questions = [
            field(&self.keys.fence, "born"),
            field(&self.keys.packs, &first.to_string()),
        ];
        decode::pack(born, self.ask(&questions).await?)
    }

    pub(super) fn claim_words(&self, call: ClaimCall<'_>) -> ([&[u8]; 12], [String; 7]) {
        let keys = &self.keys;
        let names = [
            &keys.queue,
            &keys.packs,
            &keys.left,
            &keys.claims,
            &keys.deadlines,
            &keys.workers,
            &keys.errors,
            &keys.stats,
            &keys.bell,
            &keys.ledger,
            &keys.fence,
            &keys.errors_ids,
        ];
        let args = [
            call.slot.name.clone(),
            call.number.to_string(),
            self.link.run_id(),
            call.want.to_string(),
            call.ttl.as_millis().to_string(),
            POISON_DEATHS.to_string(),
            keys.presence.clone(),
        ];
        (names.map(|key| key.as_bytes()), args)
    }

    /// Moves the deadlines of claims; one answer per claim.
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

    /// Ends the first messages of a claim: outcomes, counters and effects in one step.
    pub async fn commit(
        &self,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
    ) -> Result<Commit, Error> {
        let command = |verb: &str, text: &str| self.commit_words(verb, text, slot, claim, call);
        let (script, loads) = (&scripts::COMMIT, self.loads());
        let answer = self.link.call(&command("EVALSHA", &script.sha)).await;
        decode::commit(&self.insist(script, loads, answer, command).await?)
    }

    /// Ends messages and claims the next in one round trip. If the server has forgotten the
    /// script of the commit, the claim overtakes it.
    pub async fn commit_and_claim(
        &self,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
        next: ClaimCall<'_>,
    ) -> Result<(Result<Commit, Error>, Result<Claim, Error>), Error> {
        let end = |verb: &str, text: &str| self.commit_words(verb, text, slot, claim, call);
        let (keys, args) = self.claim_words(next);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let begin = |verb: &str, text: &str| super::command(verb, text, &keys, &args);
        let loads = self.loads();
        let [commit, claim] = self
            .link
            .call_both([
                end("EVALSHA", &scripts::COMMIT.sha),
                begin("EVALSHA", &scripts::CLAIM.sha),
            ])
            .await?;
        let commit = self.insist(&scripts::COMMIT, loads, commit, end).await;
        let claim = self.insist(&scripts::CLAIM, loads, claim, begin).await;
        Ok((
            commit.and_then(|answer| decode::commit(&answer)),
            claim.and_then(|answer| decode::claim(&answer)),
        ))
    }

    fn commit_words(
        &self,
        verb: &str,
        text: &str,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
    ) -> redis::Cmd {
        let keys = &self.keys;
        let head = [
            slot.name.clone(),
            claim.to_string(),
            call.first.to_string(),
            call.last.to_string(),
            call.max_errors.to_string(),
            words(call.digest),
            call.failed.len().to_string(),
        ];
        let effects = &call.effects.staged;
        let count = effects.len().to_string();
        let sizes: Vec<String> = effects
            .iter()
            .map(|effect| effect.args.len().to_string())
            .collect();
        let mut args: Vec<&[u8]> = head.iter().map(String::as_bytes).collect();
        args.extend(call.failed.iter().map(Vec::as_slice));
        args.push(count.as_bytes());
        for (effect, size) in effects.iter().zip(&sizes) {
            args.push(effect.verb.as_bytes());
            args.push(size.as_bytes());
            args.extend(effect.args.iter().map(Vec::as_slice));
        }
        let mut names: Vec<&[u8]> = [
            &keys.claims,
            &keys.deadlines,
            &keys.packs,
            &keys.left,
            &keys.workers,
            &keys.stats,
            &keys.errors,
            &keys.ledger,
            &keys.errors_ids,
        ]
        .map(|key| key.as_bytes())
        .to_vec();
        names.extend(effects.iter().map(|effect| effect.key.as_slice()));
        super::command(verb, text, &names, &args)
    }

    /// Returns what a claim still holds, at once and without blame.
    pub async fn give_back(&self, slot: &Slot, claim: u64) -> Result<GiveBack, Error> {
        let answer = self
            .eval(
                &scripts::GIVE_BACK,
                &self.return_keys(),
                &[slot.name.as_bytes(), claim.to_string().as_bytes()],
            )
            .await?;
        decode::give_back(&answer)
    }

    pub(super) fn return_keys(&self) -> [&[u8]; 7] {
        let keys = &self.keys;
        [
            &keys.queue,
            &keys.claims,
            &keys.deadlines,
            &keys.workers,
            &keys.bell,
            &keys.errors_held,
            &keys.errors_ids,
        ]
        .map(|key| key.as_bytes())
    }
}
