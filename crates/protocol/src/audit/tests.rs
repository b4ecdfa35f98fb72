use super::*;
use crate::FailedMessage;

fn published(first: u64, texts: &[&str]) -> Entry {
    let mut digest = Digest::default();
    for (place, text) in (0..).zip(texts) {
        digest.add(place, text.as_bytes());
    }
    Entry::Published {
        epoch: 1,
        first,
        last: first + texts.len() as u64 - 1,
        digest,
        at_us: 1,
    }
}

/// Messages `first..` of the pack that begins with `pack` ended; `failed` of them badly.
fn ended(pack: u64, first: u64, texts: &[&str], failed: u64) -> Entry {
    let mut digest = Digest::default();
    for (seq, text) in (first..).zip(texts) {
        digest.add(seq - pack, text.as_bytes());
    }
    Entry::Ended {
        slot: "n:0".to_owned(),
        first,
        last: first + texts.len() as u64 - 1,
        failed,
        digest: Some(digest),
        at_us: 2,
    }
}

fn record(seq: u64, text: &str) -> (u64, Vec<u8>) {
    let failed = FailedMessage {
        seq,
        at_ms: 1,
        node: "n".to_owned(),
        reason: "r".to_owned(),
        attempt: 1,
        text: text.as_bytes().to_vec(),
        ..FailedMessage::default()
    };
    (seq, record::encode(&failed))
}

fn census(published: u64, done: u64, failed: u64) -> Census {
    Census {
        published,
        done,
        failed,
        ..Census::default()
    }
}

fn findings(entries: Vec<Entry>, census: Census, records: &[(u64, Vec<u8>)]) -> Vec<String> {
    let audit = compare(&Ledger { entries }, &census, records);
    audit.findings.iter().map(Finding::to_string).collect()
}

#[test]
fn a_clean_run_in_any_order_of_ends_has_no_finding() {
    let entries = vec![
        published(1, &["a", "b", "c"]),
        published(4, &["d"]),
        ended(4, 4, &["d"], 0),
        ended(1, 2, &["b", "c"], 1),
        ended(1, 1, &["a"], 0),
    ];
    let records = [record(3, "c")];
    let ledger = Ledger { entries };
    let audit = compare(&ledger, &census(4, 3, 1), &records);
    assert_eq!(
        audit,
        Audit {
            published: 4,
            done: 3,
            failed: 1,
            ..Audit::default()
        }
    );
}

#[test]
fn a_lost_message_is_named() {
    let entries = vec![published(1, &["a", "b", "c"]), ended(1, 1, &["a"], 0)];
    assert_eq!(
        findings(entries, census(3, 1, 0), &[]),
        [
            "lost: #2 to #3",
            "handled texts are not the generated ones: #1 to #3",
            "done + failed + void is counted as 1, the ledger has 3",
        ]
    );
}

#[test]
fn a_message_that_ended_twice_is_named() {
    let entries = vec![
        published(1, &["a", "b", "c"]),
        ended(1, 1, &["a", "b"], 0),
        ended(1, 2, &["b", "c"], 0),
    ];
    assert_eq!(
        findings(entries, census(3, 4, 0), &[]),
        [
            "committed more than once: #2",
            "handled texts are not the generated ones: #1 to #3",
            "done + failed + void is counted as 4, the ledger has 3",
        ]
    );
}

#[test]
fn a_message_that_was_never_published_is_named() {
    let entries = vec![
        published(1, &["a"]),
        ended(1, 1, &["a"], 0),
        ended(1, 2, &["b"], 0),
    ];
    let found = findings(entries, census(1, 2, 0), &[]);
    assert_eq!(found[0], "committed but never published: #2");
}

#[test]
fn a_hole_in_the_numbers_is_named() {
    let entries = vec![published(1, &["a"]), published(3, &["c"])];
    let found = findings(entries, census(3, 0, 0), &[]);
    assert_eq!(found[0], "published #3 where #2 was due");
}

#[test]
fn a_text_that_changed_on_its_way_is_noticed() {
    let entries = vec![published(1, &["a", "b"]), ended(1, 1, &["a", "B"], 0)];
    assert_eq!(
        findings(entries, census(2, 2, 0), &[]),
        ["handled texts are not the generated ones: #1 to #2"]
    );
}

