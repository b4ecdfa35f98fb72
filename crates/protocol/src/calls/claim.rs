//! The life of a worker's claim: claim, extend, commit, give back.

use std::borrow::Cow;
use std::time::Duration;

use redis::Value;

use super::answer::unexpected;
use super::confirm::Era;
use super::{Store, decode, digest_arg};
use crate::bounds::{MAX_TTL_MS, SHORT_RECORD_BYTES, STAGED_TTL_S};
use crate::encoding::effects::{Effects, local_key};
use crate::encoding::note::Note;
use crate::encoding::pack::Range;
use crate::encoding::stub;
use crate::{Digest, Error, scripts};

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

/// What to commit: how messages `first..=last` ended.
#[derive(Debug, Clone, Copy)]
pub struct CommitCall<'a> {
    /// The first message that ends, and the first of the claim that has not ended.
    pub first: u64,
    /// The last message that ends.
    pub last: u64,
    /// Records of the messages that failed.
    pub failed: &'a [Vec<u8>],
    /// The messages that are to be tried again, in order.
    pub delayed: &'a [Delay],
    /// Effects that the handlers of the others staged.
    pub effects: &'a Effects,
    /// Max error records that the store may keep.
    pub max_errors: u64,
    /// Digest of the texts, if the fleet is audited.
    pub digest: Option<Digest>,
}

/// A message that waits for its next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    /// The message.
    pub seq: u64,
    /// How long it waits, at most an hour.
    pub delay: Duration,
    /// Why its attempts failed, see [`crate::Note::encode`].
    pub note: Vec<u8>,
    /// A pack that has this message alone; empty if it is the first of its pack, and stays there.
    pub pack: Vec<u8>,
}

/// The answer to a commit.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// The messages have ended.
    Done,
    /// An earlier attempt of this very call ended them.
    Already,
    /// Nothing written: the slot does not have the claim any more.
    Lost,
    /// Nothing written: the errors store has no room.
    Full {
        /// How many records it has.
        records: u64,
    },
    /// Nothing written: an effect would fail.
    Refused {
        /// Why.
        reason: String,
    },
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

/// The records of failed messages, as a commit gets them.
struct Records<'a> {
    /// In place of each long one, its stub.
    words: Vec<Cow<'a, [u8]>>,
    /// How many of them are stubs.
    longs: usize,
}

impl<'a> Records<'a> {
    /// All of them, without stubs.
    fn whole(failed: &'a [Vec<u8>]) -> Self {
        Self {
            words: failed.iter().map(|record| record.into()).collect(),
            longs: 0,
        }
    }
}

/// Takes the last answer.
fn last(answers: &mut Vec<Result<Value, Error>>) -> Result<Result<Value, Error>, Error> {
    let none = || unexpected(scripts::COMMIT.name, "no answer");
    answers.pop().ok_or_else(none)
}

