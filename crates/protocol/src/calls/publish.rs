//! Publishing: a new generator seals, then publishes its packs.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::confirm::Era;
use super::{Store, decode, digest_arg, exact};
use crate::bounds::{MAX_CURSOR_BYTES, MAX_PACK_MESSAGES, SMALL_PACK_BYTES, STAGED_TTL_S};
use crate::{Digest, Error, scripts};

/// The answer to a seal.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seal {
    /// The fence is raised: from now on only this generator publishes.
    Sealed {
        /// The fleet's last sequence number.
        last: u64,
        /// Where the source stands: what the publish of that number stored. Empty if it has none.
        cursor: Vec<u8>,
        /// The highest number that a node knows to be given: above `last` if Redis forgot messages.
        known: u64,
        /// What the fleet had made with the pack that ends with `last`, as [`PublishCall::made`] said;
        /// nothing if it said nothing.
        made: Progress,
    },
    /// A generator of a higher epoch, or another node of the same epoch, sealed before.
    Fenced {
        /// That generator.
        node: String,
        /// Its epoch.
        epoch: u64,
    },
}

/// How much a fleet has made, in all its partitions. Of two partitions, the one that knows of more packs has
/// what the source made last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Progress {
    /// Packs, also those without messages, which only store a cursor.
    pub packs: u64,
    /// Messages.
    pub messages: u64,
}

impl Progress {
    /// What it is with one more pack, of so many messages.
    #[must_use]
    pub fn plus(self, messages: u64) -> Self {
        Self {
            packs: self.packs + 1,
            messages: self.messages + messages,
        }
    }

    /// Reads what its `Display` writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (packs, messages) = text.split_once(' ')?;
        Some(Self {
            packs: exact(packs)?,
            messages: exact(messages)?,
        })
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.packs, self.messages)
    }
}

/// Which generator may publish, and the last sequence number.
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
    /// The generator's epoch.
    pub epoch: u64,
    /// Sequence number of the first message.
    pub first: u64,
    /// How many messages the pack has. Without any, the call stores only the cursor.
    pub count: u64,
    /// Where the source stands after this pack: any bytes, for a successor.
    pub cursor: &'a [u8],
    /// What the fleet has made with this pack, in all partitions; none in a fleet of one partition, where
    /// the sequence number says it.
    pub made: Option<Progress>,
    /// Backpressure: max messages that have not ended.
    pub max_pending: u64,
    /// Digest of its texts, if the fleet is audited.
    pub digest: Option<Digest>,
    /// The pack.
    pub pack: &'a [u8],
    /// The node's number of these bytes, from [`Store::new_stage`].
    pub stage: u64,
    /// Whether Redis has the pack already: an earlier attempt staged it, and its publish was
    /// refused. Then the call sends only its name.
    pub is_staged: bool,
    /// When the claim of an idle node expires, if it gets messages in this step.
    pub claim_ttl: Duration,
}

/// The answer to a publish.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Publish {
    /// Written.
    Ok {
        /// How many ranges the queue has, that of this pack included: how far the generator is ahead
        /// of the workers. 0 if the call wrote no pack, or if an idle node has all its messages.
        waiting: u64,
    },
    /// Nothing written: the fleet has these sequence numbers. An earlier attempt of this call wrote
    /// them, if there was one and if the fleet's last number is one of the caller's own.
    Already {
        /// The fleet's last sequence number.
        last: u64,
    },
    /// Nothing written: the pack does not follow the fleet's last number.
    Gap {
        /// The fleet's last sequence number.
        last: u64,
    },
    /// Nothing written: another generator has sealed.
    Fenced {
        /// That generator.
        node: String,
        /// Its epoch.
        epoch: u64,
    },
    /// Nothing written: an operator has paused the generator.
    Paused,
    /// Nothing written: too many messages have not ended.
    Full {
        /// How many.
        open: u64,
    },
    /// Nothing written: Redis does not have the pack that an earlier attempt staged.
    Missing,
}

impl Publish {
    /// Whether this very call wrote.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Ok { .. })
    }
}

impl Store {
    /// Raises the fence: Redis accepts nothing more from an older generator.
    pub async fn seal(&self, epoch: u64) -> Result<Seal, Error> {
        let (keys, era) = (&self.keys, self.era());
        let answer = self
            .eval(
                &scripts::SEAL,
                &[&keys.fence, &keys.queue, &keys.idle],
                &[
                    self.node.as_bytes(),
                    epoch.to_string().as_bytes(),
                    crate::new_name().as_bytes(),
                    keys.presence.as_bytes(),
                    self.sleeper(&self.node).as_bytes(),
                ],
            )
            .await?;
        let sealed = decode::seal(&keys.fence, &answer)?;
        if self.place.count > 1 && matches!(sealed, Seal::Sealed { .. }) {
            // A failover that forgets this seal does not forget what the generator then publishes elsewhere.
            self.confirm(era).await?;
        }
        Ok(sealed)
    }