#[test]
fn the_errors_store_must_hold_exactly_what_failed() {
    let entries = || vec![published(1, &["a", "b"]), ended(1, 1, &["a", "b"], 1)];
    let failed = || census(2, 1, 1);
    assert_eq!(
        findings(entries(), failed(), &[]),
        ["1 of #1 to #2 failed, the errors store has 0"]
    );
    assert_eq!(
        findings(entries(), failed(), &[record(1, "a"), record(1, "a")]),
        [
            "#1 is in the errors store 2 times",
            "1 of #1 to #2 failed, the errors store has 2",
        ]
    );
    assert_eq!(
        findings(entries(), failed(), &[record(1, "a"), record(7, "x")]),
        ["#7 is in the errors store 1 times"]
    );
}

#[test]
fn a_message_that_no_handler_saw_is_compared_by_its_error_record() {
    let mut dead = ended(1, 2, &["b"], 1);
    if let Entry::Ended { digest, .. } = &mut dead {
        *digest = None;
    }
    let entries = vec![published(1, &["a", "b"]), ended(1, 1, &["a"], 0), dead];
    assert_eq!(
        findings(entries.clone(), census(2, 1, 1), &[record(2, "b")]),
        Vec::<String>::new()
    );
    assert_eq!(
        findings(entries, census(2, 1, 1), &[record(2, "x")]),
        ["handled texts are not the generated ones: #1 to #2"]
    );
}

/// A message that had failed is given to the workers again.
fn retried(seq: u64) -> Entry {
    Entry::Retried { seq, at_us: 3 }
}

fn census_with(retried: u64, census: Census) -> Census {
    Census { retried, ..census }
}

/// Two messages of a pack; the second failed, was retried, and came to these further ends. A
/// retried message is alone in its pack.
fn with_retries(further: &[Entry]) -> Vec<Entry> {
    let mut entries = vec![published(1, &["a", "b"]), ended(1, 1, &["a", "b"], 1)];
    entries.push(retried(2));
    entries.extend_from_slice(further);
    entries
}

const CLEAN: [&str; 0] = [];

#[test]
fn a_message_that_was_retried_and_went_well_is_clean() {
    let entries = with_retries(&[ended(2, 2, &["b"], 0)]);
    let audit = compare(&Ledger { entries }, &census_with(1, census(2, 2, 1)), &[]);
    assert_eq!(
        audit,
        Audit {
            published: 2,
            done: 2,
            failed: 1,
            retried: 1,
            ..Audit::default()
        }
    );
}

#[test]
fn a_message_that_was_retried_and_failed_again_is_in_the_errors_store_once() {
    let entries = || with_retries(&[ended(2, 2, &["b"], 1)]);
    let counts = || census_with(1, census(2, 1, 2));
    assert_eq!(findings(entries(), counts(), &[record(2, "b")]), CLEAN);
    assert_eq!(
        findings(entries(), counts(), &[]),
        ["1 of #1 to #2 failed, the errors store has 0"]
    );
}

#[test]
fn a_message_that_was_retried_twice_ends_three_times() {
    let again = [ended(2, 2, &["b"], 1), retried(2), ended(2, 2, &["b"], 0)];
    let counts = census_with(2, census(2, 2, 2));
    assert_eq!(findings(with_retries(&again), counts, &[]), CLEAN);
}

#[test]
fn a_message_that_was_retried_and_did_not_end_is_lost() {
    assert_eq!(
        findings(with_retries(&[]), census_with(1, census(2, 1, 1)), &[]),
        [
            "lost: #2",
            "done + failed + void is counted as 2, the ledger has 3"
        ]
    );
}

#[test]
fn a_message_that_ended_more_often_than_it_was_retried_is_named() {
    let twice = [ended(2, 2, &["b"], 0), ended(2, 2, &["b"], 0)];
    let found = findings(with_retries(&twice), census_with(1, census(2, 3, 1)), &[]);
    assert_eq!(found[0], "committed more than once: #2");
}

