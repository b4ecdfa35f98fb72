//! Ending a claim: the lane commits what it handled, gives back the rest and claims anew.
//!
//! [`BatchCommit`] decides what follows from each answer, [`LaneSlot`] sends and waits.

use std::collections::VecDeque;
use std::time::Duration;

use baton_protocol::{Claim, Commit, Digest, Note, Outcomes, crash};

use super::LaneSlot;
use super::claim::{Answered, HeldClaim};
use crate::node::clock::Clock;
use crate::node::warning::Warning;
use crate::{Error, Event};

/// Pause before a commit is repeated for which the errors store had no room.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Redis has its outcomes.
    Committed,
    /// Redis has its outcomes, and the node stops before they are as durable as the settings ask.
    Unconfirmed,
    /// The claim is no longer the lane's: another worker has the messages, or will.
    Lost,
}

/// What a lane does after the answer to a commit.
#[derive(Debug)]
enum Next {
    /// It sends [`BatchCommit::part`].
    Send,
    /// It waits until the errors store has room, then sends the same part again. It warns if it has
    /// not done so for this part.
    WaitForRoom { records: u64, warn: bool },
    /// It waits until Redis may answer, then sends the same part again.
    Retry(Error),
    /// It is through.
    End(Ended),
}

/// The commit of one batch. That is one call, unless Redis refuses an effect: then the message of
/// that effect fails and its neighbours do not, so the lane commits the messages one by one.
struct BatchCommit<'a> {
    held: &'a HeldClaim,
    outcomes: &'a Outcomes,
    /// The messages one by one, the next in front; empty while all go together.
    singles: VecDeque<Outcomes>,
    /// Messages that failed because Redis refused their effects.
    refused: Vec<u64>,
    /// Why the first attempt of the message failed, if it was tried before: then it is alone.
    first_reason: String,
    warned: bool,
}

impl<'a> BatchCommit<'a> {
    fn new(held: &'a HeldClaim, outcomes: &'a Outcomes) -> Self {
        Self {
            held,
            outcomes,
            singles: VecDeque::new(),
            refused: Vec::new(),
            first_reason: String::new(),
            warned: false,
        }
    }

    /// What the next call commits.
    fn part(&self) -> &Outcomes {
        self.singles.front().unwrap_or(self.outcomes)
    }

    /// Decides what to do after the answer to the commit of [`BatchCommit::part`].
    fn next(&mut self, answer: Result<Commit, Error>, clock: &Clock) -> Result<Next, Error> {
        match answer {
            Ok(Commit::Done | Commit::Already) => Ok(self.part_committed()),
            Ok(Commit::Lost) => Ok(Next::End(Ended::Lost)),
            Ok(Commit::Full { records }) => Ok(Next::WaitForRoom {
                records,
                warn: !std::mem::replace(&mut self.warned, true),
            }),
            Ok(Commit::Refused { reason }) => Ok(self.part_refused(&reason, clock)),
            // Redis refuses an effect on a key that the user may not touch before the script runs.
            Err(Error::Refused(reason)) if self.part().has_effects() => {
                Ok(self.part_refused(&reason, clock))
            }
            Err(error) if error.is_transient() => Ok(Next::Retry(error)),
            Err(error) => Err(error),
        }
    }

    fn part_committed(&mut self) -> Next {
        self.warned = false;
        self.singles.pop_front();
        match self.singles.is_empty() {
            true => Next::End(Ended::Committed),
            false => Next::Send,
        }
    }

    /// Takes the messages of a refused part apart; a single one fails.
    fn part_refused(&mut self, reason: &str, clock: &Clock) -> Next {
        let part = self.part();
        if part.count() > 1 {
            self.singles = self.split();
            return Next::Send;
        }
        let seq = part.first();
        let (key, text) = (self.held.key(seq), self.held.text(seq));
        let failed = part.refused(key, text, reason, &self.first_reason, clock.now_ms());
        self.refused.push(seq);
        self.singles.pop_front();
        self.singles.push_front(failed);
        Next::Send
    }

