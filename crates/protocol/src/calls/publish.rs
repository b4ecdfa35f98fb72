//! Publishing: a new generator seals, then publishes its packs.

use super::{Store, decode, digest_arg};
use crate::bounds::MAX_PACK_MESSAGES;
use crate::{Cursor, Digest, Error, scripts};

/// The answer to a seal.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seal {
    /// The fence is raised: from now on only this generator publishes.
    Sealed {
        /// The fleet's last sequence number.
        last: u64,
        /// Where the schedule stands; none if the stored text is no cursor.
        cursor: Option<Cursor>,
    },
    /// A generator of a higher epoch, or another node of the same epoch, sealed before.
    Fenced {
        /// That generator.
        node: String,
        /// Its epoch.
        epoch: u64,
    },
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
    /// How many messages the pack has.
    pub count: u64,
    /// Where the schedule stands after this pack.
    pub cursor: Cursor,
    /// Backpressure: max messages that have not ended.
    pub max_pending: u64,
    /// Digest of its texts, if the fleet is audited.
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
    /// Nothing written: too many messages have not ended.
    Full {
        /// How many.
        open: u64,
    },
}

impl Store {
    /// Raises the fence: Redis accepts nothing more from an older generator.
    pub async fn seal(&self, epoch: u64) -> Result<Seal, Error> {
        let keys = &self.keys;
        let answer = self
            .eval(
                &scripts::SEAL,
                &[&keys.fence, &keys.queue, &keys.idle, &keys.bell],
                &[
                    self.node.as_bytes(),
                    epoch.to_string().as_bytes(),
                    crate::new_name().as_bytes(),
                    keys.presence.as_bytes(),
                ],
            )
            .await?;
        decode::seal(&answer)
    }

    /// Reads the fence.
    pub async fn fence(&self) -> Result<Fence, Error> {
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.fence);
        command.arg(&["node", "epoch", "last"]);
        decode::fence(&self.link.call(&command).await?)
    }

    /// Publishes one pack, or nothing.
    pub async fn publish(&self, call: PublishCall<'_>) -> Result<Publish, Error> {
        if call.count > MAX_PACK_MESSAGES {
            // The scripts would take its range for a foreign entry.
            let count = call.count;
            let problem = format!("a pack has at most {MAX_PACK_MESSAGES} messages, not {count}");
            return Err(Error::Refused(problem));
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
                    &keys.idle,
                    &keys.bell,
                    &keys.ledger,
                ],
                &[
                    self.node.as_bytes(),
                    call.epoch.to_string().as_bytes(),
                    call.first.to_string().as_bytes(),
                    (call.first + call.count - 1).to_string().as_bytes(),
                    call.count.to_string().as_bytes(),
                    call.cursor.to_string().as_bytes(),
                    call.max_pending.to_string().as_bytes(),
                    call.pack,
                    digest_arg(call.digest).as_bytes(),
                    keys.presence.as_bytes(),
                ],
            )
            .await?;
        decode::publish(&answer)
    }
}
