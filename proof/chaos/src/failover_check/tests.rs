//! A failover by hand, and everything that can be wrong with it.

use baton_log::{Line as LogLine, LogEvent};
use baton_protocol::{Digest, Entry};

use super::*;

const GENERATOR: usize = 0;
const WORKER: usize = 1;

/// Three messages were logged as published; a failover forgot the third, and it was published again.
struct Case {
    level: Level,
    entries: Vec<Entry>,
    told: Vec<Told>,
    gone: Vec<Option<Instant>>,
    failovers: Vec<Failover>,
    began: Instant,
    began_at: SystemTime,
}

fn text(seq: u64) -> String {
    format!("message {seq}")
}

fn digest(place: u64, texts: &[&str]) -> Digest {
    let mut digest = Digest::default();
    for (place, text) in (place..).zip(texts) {
        digest.add(place, text.as_bytes());
    }
    digest
}

fn published(seq: u64) -> LogEvent<'static> {
    LogEvent::Published {
        epoch: 1,
        first: seq,
        last: seq,
        text: Some(text(seq).into()),
    }
}

fn processed(seq: u64) -> LogEvent<'static> {
    LogEvent::Processed {
        first: seq,
        last: seq,
        failed: Vec::new().into(),
        delayed: Vec::new().into(),
        attempt: 1,
    }
}

impl Case {
    fn new(level: Level) -> Self {
        let now = Instant::now();
        let mut case = Self {
            level,
            entries: Vec::new(),
            told: Vec::new(),
            gone: vec![None; 2],
            failovers: Vec::new(),
            began: now,
            began_at: SystemTime::now(),
        };
        for seq in 1..=3 {
            case.publish(10 * seq, seq, &[&text(seq)]);
            case.end(seq, seq, &[&text(seq)]);
            case.tell(10 * seq + 1, GENERATOR, published(seq));
            case.tell(10 * seq + 5, WORKER, processed(seq));
        }
        case.failovers.push(Failover {
            partitions: vec![0],
            from: case.at(100),
            until: Some(case.at(200)),
        });
        case
    }

