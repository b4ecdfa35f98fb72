//! Sources that are wrong, silent or too loud: the log says so, and nothing is lost.

use baton_log::LogEvent;
use baton_processes::Fleet;
use redis::Commands;

use crate::source::{failed_texts, fleet_with, outputs, wait_output};
use crate::support::{
    keys, redis, replace_generator, server, status, wait_for, wait_status, wait_until, warns,
};

/// The warnings about the source, in order.
fn warnings(fleet: &Fleet) -> Vec<String> {
    let told = fleet.told();
    let text = |told: &baton_processes::Told| match told.event() {
        LogEvent::Warning { text } if text.contains("the source") => Some(text.to_string()),
        _ => None,
    };
    told.iter().filter_map(text).collect()
}

/// A source whose output is wrong from some line on: the node publishes what is before it, says what is
/// wrong and generates no more.
#[track_caller]
fn assert_gives_up(format: &str, source: &str, published: u64, reason: &str) {
    let server = server();
    let args = "--only-generate";
    let fleet = fleet_with(1, &server, args, format, source);
    let _ = wait_for(&fleet, 0, "the end", |told| warns(told, "cannot go on"));
    assert_eq!(
        warnings(&fleet),
        [format!(
            "the source cannot go on: {reason}; this node generates no more"
        )],
        "{source}"
    );
    // The node runs on, does not generate, and says why.
    let status = wait_status(&server, "the lease to be free", |status| {
        status.generator.node.is_none() && !status.source_troubles.is_empty()
    });
    // What was on its way is accepted before the lease is free.
    assert_eq!(status.published, published, "{source}");
    let node = &status.nodes[0].node;
    assert_eq!(
        status.source_troubles,
        [format!("the source of {node} cannot go on: {reason}")]
    );
}

#[test]
fn a_line_over_a_mebibyte_is_named() {
    let reason = "line 3: it has more than 1048576 bytes";
    let long = "head -c 1048577 /dev/zero | tr '\\0' x";
    assert_gives_up("lines", &format!("echo a; echo b; {long}; echo"), 2, reason);
    let first = r#"echo '{"text":"a"}'; echo '{"text":"b","cursor":"b"}'"#;
    assert_gives_up("json", &format!("{first}; {long}; sleep 1000"), 2, reason);
}

#[test]
fn a_line_that_is_no_object_of_ours_is_named() {
    for (line, reason) in [
        ("order 7", "expected value"),
        (
            r#"{"text":"x","key":"y"}"#,
            "unknown field `key`, expected one of `text`, `base64`, `id`, `cursor`",
        ),
    ] {
        // In one write: the good line is not published before the bad one is read.
        let good = r#"{"text":"a","cursor":"1"}"#;
        let source = format!(r"printf '%s\n' '{good}' '{line}'; sleep 1000");
        let example = r#"not an object such as {"text":"…","cursor":"…"}"#;
        assert_gives_up("json", &source, 1, &format!("line 2: {example}: {reason}"));
    }
    let source =
        r#"printf '{"text":"a","cursor":"'; head -c 65521 /dev/zero | tr '\0' x; echo '"}'"#;
    let reason = "line 1: its cursor has 65521 bytes; it may have 65520";
    assert_gives_up("json", source, 0, reason);
}

