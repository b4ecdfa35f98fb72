use std::sync::Arc;

use baton_protocol::{Key, OwnedPack, PackBuilder, Range};

use super::*;
use crate::Effects;

/// A claim on messages 11, 12 and 13 of a pack that begins with 10.
fn held() -> HeldClaim {
    let mut pack = PackBuilder::default();
    for text in ["ten", "eleven", "twelve", "thirteen"] {
        pack.push(text.as_bytes());
    }
    HeldClaim {
        slot: baton_protocol::Slot::new("n", 0),
        number: 5,
        range: Range {
            pack: 10,
            count: 4,
            first: 11,
            last: 13,
            returns: 0,
        },
        pack: Arc::new(OwnedPack::new(pack.finish(1, "0123456789", 10))),
        _turn: None,
    }
}

/// Message 11 has an effect, 12 failed, 13 has two effects.
fn outcomes() -> Outcomes {
    let mut outcomes = Outcomes::new("n", &held().range, 11);
    let mut effects = Effects::default();
    effects.set("a", "1");
    outcomes.done(effects);
    outcomes.failed(Key::given("k-12"), b"twelve", "no", "", 1);
    let mut effects = Effects::default();
    effects.set("b", "1");
    effects.set("c", "1");
    outcomes.done(effects);
    outcomes
}

fn refused() -> Result<Commit, Error> {
    Ok(Commit::Refused {
        reason: "WRONGTYPE".to_owned(),
    })
}

/// First message, last message, failures and effects of the next call.
fn part(batch: &BatchCommit<'_>) -> (u64, u64, Vec<u64>, bool) {
    let part = batch.part();
    let effects = part.has_effects();
    (part.first(), part.last(), part.failed_numbers(), effects)
}

#[test]
fn a_commit_that_took_effect_now_or_before_ends_the_batch() {
    let (held, outcomes, clock) = (held(), outcomes(), Clock::new());
    for (answer, ended) in [
        (Commit::Done, Ended::Committed),
        (Commit::Already, Ended::Committed),
        (Commit::Lost, Ended::Lost),
    ] {
        let mut batch = BatchCommit::new(&held, &outcomes);
        assert_eq!(part(&batch), (11, 13, vec![12], true));
        let next = batch.next(Ok(answer), &clock);
        assert!(
            matches!(next, Ok(Next::End(end)) if end == ended),
            "{next:?}"
        );
        assert_eq!(batch.failed(), [12]);
    }
}

#[test]
fn a_refused_effect_fails_its_message_and_not_its_neighbours() {
    let (held, outcomes, clock) = (held(), outcomes(), Clock::new());
    let mut batch = BatchCommit::new(&held, &outcomes);
    let mut next = |answer| {
        let next = batch.next(answer, &clock);
        (part(&batch), next)
    };
    let sends = |next: &Result<Next, Error>| matches!(next, Ok(Next::Send));

    let (part, step) = next(refused());
    assert_eq!(part, (11, 11, vec![], true), "one by one");
    assert!(sends(&step), "{step:?}");
    let (part, step) = next(Ok(Commit::Done));
    assert_eq!(part, (12, 12, vec![12], false), "failed before");
    assert!(sends(&step), "{step:?}");
    let (part, step) = next(Ok(Commit::Done));
    assert_eq!(part, (13, 13, vec![], true));
    assert!(sends(&step), "{step:?}");
    let (part, step) = next(refused());
    assert_eq!(part, (13, 13, vec![13], false), "its effects are dropped");
    assert!(sends(&step), "{step:?}");
    let (_, step) = next(Ok(Commit::Done));
    assert!(matches!(step, Ok(Next::End(Ended::Committed))), "{step:?}");
    assert_eq!(batch.failed(), [12, 13]);
}

#[test]
fn a_claim_that_is_lost_between_single_messages_ends_the_batch() {
    let (held, outcomes, clock) = (held(), outcomes(), Clock::new());
    let mut batch = BatchCommit::new(&held, &outcomes);
    let _ = batch.next(refused(), &clock);
    let next = batch.next(Ok(Commit::Lost), &clock);
    assert!(matches!(next, Ok(Next::End(Ended::Lost))), "{next:?}");
}