    /// Reads the fence.
    pub async fn fence(&self) -> Result<Fence, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.fence);
        command.arg(&["node", "epoch", "last"]);
        decode::fence(&self.link.call(&command).await?)
    }

    /// Publishes one pack, or nothing. A large pack is staged first, with a plain command on the
    /// same connection: its texts do not pass through the script, which would copy them.
    pub async fn publish(&self, call: PublishCall<'_>) -> Result<Publish, Error> {
        let era = self.era();
        let answer = self.publish_once(call).await?;
        self.confirm_published(era, answer).await
    }

    /// Waits until a pack that Redis has is as durable as asked.
    async fn confirm_published(&self, era: Option<Era>, answer: Publish) -> Result<Publish, Error> {
        if matches!(answer, Publish::Ok { .. } | Publish::Already { .. }) {
            self.confirm(era).await?;
        }
        Ok(answer)
    }

    async fn publish_once(&self, call: PublishCall<'_>) -> Result<Publish, Error> {
        let count = call.count;
        if count > MAX_PACK_MESSAGES {
            // The scripts would take its range for a foreign entry.
            let problem = format!("a pack has at most {MAX_PACK_MESSAGES} messages, not {count}");
            return Err(Error::Refused(problem));
        }
        if call.cursor.len() > MAX_CURSOR_BYTES {
            let problem = format!("a cursor has at most {MAX_CURSOR_BYTES} bytes");
            return Err(Error::Refused(problem));
        }
        let publish = |verb: &str, text: &str| self.publish_words(verb, text, call);
        let (script, loads) = (&scripts::PUBLISH, self.loads());
        let evalsha = publish("EVALSHA", &script.sha);
        let needs_staging = call.pack.len() > SMALL_PACK_BYTES && !call.is_staged;
        if !needs_staging {
            // Servers write their answers in reverse: the client that was answered first gets its bytes
            // last. With a call before the publish that is the generator, and an idle worker has its
            // messages some 25 µs earlier.
            let [_, answer] = self.link.call_both([redis::cmd("TIME"), evalsha]).await?;
            let answer = self.load_if_missing(script, loads, answer, publish).await?;
            return decode::publish(script.name, &answer);
        }
        let [staged, answer] = self.link.call_both([self.stage(call), evalsha]).await?;
        let answer = self.load_if_missing(script, loads, answer, publish).await?;
        match decode::publish(script.name, &answer)? {
            Publish::Missing => {
                staged?;
                let problem = "Redis dropped a pack before it was published".to_owned();
                Err(Error::Unavailable(problem))
            }
            answer => Ok(answer),
        }
    }

    /// Declares that the numbers from `first` to `last` have no message: Redis forgot what it had
    /// accepted under them.
    pub async fn void(
        &self,
        epoch: u64,
        first: u64,
        last: u64,
        is_audited: bool,
    ) -> Result<Publish, Error> {
        let (keys, era) = (&self.keys, self.era());
        let answer = self
            .eval(
                &scripts::VOID,
                &[&keys.fence, &keys.stats, &keys.ledger],
                &[
                    self.node.as_bytes(),
                    epoch.to_string().as_bytes(),
                    first.to_string().as_bytes(),
                    last.to_string().as_bytes(),
                    if is_audited { b"1" } else { b"" },
                ],
            )
            .await?;
        let answer = decode::publish(scripts::VOID.name, &answer)?;
        self.confirm_published(era, answer).await
    }

    /// A number for the bytes of a pack. A node never gives it to other bytes.
    pub fn new_stage(&self) -> u64 {
        self.stages.fetch_add(1, Ordering::Relaxed)
    }

    /// Where a large pack waits for its publish. The node's name and number make sure that no other
    /// bytes are ever found there.
    fn staged_key(&self, stage: u64) -> String {
        format!("{}{}:{stage}", self.keys.staged, self.node)
    }

    fn stage(&self, call: PublishCall<'_>) -> redis::Cmd {
        let mut command = redis::Cmd::with_capacity(5, call.pack.len() + 128);
        command.arg("SET").arg(self.staged_key(call.stage));
        command.arg(call.pack).arg("EX").arg(STAGED_TTL_S);
        command
    }

    fn publish_words(&self, verb: &str, text: &str, call: PublishCall<'_>) -> redis::Cmd {
        let keys = &self.keys;
        let bytes = match call.pack.len() {
            ..=SMALL_PACK_BYTES => call.pack,
            _ => &[],
        };
        let names = [
            keys.fence.as_str(),
            &keys.queue,
            &keys.pack_key(call.first),
            &self.staged_key(call.stage),
            &keys.stats,
            &keys.idle,
            &keys.ledger,
            &keys.claims,
            &keys.deadlines,
        ];
        super::command(
            verb,
            text,
            &names,
            &[
                self.node.as_bytes(),
                call.epoch.to_string().as_bytes(),
                call.first.to_string().as_bytes(),
                (call.first + call.count - 1).to_string().as_bytes(),
                call.count.to_string().as_bytes(),
                call.cursor,
                call.max_pending.to_string().as_bytes(),
                bytes,
                digest_arg(call.digest).as_bytes(),
                keys.presence.as_bytes(),
                call.made
                    .map_or_else(String::new, |made| made.to_string())
                    .as_bytes(),
                call.claim_ttl.as_millis().to_string().as_bytes(),
            ],
        )
    }
}