#[test]
fn messages_that_no_cursor_covers_are_named() {
    let messages = |count: u32| format!(r#"yes '{{"text":"x"}}' | head -n {count}"#);
    let first = r#"echo '{"text":"a","cursor":"1"}'"#;
    assert_gives_up(
        "json",
        &format!("{first}; {}", messages(1001)),
        1,
        "line 1002: 1000 messages with 1000 bytes came without a cursor, and no more fit into a pack",
    );
    assert_gives_up(
        "json",
        &format!("{first}; {}", messages(3)),
        1,
        "the command ended, and no cursor covers its last messages (3)",
    );
    let text = "x".repeat(1000);
    let large = format!(r#"yes '{{"text":"{text}"}}' | head -n 400"#);
    let reason = "line 265: 263 messages with 263000 bytes came without a cursor, and no more fit into a pack";
    assert_gives_up("json", &format!("{first}; {large}"), 1, reason);
}

#[test]
fn messages_that_wait_long_for_a_cursor_are_in_the_log() {
    let server = server();
    let source = r#"echo '{"text":"x"}'; sleep 1000"#;
    let fleet = fleet_with(1, &server, "--only-generate", "json", source);
    assert_eq!(
        wait_output(&fleet, 0),
        "no cursor for 10s; messages that wait for one: 1"
    );
    assert_eq!(status(&server).published, 0);
}

#[test]
fn a_full_pack_up_to_its_cursor_is_published_whole() {
    let server = server();
    let source = r#"yes '{"text":"x"}' | head -n 999; echo '{"text":"x","cursor":"1000"}'
        text=$(head -c 262000 /dev/zero | tr '\0' x)
        echo "{\"text\":\"$text\"}"; echo "{\"text\":\"$text\",\"cursor\":\"1002\"}""#;
    let fleet = fleet_with(1, &server, "--only-generate", "json", source);
    wait_status(&server, "all", |status| status.published == 1002);
    assert_eq!(warnings(&fleet), Vec::<String>::new());
}

#[test]
fn a_source_that_exits_at_once_is_started_again_and_again_and_the_log_says_why() {
    let server = server();
    let source = r#"echo "run $BATON_NEXT" >&2
        [ "$BATON_NEXT" -gt 4 ] && exit 0
        echo "row $BATON_NEXT"; echo oops >&2; exit 7"#;
    let fleet = fleet_with(2, &server, "--error-rate 1", "lines", source);
    let fifth = |fleet: &Fleet| outputs(fleet, 0).contains(&"run 5".to_owned());
    wait_until("the last run", || fifth(&fleet));
    wait_status(&server, "all to end", |status| status.failed == 4);
    let texts: Vec<(u64, String)> = (1..=4).map(|seq| (seq, format!("row {seq}"))).collect();
    assert_eq!(failed_texts(&server), texts);
    // One warning in ten seconds.
    let reason = "the source failed: exit code 7: run 1\noops; it is opened again";
    assert_eq!(warnings(&fleet), [reason]);
}

#[test]
fn a_source_that_is_silent_delays_neither_a_beat_nor_a_stop() {
    let server = server();
    let source = "echo begun >&2; exec sleep 1000";
    let mut fleet = fleet_with(2, &server, "--lease-ttl 500ms", "lines", source);
    let generator = fleet.generator().unwrap();
    let _ = wait_output(&fleet, 0);
    let snapshots = |fleet: &Fleet| {
        let told = fleet.told();
        let told = told.iter().filter(|told| told.copy == generator);
        told.filter(|told| matches!(told.event(), LogEvent::Snapshot { .. }))
            .count()
    };
    // Ten seconds: twenty times the time to live of its lease.
    wait_until("a snapshot", || snapshots(&fleet) > 0);
    assert_eq!(fleet.generator(), Some(generator));
    let mark = fleet.mark();
    fleet.terminate(generator).unwrap();
    assert_eq!(fleet.wait(generator).unwrap(), Some(0));
    let _ = wait_for(&fleet, mark, "a successor", |told| told.is_generator());
}

#[test]
fn a_source_that_floods_waits_for_the_workers() {
    let server = server();
    let args = "--only-generate --max-pending 500";
    let source = "yes error >&2 & yes; echo ended >&2";
    let fleet = fleet_with(1, &server, args, "lines", source);
    wait_status(&server, "a full queue", |status| status.pending == 500);
    let _ = wait_for(&fleet, 0, "the warning", |told| warns(told, "queue"));
    let pid = fleet.pid(fleet.generator().unwrap());
    let memory = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak_kib < 100 << 10, "{peak_kib} KiB");
    assert_eq!(status(&server).published, 500);
}

#[test]
fn a_source_that_cannot_run_is_tried_again() {
    let server = server();
    let fleet = fleet_with(
        1,
        &server,
        "--only-generate",
        "lines",
        "exec /no/such/program",
    );
    let _ = wait_for(&fleet, 0, "the warning", |told| {
        warns(told, "exit code 127")
    });
    assert!(
        warnings(&fleet)[0].contains("/no/such/program"),
        "{:?}",
        warnings(&fleet)
    );
}

#[test]
fn a_source_that_never_reads_does_not_block_its_node() {
    let server = server();
    // Each cursor is nearly as long as a pipe holds, and the second run begins with one.
    let source = r#"long=$(head -c 60000 /dev/zero | tr '\0' x)
        for row in 1 2 3 4 5; do echo "{\"text\":\"$row\",\"cursor\":\"$row$long\"}"; sleep 0.02; done
        echo begun >&2
        exec sleep 1000"#;
    let mut fleet = fleet_with(2, &server, "--error-rate 1", "json", source);
    wait_status(&server, "five", |status| status.failed == 5);
    let _ = replace_generator(&mut fleet);
    wait_status(&server, "five more", |status| status.published == 10);
    let generator = fleet.generator().unwrap();
    fleet.terminate(generator).unwrap();
    assert_eq!(fleet.wait(generator).unwrap(), Some(0));
}

#[test]
fn a_flood_of_cursors_leaves_the_node_time_to_beat_and_to_stop() {
    let server = server();
    let source = r#"echo begun >&2; exec yes '{"cursor":"7"}'"#;
    let mut fleet = fleet_with(1, &server, "--only-generate", "json", source);
    let _ = wait_output(&fleet, 0);
    let key = keys().fence;
    let mut redis = redis(&server);
    wait_until("a stored cursor", || {
        redis.hget(&key, "cursor") == Ok("json 7".to_owned())
    });
    assert_eq!(status(&server).published, 0);
    fleet.terminate(0).unwrap();
    assert_eq!(fleet.wait(0).unwrap(), Some(0));
}

#[test]
fn lines_that_are_left_out_because_the_fleet_has_messages_are_in_the_log() {
    let server = server();
    let source = "echo begun >&2; seq $BATON_NEXT 5; sleep 1000";
    let json = r#"printf '{"text":"%s","cursor":"%s"}\n' a 1 b 2; sleep 1000"#;
    let fleet = fleet_with(2, &server, "--error-rate 1", "json", json);
    wait_status(&server, "two", |status| status.failed == 2);
    drop(fleet);
    let mut fleet = fleet_with(3, &server, "--error-rate 1", "lines", source);
    let left_out = "the fleet has 2 messages that no such source made: as many lines are left out, and \
                    BATON_NEXT is 3; give the lines a fleet of their own";
    assert_eq!(wait_output(&fleet, 0), left_out);
    wait_status(&server, "five", |status| status.failed == 5);
    let texts = ["a", "b", "3", "4", "5"].map(str::to_owned);
    assert_eq!(
        failed_texts(&server),
        (1..).zip(texts).collect::<Vec<(u64, String)>>()
    );
    // A successor continues with lines.
    let mark = fleet.mark();
    let _ = replace_generator(&mut fleet);
    assert_eq!(wait_output(&fleet, mark), "begun");
}

#[test]
fn a_next_number_that_goes_back_starts_the_source_again_there() {
    const LINES: u64 = 3000;
    let server = server();
    let source = format!("echo $BATON_NEXT >&2; seq $BATON_NEXT {LINES}; sleep 1000");
    let args = "--error-rate 1 --max-pending 200 --work 2ms --concurrency 2";
    let fleet = fleet_with(3, &server, args, "lines", &source);
    assert_eq!(wait_output(&fleet, 0), "1");
    wait_status(&server, "some lines", |status| status.published >= 1000);
    let mark = fleet.mark();
    let _: () = ::redis::cmd("FLUSHALL").query(&mut redis(&server)).unwrap();
    let _ = wait_for(&fleet, mark, "the loss", |told| {
        matches!(told.event(), LogEvent::Regressed { .. })
    });
    assert_eq!(wait_output(&fleet, mark), "1");
    wait_status(&server, "all", |status| status.failed == LINES);
    let texts: Vec<(u64, String)> = (1..=LINES).map(|seq| (seq, seq.to_string())).collect();
    assert_eq!(failed_texts(&server), texts);
}