    fn at(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    fn tell(&mut self, ms: u64, copy: usize, event: LogEvent<'static>) {
        self.told.push(Told {
            copy,
            at: self.at(ms),
            line: LogLine {
                at: self.began_at + Duration::from_millis(ms),
                node: "n".into(),
                partition: None,
                event,
            },
        });
    }

    fn publish(&mut self, ms: u64, first: u64, texts: &[&str]) {
        self.entries.push(Entry::Published {
            epoch: 1,
            first,
            last: first + texts.len() as u64 - 1,
            digest: digest(0, texts),
            at_us: us(self.began_at + Duration::from_millis(ms)),
        });
    }

    /// Messages of a pack end.
    fn end(&mut self, pack: u64, first: u64, texts: &[&str]) {
        self.entries.push(Entry::Ended {
            slot: "n:0".to_owned(),
            first,
            last: first + texts.len() as u64 - 1,
            failed: 0,
            digest: Some(digest(first - pack, texts)),
            at_us: 1,
        });
    }

    /// The servers forget a message.
    fn forget(&mut self, seq: u64) {
        self.entries.retain(|entry| entry.first() != seq);
    }

    fn void(&mut self, seq: u64) {
        self.entries.push(Entry::Void {
            first: seq,
            last: seq,
            at_us: 1,
        });
    }

    fn check(&self) -> (Losses, Vec<String>) {
        let (losses, findings) = check(&Evidence {
            level: self.level,
            ledger: &Ledger {
                entries: self.entries.clone(),
            },
            told: &self.told,
            texts_are_exact: true,
            gone: &self.gone,
            failovers: &self.failovers,
        });
        (losses, findings.into_iter().map(|(_, text)| text).collect())
    }
}

const LEVELS: [Level; 2] = [Level::None, Level::Replicas(2)];

#[test]
fn nothing_is_wrong_where_nothing_was_forgotten() {
    for level in LEVELS {
        let (losses, findings) = Case::new(level).check();
        assert_eq!(findings, Vec::<String>::new());
        let expected = Losses {
            logged: 3,
            compared: 6,
            ..Losses::default()
        };
        assert_eq!(losses, expected);
    }
}

#[test]
fn a_confirmed_message_that_is_gone_is_found_even_if_a_node_says_so() {
    let mut case = Case::new(Level::Replicas(2));
    case.forget(3);
    case.void(3);
    case.tell(150, WORKER, LogEvent::Regressed { first: 3, last: 3 });
    let (losses, findings) = case.check();
    assert_eq!(findings, ["#3 was confirmed and is gone"]);
    assert_eq!((losses.gone, losses.confirmed, losses.void), (1, 1, 1));
}

#[test]
fn a_confirmed_end_that_is_gone_is_found() {
    let mut case = Case::new(Level::Replicas(2));
    let ended = |entry: &Entry| matches!(entry, Entry::Ended { first: 2, .. });
    case.entries.retain(|entry| !ended(entry));
    let (_, findings) = case.check();
    assert_eq!(findings, ["#2 was confirmed as processed and has no end"]);
}

#[test]
fn a_message_is_confirmed_as_processed_once() {
    let mut case = Case::new(Level::Replicas(2));
    case.tell(150, WORKER, processed(2));
    let (_, findings) = case.check();
    assert_eq!(findings, ["#2 was confirmed as processed 2 times"]);

    case.level = Level::None;
    let (losses, findings) = case.check();
    assert_eq!(findings, Vec::<String>::new());
    assert_eq!(losses.again, 1);
}

#[test]
fn an_acknowledged_message_that_is_gone_must_be_named() {
    let mut case = Case::new(Level::None);
    case.forget(3);
    let (_, findings) = case.check();
    assert_eq!(
        findings,
        ["#3 was acknowledged and is gone, and no node says so"]
    );

    case.tell(150, WORKER, LogEvent::Regressed { first: 2, last: 3 });
    let (losses, findings) = case.check();
    assert_eq!(findings, Vec::<String>::new());
    assert_eq!((losses.gone, losses.named, losses.unknown), (1, 1, 0));
}

#[test]
fn void_is_gone_too() {
    let mut case = Case::new(Level::None);
    case.forget(3);
    case.void(3);
    assert_eq!(case.check().1.len(), 1);
}

#[test]
fn a_message_that_only_the_dead_knew_may_be_gone_without_a_word() {
    let mut case = Case::new(Level::None);
    case.forget(3);
    case.gone[GENERATOR] = Some(case.at(120));
    assert_eq!(case.check().1.len(), 1, "the worker knew it and lives");

    case.gone[WORKER] = Some(case.at(300));
    assert_eq!(case.check().1.len(), 1, "the worker died too late");

    case.gone[WORKER] = Some(case.at(130));
    let (losses, findings) = case.check();
    assert_eq!(findings, Vec::<String>::new());
    assert_eq!((losses.gone, losses.named, losses.unknown), (1, 0, 1));
}

#[test]
fn a_number_that_two_nodes_published_may_have_had_two_messages() {
    let mut case = Case::new(Level::None);
    case.tell(130, GENERATOR, published(3));
    assert_eq!(case.check().0.published_again, 0, "it sent its own again");
    case.tell(140, WORKER, published(3));
    let (losses, _) = case.check();
    assert_eq!((losses.published_again, losses.forgotten()), (1, 1));
}

/// The third message is forgotten and its number given to another text, in these packs.
fn renumbered(level: Level, texts: &[&str]) -> Case {
    let mut case = Case::new(level);
    case.forget(3);
    case.publish(150, 3, texts);
    case.end(3, 3, &texts[..1]);
    case.end(3, 4, &texts[1..]);
    case.gone[GENERATOR] = Some(case.at(120));
    case
}

#[test]
fn a_number_that_a_living_node_knew_keeps_its_text() {
    for level in LEVELS {
        // Its pack has a message that no log knows, so only its end tells the text.
        let mut case = renumbered(level, &["another", "further"]);
        let (_, findings) = case.check();
        assert_eq!(findings, ["#3 to #3: a text is not the one in a log"]);
        // The worker had not handled it: no living node knew it.
        case.told.retain(|told| *told.event() != processed(3));
        let (losses, findings) = case.check();
        match level {
            Level::None => {
                assert_eq!(findings, Vec::<String>::new());
                assert_eq!((losses.compared, losses.renumbered), (5, 1));
            }
            Level::Replicas(_) => assert_eq!(findings.len(), 1),
        }
    }
}

#[test]
fn two_texts_of_one_number_in_the_logs_are_found() {
    let mut case = renumbered(Level::None, &["another", "further"]);
    let second = LogEvent::Published {
        epoch: 2,
        first: 3,
        last: 3,
        text: Some("another".into()),
    };
    case.tell(151, WORKER, second);
    let (_, findings) = case.check();
    assert_eq!(findings, ["#3 to #3: a text is not the one in a log"]);
}

#[test]
fn a_node_that_says_so_without_a_failover_is_found() {
    for level in LEVELS {
        let mut case = Case::new(level);
        case.tell(2000, WORKER, LogEvent::Regressed { first: 2, last: 3 });
        let (_, findings) = case.check();
        assert_eq!(
            findings,
            ["#2 to #3 are said to be gone without a failover"]
        );
    }
}
