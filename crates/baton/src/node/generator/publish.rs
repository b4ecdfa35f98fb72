//! What Redis answers to a publish, and what the generator does then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_protocol::{Publish, PublishCall, crash};

use tokio::time::Instant;

use super::parking::Why;
use super::partition_reign::{PartitionReign, Turn};
use super::{End, warned_lately};
use crate::node::outbox::{Outbox, Prepared};
use crate::node::partition::Partition;
use crate::node::warning::Warning;
use crate::{Error, Event, Part};

/// Pauses of a generator whose queue is full: the first, and the longest.
pub(super) const FULL_PAUSE: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_millis(50));

/// How long a paused generator waits before it asks again.
const PAUSED_POLL: Duration = Duration::from_millis(100);

/// Why Redis did not accept a pack.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Another generator has sealed.
    Fenced { node: String, epoch: u64 },
    /// The fleet's last number is lower than the one before the pack. Before it was sent, Redis had
    /// confirmed numbers up to `confirmed`.
    Gap { last: u64, confirmed: u64 },
    /// The fleet's last number is one that this generator did not write.
    Foreign { last: u64 },
    /// An operator has paused the generator.
    Paused,
    /// Too many messages have not ended.
    Full { open: u64 },
    /// Redis no longer has the staged pack.
    Missing,
    /// There was no answer to read.
    Error(Error),
}

impl Trouble {
    /// Reads the answer to a publish. None if Redis has the pack.
    fn of(answer: Result<Publish, Error>, prepared: &Prepared, outbox: &Outbox) -> Option<Self> {
        Some(match answer {
            Ok(Publish::Ok { .. }) => return None,
            Ok(Publish::Already { last }) if outbox.is_there(prepared, last) => return None,
            Ok(Publish::Already { last }) => Self::Foreign { last },
            // The last number lies within this pack, whose messages come and go together.
            Ok(Publish::Gap { last }) if last >= prepared.first => Self::Foreign { last },
            Ok(Publish::Gap { last }) => Self::Gap {
                last,
                confirmed: prepared.sent_after,
            },
            Ok(Publish::Fenced { node, epoch }) => Self::Fenced { node, epoch },
            Ok(Publish::Paused) => Self::Paused,
            Ok(Publish::Full { open }) => Self::Full { open },
            Ok(Publish::Missing) => Self::Missing,
            Err(error) => Self::Error(error),
        })
    }
}

/// A pack that Redis did not accept.
pub(super) struct Refused {
    pub(super) prepared: Prepared,
    pub(super) trouble: Trouble,
}

/// Publishes a pack. Returns it with the answer, because it may have to be sent again.
pub(super) async fn send(
    partition: Arc<Partition>,
    epoch: u64,
    prepared: Prepared,
) -> (Prepared, Result<Publish, Error>) {
    if prepared.is_void {
        let (first, last) = (prepared.first, prepared.last());
        let answer = partition
            .store
            .void(epoch, first, last, partition.config.audit)
            .await;
        return (prepared, answer);
    }
    let call = PublishCall {
        epoch,
        first: prepared.first,
        count: prepared.count,
        cursor: &prepared.cursor,
        made: prepared.made,
        max_pending: partition.max_pending_each(),
        digest: prepared.digest,
        pack: &prepared.pack,
        stage: prepared.stage,
        is_staged: prepared.is_staged,
        claim_ttl: partition.config.claim_ttl,
    };
    crash::point("before-publish");
    let answer = partition.store.publish(call).await;
    (prepared, answer)
}

