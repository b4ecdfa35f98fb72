//! Commits: messages of a claim end, or wait for their next attempt.

use std::borrow::Cow;
use std::time::Duration;

use redis::Value;

use super::answer::unexpected;
use super::claim::{Claim, ClaimCall, Slot};
use super::confirm::Era;
use super::{Store, decode, digest_arg};
use crate::bounds::{MAX_TTL_MS, SHORT_RECORD_BYTES, STAGED_TTL_S};
use crate::encoding::effects::{Effects, local_key};
use crate::encoding::stub;
use crate::{Digest, Error, scripts};

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

/// The records of failed messages, as a commit gets them.
struct Records<'a> {
    /// In place of each long one, its stub.
    words: Vec<Cow<'a, [u8]>>,
    /// The keys where the long ones are staged.
    staged: Vec<String>,
}

impl<'a> Records<'a> {
    /// All of them, without stubs.
    fn whole(failed: &'a [Vec<u8>]) -> Self {
        Self {
            words: failed.iter().map(|record| record.into()).collect(),
            staged: Vec::new(),
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
    /// Ends the first messages of a claim: records, counters and effects in one step. A long record is
    /// staged before, with plain commands on the same connection: its text does not pass through the script,
    /// which would copy it.
    pub async fn commit(
        &self,
        slot: &Slot,
        claim: u64,
        call: CommitCall<'_>,
    ) -> Result<Commit, Error> {
        let (loads, era) = (self.loads(), self.era());
        let (staging, records) = self.stage_records(call.failed);
        let end = self.commit_words("EVALSHA", &scripts::COMMIT.sha, slot, claim, call, &records);
        let answer = match staging.is_empty() {
            true => self.link.call(&end).await,
            false => {
                let commands = staging.into_iter().chain([end]);
                last(&mut self.link.call_all(commands).await?)?
            }
        };
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
        let commit = decode::commit(&answer.map_err(Self::name_slot)?)?;
        if commit != Some(Commit::Done) {
            self.unstage(records).await;
        }
        if let Some(commit) = commit {
            return Ok(commit);
        }
        let (loads, whole) = (self.loads(), Records::whole(call.failed));
        let end = |verb: &str, text: &str| self.commit_words(verb, text, slot, claim, call, &whole);
        let answer = self.link.call(&end("EVALSHA", &script.sha)).await;
        let answer = self.load_if_missing(script, loads, answer, end).await;
        let answer = answer.map_err(Self::name_slot)?;
        decode::commit(&answer)?.ok_or_else(|| unexpected(script.name, &answer))
    }

    /// Deletes what a commit did not take: else each repeated call of a commit that has to wait would leave
    /// another copy for a minute.
    async fn unstage(&self, records: &Records<'_>) {
        if !records.staged.is_empty() {
            let mut command = redis::cmd("DEL");
            command.arg(&records.staged);
            // If that fails, it expires.
            let _ = self.link.call(&command).await;
        }
    }

    /// The records as a commit gets them, and the commands that put the long ones into Redis.
    fn stage_records<'a>(&self, failed: &'a [Vec<u8>]) -> (Vec<redis::Cmd>, Records<'a>) {
        let (mut staging, mut records) = (Vec::new(), Records::whole(failed));
        for word in &mut records.words {
            if word.len() <= SHORT_RECORD_BYTES {
                continue;
            }
            let name = format!("{}:{}", self.node, self.new_stage());
            let stub = stub::encode(word.len(), &name);
            // A name with other characters than those of `new_name` would not be read as that of a stub.
            if stub::length(&stub).is_none() {
                continue;
            }
            let key = format!("{}{name}", self.keys.staged_record);
            let hset = |record: &[u8]| {
                let mut command = redis::Cmd::with_capacity(4, record.len() + 128);
                command.arg("HSET").arg(&key).arg("record").arg(record);
                command
            };
            let mut expire = redis::cmd("EXPIRE");
            expire.arg(&key).arg(STAGED_TTL_S);
            // The empty one goes first: a worker that dies in between leaves nothing that does not expire.
            staging.extend([hset(b""), expire, hset(word)]);
            *word = Cow::Owned(stub);
            records.staged.push(key);
        }
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
            slot.name().to_owned(),
            claim.to_string(),
            call.first.to_string(),
            call.last.to_string(),
            call.max_errors.to_string(),
            digest_arg(call.digest),
            call.failed.len().to_string(),
            call.delayed.len().to_string(),
            records.staged.len().to_string(),
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
}