#[test]
fn single_messages_of_an_audited_fleet_have_their_own_digests() {
    let (held, mut outcomes, clock) = (held(), outcomes(), Clock::new());
    outcomes.digest = Some(Digest::default());
    let mut batch = BatchCommit::new(&held, &outcomes);
    let _ = batch.next(refused(), &clock);
    assert_eq!(batch.part().digest, Some(Digest::of(1, b"eleven")));
    let _ = batch.next(refused(), &clock);
    assert_eq!(
        batch.part().digest,
        Some(Digest::of(1, b"eleven")),
        "failed"
    );
    let _ = batch.next(Ok(Commit::Done), &clock);
    assert_eq!(batch.part().digest, Some(Digest::of(2, b"twelve")));
}

#[test]
fn an_effect_that_the_user_may_not_write_is_refused_like_any_other() {
    let (held, clock) = (held(), Clock::new());
    let denied = || Err(Error::Refused("NOPERM".to_owned()));
    let with_effects = outcomes();
    let mut batch = BatchCommit::new(&held, &with_effects);
    assert!(matches!(batch.next(denied(), &clock), Ok(Next::Send)));
    assert_eq!(part(&batch), (11, 11, vec![], true));

    let mut without = Outcomes::new("n", &held.range, 11);
    without.done(Effects::default());
    let mut batch = BatchCommit::new(&held, &without);
    let next = batch.next(denied(), &clock);
    assert!(matches!(next, Err(Error::Refused(_))), "{next:?}");
}

#[test]
fn a_full_errors_store_is_warned_of_once_and_the_same_part_is_sent_again() {
    let (held, outcomes, clock) = (held(), outcomes(), Clock::new());
    let mut batch = BatchCommit::new(&held, &outcomes);
    for first in [true, false, false] {
        let next = batch.next(Ok(Commit::Full { records: 9 }), &clock);
        assert!(
            matches!(next, Ok(Next::WaitForRoom { records: 9, warn }) if warn == first),
            "{next:?}"
        );
        assert_eq!(part(&batch), (11, 13, vec![12], true));
    }
}

#[test]
fn only_a_transient_error_is_tried_again_and_with_the_same_part() {
    let (held, outcomes, clock) = (held(), outcomes(), Clock::new());
    let mut batch = BatchCommit::new(&held, &outcomes);
    let next = batch.next(Err(Error::Unavailable("away".to_owned())), &clock);
    assert!(matches!(next, Ok(Next::Retry(_))), "{next:?}");
    let cut = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    let next = batch.next(Err(Error::ReplyLost(cut.into())), &clock);
    assert!(matches!(next, Ok(Next::Retry(_))), "{next:?}");
    assert_eq!(part(&batch), (11, 13, vec![12], true));
    let next = batch.next(Err(Error::ReadOnlyReplica), &clock);
    assert!(matches!(next, Err(Error::ReadOnlyReplica)), "{next:?}");
}

#[test]
fn a_claim_that_overtook_its_commit_is_of_no_use() {
    let done = Ok(Commit::Done);
    assert_eq!(usable(Ok(Claim::Empty), &done, 5), Some(Claim::Empty));
    let held = |number| Ok(Claim::Held { number });
    assert_eq!(usable(held(5), &done, 5), None, "the script was forgotten");
    let other = Some(Claim::Held { number: 4 });
    assert_eq!(usable(held(4), &done, 5), other);
    for commit in [
        Ok(Commit::Full { records: 1 }),
        refused(),
        Err(Error::Unavailable("away".to_owned())),
    ] {
        assert_eq!(usable(Ok(Claim::Empty), &commit, 5), None, "{commit:?}");
    }
    let failed = Err(Error::Unavailable("away".to_owned()));
    assert_eq!(usable(failed, &done, 5), None);
}

#[test]
fn a_batch_whose_last_commit_is_unconfirmed_is_lost_only_if_parts_of_it_were_not_sent() {
    let (held, outcomes, clock) = (held(), outcomes(), Clock::new());
    let mut batch = BatchCommit::new(&held, &outcomes);
    let unconfirmed = Error::Unconfirmed("no replica".to_owned());
    let away = Error::Unavailable("away".to_owned());
    assert_eq!(batch.cut_off_by(&unconfirmed), Ended::Unconfirmed);
    assert_eq!(batch.cut_off_by(&away), Ended::Lost);
    // Redis refuses an effect: the messages go one by one.
    assert!(matches!(batch.next(refused(), &clock), Ok(Next::Send)));
    for ended in [Ended::Lost, Ended::Lost, Ended::Unconfirmed] {
        assert_eq!(batch.cut_off_by(&unconfirmed), ended);
        let _ = batch.next(Ok(Commit::Done), &clock).unwrap();
    }
}