#[test]
fn a_retried_message_that_is_still_in_the_errors_store_is_noticed() {
    let entries = with_retries(&[ended(2, 2, &["b"], 0)]);
    assert_eq!(
        findings(entries, census_with(1, census(2, 2, 1)), &[record(2, "b")]),
        ["0 of #1 to #2 failed, the errors store has 1"]
    );
}

#[test]
fn a_retry_that_nobody_counted_is_noticed() {
    let entries = with_retries(&[ended(2, 2, &["b"], 0)]);
    assert_eq!(
        findings(entries, census(2, 2, 1), &[]),
        ["retried is counted as 0, the ledger has 1"]
    );
}

#[test]
fn a_retry_of_what_had_not_failed_is_noticed() {
    let entries = vec![
        published(1, &["a", "b"]),
        ended(1, 1, &["a", "b"], 0),
        retried(2),
        ended(2, 2, &["b"], 0),
    ];
    assert_eq!(
        findings(entries, census_with(1, census(2, 3, 0)), &[]),
        ["0 of #1 to #2 failed, 1 were retried"]
    );
}

#[test]
fn a_text_that_changed_before_a_retry_is_noticed() {
    let entries = vec![
        published(1, &["a", "b"]),
        ended(1, 1, &["a", "B"], 1),
        retried(2),
        ended(2, 2, &["b"], 0),
    ];
    assert_eq!(
        findings(entries, census_with(1, census(2, 2, 1)), &[]),
        ["handled texts are not the generated ones: #1 to #2"]
    );
}

#[test]
fn a_message_that_no_handler_saw_may_be_retried() {
    let mut dead = ended(1, 2, &["b"], 1);
    if let Entry::Ended { digest, .. } = &mut dead {
        *digest = None;
    }
    let entries = vec![
        published(1, &["a", "b"]),
        ended(1, 1, &["a"], 0),
        dead,
        retried(2),
        ended(2, 2, &["b"], 0),
    ];
    let counts = census_with(1, census(2, 2, 1));
    assert_eq!(findings(entries, counts, &[]), CLEAN);
}

/// Two messages of a pack; the first attempt of the second failed, and it came to these further ends.
fn with_delay(further: &[Entry]) -> Vec<Entry> {
    let mut entries = vec![published(1, &["a", "b"]), ended(1, 1, &["a", "b"], 0)];
    entries.push(delayed(2));
    entries.extend_from_slice(further);
    entries
}

/// A message of the commit before is to be tried again.
fn delayed(seq: u64) -> Entry {
    Entry::Delayed { seq, at_us: 3 }
}

#[test]
fn a_message_that_was_delayed_twice_and_went_well_ends_once() {
    let again = [ended(2, 2, &["b"], 0), delayed(2), ended(2, 2, &["b"], 0)];
    let ledger = Ledger {
        entries: with_delay(&again),
    };
    let sound = Audit {
        published: 2,
        done: 2,
        ..Audit::default()
    };
    assert_eq!(compare(&ledger, &census(2, 2, 0), &[]), sound);
}

#[test]
fn a_message_that_was_delayed_and_failed_is_in_the_errors_store_once() {
    let entries = || with_delay(&[ended(2, 2, &["b"], 1)]);
    let counts = || census(2, 1, 1);
    assert_eq!(findings(entries(), counts(), &[record(2, "b")]), CLEAN);
    assert_eq!(
        findings(entries(), counts(), &[]),
        ["1 of #1 to #2 failed, the errors store has 0"]
    );
}

#[test]
fn a_message_that_still_waits_for_its_next_attempt_has_not_ended() {
    let waits = Census {
        delayed: 1,
        ..census(2, 1, 0)
    };
    assert_eq!(
        findings(with_delay(&[]), waits, &[]),
        [
            "lost: #2",
            "delayed is counted as 1, the ledger has 0",
            "done + failed + void is counted as 1, the ledger has 2"
        ]
    );
}

#[test]
fn a_message_that_ended_more_often_than_it_was_delayed_is_named() {
    let twice = [ended(2, 2, &["b"], 0), ended(2, 2, &["b"], 0)];
    let found = findings(with_delay(&twice), census(2, 3, 0), &[]);
    assert_eq!(found[0], "committed more than once: #2");
}
