//! A small run by hand, and everything that can be wrong with it.

use baton_protocol::Digest;

use std::time::SystemTime;

use baton_log::Line;

use super::*;
use crate::handlers::Beside;
use crate::row_check::Stored;

/// What a run left behind: three messages, the third failed and drained.
struct Case {
    entries: Vec<Entry>,
    census: Census,
    told: Vec<Told>,
    prints: Vec<Print>,
    drains: Vec<bool>,
    deaths: Vec<Instant>,
    counted: Option<u64>,
    besides: Vec<Beside>,
    stored: Option<Stored>,
    now: Instant,
}

fn digest(pack: u64, texts: &[(u64, &str)]) -> Digest {
    let mut digest = Digest::default();
    for (seq, text) in texts {
        digest.add(seq - pack, text.as_bytes());
    }
    digest
}

fn ended(node: &str, texts: &[(u64, &str)], failed: u64) -> Entry {
    Entry::Ended {
        slot: format!("{node}:0"),
        first: texts[0].0,
        last: texts[texts.len() - 1].0,
        failed,
        digest: Some(digest(1, texts)),
        at_us: 2,
    }
}

fn published(epoch: u64, first: u64, last: u64) -> LogEvent<'static> {
    LogEvent::Published {
        epoch,
        first,
        last,
        text: None,
    }
}