    fn split(&self) -> VecDeque<Outcomes> {
        let mut singles = VecDeque::from(self.outcomes.singles());
        if self.outcomes.digest.is_some() {
            for single in &mut singles {
                let seq = single.first();
                let text = self.held.text(seq);
                single.digest = Some(Digest::of(seq - self.held.range.pack, text));
            }
        }
        singles
    }

    /// What became of the batch if its commit is not repeated after this error.
    fn cut_off_by(&self, error: &Error) -> Ended {
        match error {
            // Not if further messages would have followed one by one.
            Error::Unconfirmed(_) if self.singles.len() < 2 => Ended::Unconfirmed,
            _ => Ended::Lost,
        }
    }

    /// The messages that failed, in order.
    fn failed(&mut self) -> Vec<u64> {
        let mut failed = self.outcomes.failed_numbers();
        failed.append(&mut self.refused);
        failed.sort_unstable();
        failed
    }
}

/// The answer to a claim that shared its round trip with the commit of claim `number`, if it is of
/// use. The claim overtakes a commit that must be sent again; then the slot still held `number`.
fn usable(
    claim: Result<Claim, Error>,
    commit: &Result<Commit, Error>,
    number: u64,
) -> Option<Claim> {
    let ended = matches!(commit, Ok(Commit::Done | Commit::Already | Commit::Lost));
    claim
        .ok()
        .filter(|claim| ended && *claim != Claim::Held { number })
}

impl LaneSlot {
    /// Ends a claim: commits what was handled and gives back the rest. Returns the next claim, if
    /// `claims`; none if there is nothing to claim, or if the lane is interrupted.
    pub(super) async fn end(
        &mut self,
        held: &HeldClaim,
        outcomes: &Outcomes,
        claims: bool,
    ) -> Result<Option<HeldClaim>, Error> {
        let mut batch = BatchCommit::new(held, outcomes);
        let all_handled = outcomes.last() == held.range.last;
        if outcomes.count() > 0 {
            crash::point("before-commit");
        }
        if all_handled && claims && !self.partition.interrupted() {
            return self.commit_and_claim(batch).await;
        }
        let mut ended = Ended::Committed;
        if outcomes.count() > 0 {
            ended = self.commit(&mut batch, None).await?;
            self.report(batch, ended);
        }
        if !all_handled && ended != Ended::Lost {
            crash::point("before-give-back");
            match claims {
                true => self.give_back(&held.slot, held.number).await?,
                // The handler cannot work, at least for this message.
                false => self.give_back_refused(held, outcomes.last() + 1).await?,
            }
            crash::point("after-give-back");
        }
        self.partition.held_claims.remove(&held.slot);
        if !claims || self.partition.interrupted() {
            return Ok(None);
        }
        self.claim(None).await
    }

    /// Ends the messages before the one that the lane handles now.
    pub(super) async fn end_before(
        &self,
        held: &mut HeldClaim,
        outcomes: &Outcomes,
    ) -> Result<(), Error> {
        if outcomes.count() == 0 {
            return Ok(());
        }
        crash::point("before-commit");
        let mut batch = BatchCommit::new(held, outcomes);
        let ended = self.commit(&mut batch, None).await?;
        self.report(batch, ended);
        held.range.first = outcomes.last() + 1;
        Ok(())
    }

    /// Commit and next claim in one round trip.
    async fn commit_and_claim(
        &mut self,
        mut batch: BatchCommit<'_>,
    ) -> Result<Option<HeldClaim>, Error> {
        let HeldClaim { slot, number, .. } = batch.held;
        let (store, asked) = (&self.partition.store, self.asked_now());
        let call = batch.part().call(self.partition.max_errors_each());
        let sent = store.commit_and_claim(slot, *number, call, self.call());
        let (commit, claim) = match sent.await {
            Ok((commit, claim)) => {
                self.measure_answer(asked.at);
                let claim = usable(claim, &commit, *number);
                (commit, claim)
            }
            Err(error) => (Err(error), None),
        };
        let ended = self.commit(&mut batch, Some(commit)).await?;
        self.report(batch, ended);
        self.partition.held_claims.remove(slot);
        self.claim(claim.map(|claim| Answered { claim, asked }))
            .await
    }

