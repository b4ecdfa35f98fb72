//! Every event as the line that programs read today.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use baton_log::{Line, LogEvent, RedisState, Role};

/// What stands in front of the event's name in every line.
const HEAD: &str = r#"{"at":"2023-11-14T22:13:20.123Z","event":""#;

fn node() -> Cow<'static, str> {
    "k3v9x0a7qm".into()
}

fn line(event: LogEvent<'static>) -> Line<'static> {
    Line {
        at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
        node: "n0de".into(),
        partition: None,
        event,
    }
}

fn events() -> Vec<(LogEvent<'static>, &'static str)> {
    vec![
        (
            LogEvent::Generator { epoch: 3 },
            r#"generator","node":"n0de","epoch":3}"#,
        ),
        (
            LogEvent::Worker { generator: node() },
            r#"worker","node":"n0de","generator":"k3v9x0a7qm"}"#,
        ),
        (
            LogEvent::Published {
                epoch: 3,
                first: 17,
                last: 17,
                text: Some("two\nlines\u{fffd}".into()),
            },
            r#"published","node":"n0de","epoch":3,"first":17,"last":17,"text":"two\nlines�"}"#,
        ),
        (
            LogEvent::Published {
                epoch: 3,
                first: 1,
                last: u64::MAX,
                text: None,
            },
            r#"published","node":"n0de","epoch":3,"first":1,"last":18446744073709551615}"#,
        ),
        (
            LogEvent::Processed {
                first: 17,
                last: 17,
                failed: Cow::Borrowed(&[]),
                delayed: Vec::new().into(),
                attempt: 1,
            },
            r#"processed","node":"n0de","first":17,"last":17,"failed":[],"attempt":1}"#,
        ),
        (
            LogEvent::Processed {
                first: 1,
                last: 500,
                failed: Cow::Borrowed(&[3, 4]),
                delayed: Vec::new().into(),
                attempt: 2,
            },
            r#"processed","node":"n0de","first":1,"last":500,"failed":[3,4],"attempt":2}"#,
        ),
        (
            LogEvent::Fenced { epoch: 3, by: None },
            r#"fenced","node":"n0de","epoch":3,"by":null}"#,
        ),
        (
            LogEvent::Fenced {
                epoch: 3,
                by: Some(node()),
            },
            r#"fenced","node":"n0de","epoch":3,"by":"k3v9x0a7qm"}"#,
        ),
        (
            LogEvent::Lost { first: 5, last: 6 },
            r#"lost","node":"n0de","first":5,"last":6}"#,
        ),
        (
            LogEvent::Regressed { first: 7, last: 9 },
            r#"regressed","node":"n0de","first":7,"last":9}"#,
        ),
        (
            LogEvent::Void { first: 8, last: 8 },
            r#"void","node":"n0de","first":8,"last":8}"#,
        ),
        (
            LogEvent::Reclaimed {
                count: 3,
                nodes: vec!["k3v9x0a7qm".to_owned(), "b".to_owned()].into(),
            },
            r#"reclaimed","node":"n0de","count":3,"nodes":["k3v9x0a7qm","b"]}"#,
        ),
        (
            LogEvent::Dropped { count: 500 },
            r#"dropped","node":"n0de","count":500}"#,
        ),
        (
            LogEvent::Paused {
                part: "generator".into(),
            },
            r#"paused","node":"n0de","part":"generator"}"#,
        ),
        (
            LogEvent::Resumed {
                part: "workers".into(),
            },
            r#"resumed","node":"n0de","part":"workers"}"#,
        ),
        (
            LogEvent::Redis {
                state: RedisState::Lost,
                reason: Some("connection refused".into()),
            },
            r#"redis","node":"n0de","state":"lost","reason":"connection refused"}"#,
        ),
        (
            LogEvent::Redis {
                state: RedisState::Regained,
                reason: None,
            },
            r#"redis","node":"n0de","state":"regained"}"#,
        ),
        (
            LogEvent::Unconfirmed { first: 5, last: 6 },
            r#"unconfirmed","node":"n0de","first":5,"last":6}"#,
        ),
        (LogEvent::Confirmed, r#"confirmed","node":"n0de"}"#),
        (
            LogEvent::Warning {
                text: "the errors store is full".into(),
            },
            r#"warning","node":"n0de","text":"the errors store is full"}"#,
        ),
        (
            LogEvent::Snapshot {
                role: Role::Worker,
                published_per_s: 0.0,
                processed_per_s: 2.1,
                pending: 3,
                claimed: 1,
                delayed: 2,
                errors: 6,
            },
            concat!(
                r#"snapshot","node":"n0de","role":"worker","published_per_s":0.0,"#,
                r#""processed_per_s":2.1,"pending":3,"claimed":1,"delayed":2,"errors":6}"#
            ),
        ),
        (LogEvent::Stopped, r#"stopped","node":"n0de"}"#),
        (
            LogEvent::LogGap { lines: 12 },
            r#"log_gap","node":"n0de","lines":12}"#,
        ),
        (LogEvent::Other, r#"other","node":"n0de"}"#),
    ]
}

#[test]
fn every_event_is_the_same_line_as_ever_and_reads_back() {
    for (event, rest) in events() {
        let (line, text) = (line(event), format!("{HEAD}{rest}"));
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
    }
}

#[test]
fn a_reader_survives_an_event_and_a_field_of_a_newer_writer() {
    let read = |rest: &str| serde_json::from_str::<Line>(&format!("{HEAD}{rest}")).unwrap();
    assert_eq!(
        read(r#"promoted","node":"n0de","rank":[1,{"a":null}]}"#),
        line(LogEvent::Other)
    );
    assert_eq!(
        read(r#"generator","node":"n0de","epoch":3,"term":{"b":7}}"#),
        line(LogEvent::Generator { epoch: 3 })
    );
}

#[test]
fn a_line_without_a_field_that_its_event_needs_is_refused() {
    for rest in [
        r#"generator","node":"n0de"}"#,
        r#"generator","epoch":3}"#,
        r#"redis","node":"n0de","state":"shaky"}"#,
    ] {
        assert!(serde_json::from_str::<Line>(&format!("{HEAD}{rest}")).is_err());
    }
}

#[test]
fn the_messages_of_an_event_are_those_that_it_names() {
    let named: Vec<&str> = events()
        .iter()
        .filter(|(event, _)| event.messages().is_some())
        .map(|(event, _)| event.name())
        .collect();
    assert_eq!(
        named,
        ["published", "published", "processed", "processed", "lost"]
    );
    assert_eq!(LogEvent::Lost { first: 5, last: 6 }.messages(), Some(5..=6));
}