fn processed(first: u64, last: u64, failed: &'static [u64]) -> LogEvent<'static> {
    LogEvent::Processed {
        first,
        last,
        failed: failed.into(),
        delayed: Vec::new().into(),
        attempt: 1,
    }
}

impl Case {
    fn clean() -> Self {
        let now = Instant::now();
        let texts = [(1, "a"), (2, "b"), (3, "c")];
        let mut case = Self {
            entries: vec![
                Entry::Published {
                    epoch: 1,
                    first: 1,
                    last: 3,
                    digest: digest(1, &texts),
                    at_us: 1,
                },
                ended("n1", &texts[..1], 0),
                ended("n2", &texts[1..], 1),
            ],
            census: Census {
                published: 3,
                done: 2,
                failed: 1,
                ..Census::default()
            },
            told: Vec::new(),
            prints: Vec::new(),
            drains: Vec::new(),
            deaths: Vec::new(),
            counted: Some(2),
            besides: Vec::new(),
            stored: None,
            now,
        };
        case.tell("n0", published(1, 1, 3));
        case.tell("n1", processed(1, 1, &[]));
        case.tell("n2", processed(2, 3, &[3]));
        case.drain(true, &[(3, "c")]);
        case
    }

    fn tell(&mut self, node: &'static str, event: LogEvent<'static>) {
        self.told.push(Told {
            copy: 0,
            at: self.now,
            line: Line {
                at: SystemTime::UNIX_EPOCH,
                node: node.into(),
                partition: None,
                event,
            },
        });
    }

    /// A drain that printed these and ended well, or did not.
    fn drain(&mut self, well: bool, printed: &[(u64, &str)]) {
        for (seq, text) in printed {
            self.prints.push(Print {
                drain: self.drains.len(),
                at: self.now,
                failed: {
                    let mut made = FailedMessage::default();
                    made.seq = *seq;
                    made.at_ms = 0;
                    made.node = "n2".to_owned();
                    made.reason = "r".to_owned();
                    made.attempt = 1;
                    made.text = text.as_bytes().to_vec();
                    made
                },
            });
        }
        self.drains.push(well);
    }

    fn judge(&self) -> Judgement {
        self.judge_beside(&[])
    }

    /// Judges these partitions, too.
    fn judge_beside(&self, others: &[&Self]) -> Judgement {
        let all = [&[self], others].concat();
        let ledgers = all.iter().map(|case| Ledger {
            entries: case.entries.clone(),
        });
        let ledgers: Vec<Ledger> = ledgers.collect();
        let deaths = self.deaths.iter().copied().map(forgetful_death);
        let forgetful: Vec<_> = deaths.collect();
        let partitions = (0..).zip(all.iter().zip(&ledgers));
        let partitions = partitions.map(|(index, (case, ledger))| Evidence {
            partition: (all.len() > 1).then_some(index),
            ledger,
            census: &case.census,
            told: &case.told,
            prints: &case.prints,
            drains: &case.drains,
            failovers: None,
            forgetful: &forgetful,
        });
        judge_fleet(&FleetEvidence {
            partitions: &partitions.collect::<Vec<_>>(),
            counted: self.counted,
            besides: &self.besides,
            stored: self.stored.clone(),
            may_lose_rows: false,
        })
    }

    fn findings(&self) -> Vec<String> {
        let findings = self.judge().findings.into_iter();
        findings.map(|found| found.text).collect()
    }

    /// Lost, duplicated and phantom.
    fn wrong(&self) -> (u64, u64, u64) {
        let verdict = self.judge().verdict;
        (verdict.lost, verdict.duplicated, verdict.phantom)
    }
}

#[test]
fn a_clean_run_has_no_finding() {
    let judgement = Case::clean().judge();
    assert_eq!(judgement.findings, []);
    assert!(judgement.verdict.is_clean());
    let verdict = judgement.verdict;
    assert_eq!(
        (
            verdict.published,
            verdict.done,
            verdict.failed,
            verdict.drained
        ),
        (3, 2, 1, 1)
    );
}

#[test]
fn partitions_are_judged_each_for_itself_and_counted_together() {
    let (mut clean, mut broken) = (Case::clean(), Case::clean());
    clean.counted = Some(4);
    let judgement = clean.judge_beside(&[&Case::clean()]);
    assert_eq!(judgement.findings, []);
    let verdict = &judgement.verdict;
    assert_eq!((verdict.published, verdict.done), (6, 4));
    // The same message of another partition does not make it good.
    broken.entries.remove(1);
    let judgement = clean.judge_beside(&[&broken]);
    assert_eq!((judgement.verdict.lost, judgement.verdict.phantom), (1, 1));
    let first = &judgement.findings[0];
    assert_eq!((first.partition, first.seq), (Some(1), 1));
    assert_eq!(first.text, "partition 1: lost: #1");
}

#[test]
fn a_killed_node_may_leave_its_last_messages_untold() {
    let mut case = Case::clean();
    case.told.pop();
    assert_eq!(case.findings(), Vec::<String>::new());
}

#[test]
fn a_message_that_never_ended_is_lost() {
    let mut case = Case::clean();
    case.entries.remove(1);
    case.told.remove(1);
    assert_eq!(case.wrong(), (1, 0, 0));
    assert_eq!(case.findings()[0], "lost: #1");
}

#[test]
fn a_message_that_ended_twice_is_duplicated() {
    let mut case = Case::clean();
    case.entries.push(ended("n3", &[(1, "a")], 0));
    assert_eq!(case.wrong(), (0, 1, 0));
    assert_eq!(case.findings()[0], "committed more than once: #1");
}

#[test]
fn a_message_that_was_never_accepted_is_a_phantom() {
    let mut case = Case::clean();
    case.entries.push(ended("n3", &[(4, "d")], 0));
    assert_eq!(case.wrong(), (0, 0, 1));
}

#[test]
fn a_text_that_changed_on_its_way_is_found() {
    let mut case = Case::clean();
    case.entries[1] = ended("n1", &[(1, "A")], 0);
    assert_eq!(
        case.findings(),
        ["handled texts are not the generated ones: #1 to #3"]
    );
}

#[test]
fn a_log_that_tells_of_what_redis_does_not_know_is_a_phantom() {
    for (event, words) in [
        (
            processed(2, 2, &[]),
            "#2 told as processed, the ledger has it not",
        ),
        (
            published(0, 2, 2),
            "#2 told as published, the ledger has it not",
        ),
    ] {
        let mut case = Case::clean();
        case.tell("n9", event);
        assert_eq!(case.findings(), [words]);
        assert_eq!(case.wrong(), (0, 0, 1));
    }
}

#[test]
fn a_log_that_tells_the_same_twice_is_found() {
    let mut case = Case::clean();
    case.told.push(case.told[1].clone());
    assert_eq!(case.findings(), ["#1 told as processed more than once"]);
    assert_eq!(case.wrong(), (0, 1, 0));
}

#[test]
fn a_log_that_tells_another_outcome_is_found() {
    let mut case = Case::clean();
    case.told[1].line.event = processed(1, 1, &[1]);
    assert_eq!(case.findings(), ["#1: 1 told as failed, not [0]"]);
}

#[test]
fn a_failed_message_that_is_gone_and_was_never_printed_is_lost() {
    let mut case = Case::clean();
    case.prints.clear();
    assert_eq!(case.wrong(), (1, 0, 0));
    assert_eq!(case.findings(), ["1 of #2 to #3 failed, 0 were printed"]);
}

#[test]
fn a_message_printed_though_it_did_not_fail_is_a_phantom() {
    let mut case = Case::clean();
    case.drain(true, &[(1, "a")]);
    assert_eq!(case.wrong(), (0, 0, 1));
}

#[test]
fn a_message_printed_again_is_a_reprint_if_the_first_drain_was_killed_and_else_duplicated() {
    let mut case = Case::clean();
    case.drains[0] = false;
    case.drain(true, &[(3, "c")]);
    let judgement = case.judge();
    assert_eq!((judgement.findings.len(), judgement.reprints), (0, 1));

    case.drains[0] = true;
    assert_eq!(case.wrong(), (0, 1, 0));
    assert_eq!(
        case.findings(),
        ["#3 was printed again after it was removed"]
    );
}

#[test]
fn a_message_printed_with_another_text_is_found() {
    let mut case = Case::clean();
    case.drains[0] = false;
    case.drain(true, &[(3, "C")]);
    assert_eq!(case.findings(), ["#3 was printed with two different texts"]);
}

#[test]
fn failed_messages_that_the_last_drain_left_are_found() {
    let mut case = Case::clean();
    case.census.errors = 2;
    assert_eq!(
        case.findings(),
        ["2 failed messages are left after the last getErrors"]
    );
}

#[test]
fn counters_that_differ_from_the_ledger_are_found() {
    let mut case = Case::clean();
    case.census.done = 1;
    case.counted = Some(1);
    assert_eq!(case.findings().len(), 2);
}

#[test]
fn a_server_that_may_forget_its_last_second_takes_lines_back_and_no_other_does() {
    let mut case = Case::clean();
    case.tell("n9", processed(4, 5, &[]));
    case.deaths = vec![case.now + Duration::from_millis(500)];
    let judgement = case.judge();
    assert_eq!((judgement.findings.len(), judgement.taken_back), (0, 2));

    // Long before its death it has no excuse.
    case.deaths = vec![case.now + Duration::from_secs(60)];
    assert_eq!(case.wrong(), (0, 0, 2));
    case.deaths = Vec::new();
    assert_eq!(case.wrong(), (0, 0, 2));
}

#[test]
fn a_message_processed_again_by_the_same_node_because_the_server_forgot_is_no_duplicate() {
    let mut case = Case::clean();
    case.deaths = vec![case.now + Duration::from_millis(500)];
    let mut again = case.told[1].clone();
    again.at += Duration::from_secs(10);
    case.told.push(again);
    let judgement = case.judge();
    assert_eq!((judgement.findings.len(), judgement.taken_back), (0, 1));
}

#[test]
fn effects_count_each_message_that_is_done_once() {
    let mut case = Case::clean();
    for counted in [1, 3] {
        case.counted = Some(counted);
        let finding = format!("2 messages are done, their effects counted {counted}");
        assert_eq!(case.findings(), [finding]);
    }
    // The pretended handler has none.
    case.counted = None;
    assert_eq!(case.findings(), Vec::<String>::new());
}

#[test]
fn a_command_of_a_dead_node_may_not_go_on_beside_the_next_attempt() {
    let beside = |orphaned, ms| Beside {
        seq: 3,
        node: 1,
        orphaned,
        ms,
    };
    let mut case = Case::clean();
    // A paused node does not know better, and a supervisor needs a moment.
    case.besides = vec![beside(false, 0), beside(true, 4)];
    let judgement = case.judge();
    assert_eq!(judgement.findings, []);
    assert_eq!(
        (judgement.beside_living, judgement.beside_dead_ms),
        (1, vec![4])
    );

    case.besides = vec![beside(true, Beside::MAX_MS)];
    assert_eq!(
        case.findings(),
        ["#3: a command of node 2, which is dead, ran for 500 ms beside the next attempt"]
    );
}

#[test]
fn rows_with_other_texts_and_a_cursor_elsewhere_are_found() {
    let mut case = Case::clean();
    case.stored = Some(Stored {
        made: 3,
        cursor: "json 2".to_owned(),
    });
    assert_eq!(
        case.findings(),
        [
            "#1 to #3 have other texts than their rows",
            "the cursor 'json 2' does not belong to #3",
        ]
    );
}