impl PartitionReign {
    /// Handles the answer to one pack. Returns the pack if Redis did not accept it.
    pub(super) fn on_answer(
        &mut self,
        turn: &mut Option<Turn<'_, '_>>,
        mut prepared: Prepared,
        answer: Result<Publish, Error>,
    ) -> Option<Refused> {
        self.ends(&prepared);
        if answer.is_ok() {
            self.heard();
        }
        prepared.maybe_there |= matches!(answer, Err(Error::ReplyLost(_) | Error::Unconfirmed(_)));
        let is_paused = matches!(answer, Ok(Publish::Paused));
        // Other answers do not depend on a pause.
        if is_paused || matches!(answer, Ok(Publish::Ok { .. } | Publish::Full { .. })) {
            self.partition.note_pause(Part::Generator, is_paused);
        }
        if let Ok(Publish::Ok { .. } | Publish::Full { .. }) = answer {
            let is_full = matches!(answer, Ok(Publish::Full { .. }));
            self.partition.is_full.store(is_full, Ordering::Relaxed);
        }
        if let Ok(Publish::Ok { waiting }) = answer {
            self.lead.note(waiting, Instant::now());
        }
        let stays_staged =
            is_paused || matches!(answer, Ok(Publish::Gap { .. } | Publish::Full { .. }));
        prepared.is_staged = stays_staged;
        if is_paused || matches!(answer, Ok(Publish::Full { .. })) {
            // The pack has another reason to wait. A gap is none: it may follow a pack that was refused.
            self.partition.set_publish_trouble(None);
        }
        if let Some(trouble) = Trouble::of(answer, &prepared, &self.outbox) {
            return Some(Refused { prepared, trouble });
        }
        self.full_pause = FULL_PAUSE.0;
        self.full_since = None;
        self.partition.set_publish_trouble(None);
        if !prepared.announced {
            prepared.announced = true;
            crash::point("after-publish");
            self.announce(&mut prepared);
        }
        self.partition.witness.acknowledged(prepared.last());
        if let Some(turn) = turn
            && self.outbox.is_newest(&prepared)
            && !prepared.is_void
        {
            turn.supply.accepted(&prepared.cursor, prepared.made);
        }
        self.accepted(&prepared);
        self.outbox.confirm(prepared);
        None
    }

    /// Says that Redis has a pack.
    fn announce(&self, prepared: &mut Prepared) {
        let (first, last) = (prepared.first, prepared.last());
        if prepared.is_void {
            self.partition.emit(Event::Void { first, last });
        }
        if prepared.is_void || prepared.count == 0 {
            return;
        }
        self.partition.meter.has_published(prepared.count);
        self.partition.wake_lane();
        self.partition.emit(Event::Published {
            epoch: self.epoch,
            first,
            last,
            text: prepared.text.take(),
        });
    }

    /// Makes good what went wrong, so that the generator can send the refused packs again.
    pub(super) async fn recover(
        &mut self,
        turn: &mut Option<Turn<'_, '_>>,
        trouble: Trouble,
    ) -> Result<Option<End>, Error> {
        match trouble {
            Trouble::Fenced { node, epoch } => return Ok(Some(End::Fenced { node, epoch })),
            Trouble::Paused => {
                // The queue is not stuck: no worker has to make room.
                self.full_since = None;
                tokio::time::sleep(PAUSED_POLL).await;
            }
            Trouble::Full { open } => {
                self.warn_full(open);
                if self.is_room_elsewhere()
                    && let Some(end) = self.park(turn, Why::Full).await?
                {
                    return Ok(Some(end));
                }
                let pause = self.full_pause;
                self.full_pause = (pause * 2).min(FULL_PAUSE.1);
                tokio::time::sleep(pause).await;
            }
            Trouble::Gap { last, confirmed } => {
                // Packs that overtook each other leave a gap, too, but no message is missing.
                self.partition.compare_last(confirmed, last);
                return Ok(self.close_gap(last));
            }
            // The generator sends the whole pack again.
            Trouble::Missing => {}
            Trouble::Foreign { last } => return Ok(Some(self.go_on_after(last))),
            Trouble::Error(error) if error.is_transient() => {
                if let Some(end) = self.park(turn, Why::NoAnswer).await? {
                    return Ok(Some(end));
                }
                self.pause_after(&error).await;
            }
            Trouble::Error(error) => return Err(error),
        }
        Ok(None)
    }