/// A delay as the script gets it. A longer one than an hour would look like the work of a wrong
/// clock.
fn delay_ms(delay: Duration) -> String {
    delay.as_millis().min(u128::from(MAX_TTL_MS)).to_string()
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

    /// Ends the first messages of a claim: records, counters and effects in one step. A long record goes
    /// before, with a plain command on the same connection: its text does not pass through the script, which
    /// would copy it.
    pub async fn commit(
        &self,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
    ) -> Result<Commit, Error> {
        let (loads, era) = (self.loads(), self.era());
        let (staging, records) = self.stage_records(call.failed);
        let end = self.commit_words("EVALSHA", &scripts::COMMIT.sha, slot, claim, call, &records);
        let mut answers = self.link.call_all(staging.into_iter().chain([end])).await?;
        let answer = last(&mut answers)?;
        let commit = self.committed(slot, claim, call, &records, loads, answer);
        self.confirm_commit(era, commit.await?).await
    }

    /// Reads the answer to a commit. If Redis had no room for a long record, or dropped it, this sends the
    /// commit again with all records in it: a commit needs no room.
    async fn committed(
        &self,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
        records: &Records<'_>,
        loads: u64,
        answer: Result<Value, Error>,
    ) -> Result<Commit, Error> {
        let script = &scripts::COMMIT;
        let end =
            |verb: &str, text: &str| self.commit_words(verb, text, slot, claim, call, records);
        let answer = self.load_if_missing(script, loads, answer, end).await;
        if let Some(commit) = decode::commit(&answer.map_err(Self::name_slot)?)? {
            return Ok(commit);
        }
        let (loads, whole) = (self.loads(), Records::whole(call.failed));
        let end = |verb: &str, text: &str| self.commit_words(verb, text, slot, claim, call, &whole);
        let answer = self.link.call(&end("EVALSHA", &script.sha)).await;
        let answer = self.load_if_missing(script, loads, answer, end).await;
        let answer = answer.map_err(Self::name_slot)?;
        decode::commit(&answer)?.ok_or_else(|| unexpected(script.name, &answer))
    }

    /// The records as a commit gets them, and the commands that put the long ones into Redis.
    fn stage_records<'a>(&self, failed: &'a [Vec<u8>]) -> (Vec<redis::Cmd>, Records<'a>) {
        let (mut staging, mut records) = (Vec::new(), Records::whole(failed));
        for word in &mut records.words {
            if word.len() <= SHORT_RECORD_BYTES {
                continue;
            }
            let name = format!("{}:{}", self.node, self.new_stage());
            let mut command = redis::Cmd::with_capacity(5, word.len() + 128);
            command.arg("SET");
            command.arg(format!("{}{name}", self.keys.staged_record));
            command.arg(&**word).arg("EX").arg(STAGED_TTL_S);
            staging.push(command);
            *word = Cow::Owned(stub::encode(word.len(), &name));
        }
        records.longs = staging.len();
        (staging, records)
    }

    /// Waits until messages that have ended are so as durably as asked.
    async fn confirm_commit(&self, era: Option<Era>, commit: Commit) -> Result<Commit, Error> {
        if matches!(commit, Commit::Done | Commit::Already) {
            self.confirm(era).await?;
        }
        Ok(commit)
    }

    /// In a cluster, a script changes keys of one slot only: that of the partition.
    fn name_slot(error: Error) -> Error {
        match error {
            Error::Refused(words) if words.starts_with("CROSSSLOT") => Error::Refused(
                "a key lies in another slot of the cluster than its message; write {} into its name, \
                 which stands for the hash tag of the message's partition"
                    .to_owned(),
            ),
            error => error,
        }
    }

    /// Ends messages and claims the next ones in one round trip. If the server does not have the
    /// script of the commit, the claim overtakes the commit.
    pub async fn commit_and_claim(
        &self,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
        next: ClaimCall<'_>,
    ) -> Result<(Result<Commit, Error>, Result<Claim, Error>), Error> {
        let (keys, args) = self.claim_words(next, None);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let begin = |verb: &str, text: &str| super::command(verb, text, &keys, &args);
        let (loads, era) = (self.loads(), self.era());
        let (staging, records) = self.stage_records(call.failed);
        let end = self.commit_words("EVALSHA", &scripts::COMMIT.sha, slot, claim, call, &records);
        let both = [end, begin("EVALSHA", &scripts::CLAIM.sha)];
        let mut answers = self.link.call_all(staging.into_iter().chain(both)).await?;
        let (next, ended) = (last(&mut answers)?, last(&mut answers)?);
        let commit = self.committed(slot, claim, call, &records, loads, ended);
        let commit = commit.await;
        let claim = self
            .load_if_missing(&scripts::CLAIM, loads, next, begin)
            .await;
        let claim = claim.and_then(|answer| decode::claim(&answer));
        let commit = match commit {
            Ok(commit) => self.confirm_commit(era, commit).await,
            refused => refused,
        };
        Ok((commit, claim))
    }

    fn commit_words(
        &self,
        verb: &str,
        text: &str,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
        records: &Records<'_>,
    ) -> redis::Cmd {
        let keys = &self.keys;
        let head = [
            slot.name.clone(),
            claim.to_string(),
            call.first.to_string(),
            call.last.to_string(),
            call.max_errors.to_string(),
            digest_arg(call.digest),
            call.failed.len().to_string(),
            call.delayed.len().to_string(),
            records.longs.to_string(),
        ];
        let delays: Vec<[String; 2]> = call
            .delayed
            .iter()
            .map(|delay| [delay.seq.to_string(), delay_ms(delay.delay)])
            .collect();
        let effects = &call.effects.staged;
        let count = effects.len().to_string();
        let sizes: Vec<String> = effects
            .iter()
            .map(|effect| effect.args.len().to_string())
            .collect();
        let mut args: Vec<&[u8]> = head.iter().map(String::as_bytes).collect();
        args.extend(records.words.iter().map(|word| &**word));
        for (delay, [seq, delay_ms]) in call.delayed.iter().zip(&delays) {
            args.extend([
                seq.as_bytes(),
                delay_ms.as_bytes(),
                &delay.note,
                &delay.pack,
            ]);
        }
        args.push(count.as_bytes());
        for (effect, size) in effects.iter().zip(&sizes) {
            args.push(effect.verb.as_bytes());
            args.push(size.as_bytes());
            args.extend(effect.args.iter().map(Vec::as_slice));
        }
        let effect_keys: Vec<_> = effects
            .iter()
            .map(|effect| local_key(&effect.key, keys.tag()))
            .collect();
        let mut names: Vec<&[u8]> = [
            &keys.claims,
            &keys.deadlines,
            &keys.pack,
            &keys.left,
            &keys.workers,
            &keys.stats,
            &keys.errors,
            &keys.ledger,
            &keys.errors_ids,
            &keys.delayed,
            &keys.notes,
            &keys.record,
            &keys.staged_record,
        ]
        .map(|key| key.as_bytes())
        .to_vec();
        names.extend(effect_keys.iter().map(|key| &**key));
        super::command(verb, text, &names, &args)
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