    /// Commits a batch: sends its parts until each is answered. `answer` is the answer to a first
    /// call.
    async fn commit(
        &self,
        batch: &mut BatchCommit<'_>,
        mut answer: Option<Result<Commit, Error>>,
    ) -> Result<Ended, Error> {
        let partition = &self.partition;
        let HeldClaim { slot, number, .. } = batch.held;
        let number = *number;
        loop {
            let answered = match answer.take() {
                Some(answered) => answered,
                None => {
                    let call = batch.part().call(partition.max_errors_each());
                    partition.store.commit(slot, number, call).await
                }
            };
            if matches!(
                answered,
                Ok(Commit::Refused { .. }) | Err(Error::Refused(_))
            ) {
                batch.first_reason = self.first_reason(batch.part()).await?;
            }
            match batch.next(answered, &partition.clock)? {
                Next::Send => {}
                Next::WaitForRoom { records, warn } => {
                    if warn {
                        self.warn_full(records);
                    }
                    if partition.stopping() {
                        self.give_back(slot, number).await?;
                        return Ok(Ended::Lost);
                    }
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Next::Retry(error) => {
                    if !self.may_retry_after(&error).await {
                        return Ok(batch.cut_off_by(&error));
                    }
                }
                Next::End(ended) => return Ok(ended),
            }
        }
    }

    /// Why the first attempt of a message failed; empty if this is the first, or for several messages.
    async fn first_reason(&self, outcomes: &Outcomes) -> Result<String, Error> {
        if outcomes.attempt() == 1 || outcomes.count() > 1 {
            return Ok(String::new());
        }
        let note = self.insist(|| self.partition.store.note(outcomes.first()));
        let note = note.await?.flatten();
        Ok(note.map(|note| note.first_reason).unwrap_or_default())
    }

    fn warn_full(&self, records: u64) {
        self.partition.warn(Warning::ErrorsFull { records });
    }

    /// Counts and logs what became of a batch.
    fn report(&self, mut batch: BatchCommit<'_>, ended: Ended) {
        let (outcomes, meter) = (batch.outcomes, &self.partition.meter);
        let (first, last, count) = (outcomes.first(), outcomes.last(), outcomes.count());
        match ended {
            Ended::Committed => {
                crash::point("after-commit");
                let failed = batch.failed();
                let delayed = outcomes.delayed_numbers();
                meter.has_processed(count - delayed.len() as u64, failed.len() as u64);
                meter.has_delayed(delayed.len() as u64);
                self.report_delays(outcomes);
                if let Some(published_ms) = outcomes.published_ms {
                    let ms = self.partition.clock.now_ms().saturating_sub(published_ms);
                    meter.took(Duration::from_millis(ms), count);
                }
                self.partition.emit(Event::Processed {
                    first,
                    last,
                    failed,
                    delayed,
                    attempt: outcomes.attempt(),
                });
            }
            Ended::Unconfirmed => self.partition.emit(Event::Unconfirmed { first, last }),
            Ended::Lost => {
                meter.has_lost(count);
                self.partition.emit(Event::Lost { first, last });
            }
        }
    }

    fn report_delays(&self, outcomes: &Outcomes) {
        if self.partition.generates() && !outcomes.delays().is_empty() {
            // Perhaps no standby beats every moment, and the next beat would come too late for them.
            self.partition.beat_now.notify_one();
        }
        for delay in outcomes.delays() {
            let note = Note::decode(&delay.note).unwrap_or_default();
            self.partition.emit(Event::Delayed {
                seq: delay.seq,
                attempt: outcomes.attempt(),
                delay: delay.delay,
                reason: note.last_reason,
            });
        }
    }
}

#[cfg(test)]
mod tests;