    /// Warns now and then that the queue is full. At full speed it often is for a moment, because the
    /// generator is faster than the workers; then it warns if none of them made room for long.
    fn warn_full(&mut self, open: u64) {
        let since = *self.full_since.get_or_insert_with(Instant::now);
        let is_scheduled = self.outbox.is_scheduled();
        let is_stuck = is_scheduled || !warned_lately(Some(since));
        if is_stuck && !warned_lately(self.full_warned) {
            self.full_warned = Some(Instant::now());
            self.partition.warn(Warning::QueueFull { open });
        }
    }

    /// Redis lost writes that it had confirmed: sends them again if they are still here, else the next
    /// reign fills their numbers.
    fn close_gap(&mut self, last: u64) -> Option<End> {
        match self.outbox.close_gap(last) {
            true => None,
            false => Some(End::Reopen),
        }
    }

    /// Another program has moved the fleet's last number: goes on after it.
    fn go_on_after(&mut self, last: u64) -> End {
        self.partition.warn(Warning::ForeignNumber {
            key: self.partition.store.keys().fence.clone(),
            found: last,
            last: self.outbox.confirmed(),
        });
        End::Reopen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An outbox after message 4, and its first pack: messages 5 and 6.
    fn sent() -> (Outbox, Prepared) {
        let mut outbox = Outbox::fill(4, b"", 0, None);
        outbox.add(Prepared {
            first: 5,
            count: 2,
            cursor: Vec::new(),
            made: None,
            is_scheduled: false,
            digest: None,
            pack: Arc::default(),
            stage: 1,
            is_staged: false,
            text: None,
            announced: false,
            maybe_there: false,
            sent_after: 0,
            is_void: false,
        });
        let prepared = outbox.pop().unwrap();
        (outbox, prepared)
    }

    #[test]
    fn a_pack_is_accepted_when_it_is_written_or_was_before() {
        let (outbox, mut prepared) = sent();
        assert!(Trouble::of(Ok(Publish::Ok { waiting: 1 }), &prepared, &outbox).is_none());
        prepared.maybe_there = true;
        let already = Ok(Publish::Already { last: 6 });
        assert!(Trouble::of(already, &prepared, &outbox).is_none());
    }

    #[test]
    fn numbers_that_this_generator_did_not_write_are_foreign() {
        let (outbox, prepared) = sent();
        for answer in [
            Publish::Already { last: 6 },
            Publish::Already { last: 9 },
            Publish::Gap { last: 5 },
        ] {
            let trouble = Trouble::of(Ok(answer), &prepared, &outbox);
            assert!(
                matches!(trouble, Some(Trouble::Foreign { .. })),
                "{trouble:?}"
            );
        }
    }

    #[test]
    fn a_last_number_below_the_pack_is_a_gap() {
        let (outbox, prepared) = sent();
        let trouble = Trouble::of(Ok(Publish::Gap { last: 3 }), &prepared, &outbox);
        assert!(
            matches!(
                trouble,
                Some(Trouble::Gap {
                    last: 3,
                    confirmed: 4
                })
            ),
            "{trouble:?}"
        );
    }

    #[test]
    fn a_fence_a_pause_a_full_queue_and_an_error_are_told_apart() {
        let (outbox, prepared) = sent();
        let trouble = |answer| Trouble::of(answer, &prepared, &outbox);
        let fenced = Publish::Fenced {
            node: "b".to_owned(),
            epoch: 2,
        };
        assert!(matches!(
            trouble(Ok(fenced)),
            Some(Trouble::Fenced { epoch: 2, .. })
        ));
        let paused = trouble(Ok(Publish::Paused));
        assert!(matches!(paused, Some(Trouble::Paused)));
        let full = Publish::Full { open: 1 };
        assert!(matches!(trouble(Ok(full)), Some(Trouble::Full { open: 1 })));
        let away = Error::Unavailable("away".to_owned());
        assert!(matches!(trouble(Err(away)), Some(Trouble::Error(_))));
    }
}
