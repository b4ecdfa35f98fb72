//! Fleets whose messages come from a command: each line is a message once, whatever is killed.

use std::fmt::Write as _;
use std::path::Path;

use baton::FailedMessage;
use baton_log::LogEvent;
use baton_processes::Fleet;
use baton_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{
    TIMEOUT, assert_each_once, replace_generator, server, status, wait_for, wait_status,
    wait_until, workers,
};

/// Rejects all messages: the errors store has their numbers and texts then.
const REJECT: &str = "--error-rate 1";

/// A fleet whose generator makes messages with this shell command.
pub(crate) fn fleet_with(
    count: usize,
    server: &PrivateServer,
    args: &str,
    format: &str,
    source: &str,
) -> Fleet {
    let url = server.url();
    let source = [
        "--redis",
        &url,
        "--source-format",
        format,
        "--source",
        source,
    ];
    let args: Vec<&str> = args.split(' ').chain(source).collect();
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args);
    fleet.start_many(count, TIMEOUT).unwrap();
    fleet
}

/// The failed messages in order: their numbers and texts.
pub(crate) fn failed_texts(server: &PrivateServer) -> Vec<(u64, String)> {
    let mut command = baton_processes::command(Path::new(env!("CARGO_BIN_EXE_baton")));
    command.args(["errors", "--json", "--redis", &server.url()]);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let mut texts: Vec<(u64, String)> = output
        .lines()
        .map(|line| serde_json::from_str::<FailedMessage>(line).unwrap())
        .map(|failed| (failed.seq, String::from_utf8(failed.text).unwrap()))
        .collect();
    texts.sort_unstable();
    texts
}

/// Messages `1..=count`, and the text of each.
fn numbered(count: u64, text: impl Fn(u64) -> String) -> Vec<(u64, String)> {
    (1..=count).map(|seq| (seq, text(seq))).collect()
}

/// What the sources of the fleet printed on their stderr after `mark`, first to last.
pub(crate) fn outputs(fleet: &Fleet, mark: usize) -> Vec<String> {
    let told = fleet.told_since(mark);
    let text = |told: &baton_processes::Told| match told.event() {
        LogEvent::SourceOutput { text } => Some(text.clone().into_owned()),
        _ => None,
    };
    told.iter().filter_map(text).collect()
}

/// Waits for the first line that a source prints on its stderr after `mark`.
#[track_caller]
pub(crate) fn wait_output(fleet: &Fleet, mark: usize) -> String {
    let is_output = |event: &LogEvent<'_>| matches!(event, LogEvent::SourceOutput { .. });
    let _ = wait_for(fleet, mark, "output", |told| is_output(told.event()));
    outputs(fleet, mark).swap_remove(0)
}

/// Kills a process that runs.
#[track_caller]
fn kill9(pid: &str) {
    assert!(runs(pid), "{pid} has ended");
    let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Whether there is such a process and it is no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

#[track_caller]
fn wait_gone(pids: &str) {
    for pid in pids.split(' ') {
        wait_until("a process to end", || !runs(pid));
    }
}

/// Kills workers and three generators and three sources, whose successors say their numbers, before the
/// fleet has published all of `messages`. The sources wait with the last of them for the file `gate`,
/// so that a source runs whenever it is killed, however slow this test is.
fn kill_in_between(fleet: &mut Fleet, server: &PrivateServer, messages: u64, gate: &Path) {
    for round in 1..=9 {
        wait_status(server, "some to be published", |status| {
            status.published >= round * messages / 12
        });
        match round % 3 {
            0 => {
                let mark = fleet.mark();
                let _ = replace_generator(fleet);
                fleet.start().unwrap();
                let _ = wait_output(fleet, mark);
            }
            1 => {
                // On a loaded machine another node may have taken over, whose log is not read yet.
                let source = || outputs(fleet, 0).pop().unwrap_or_default();
                wait_until("a source that runs", || runs(&source()));
                let mark = fleet.mark();
                kill9(&source());
                let _ = wait_output(fleet, mark);
            }
            _ => {
                let victim = workers(fleet)[0];
                fleet.kill9(victim).unwrap();
                fleet.start().unwrap();
            }
        }
    }
    std::fs::write(gate, "").unwrap();
}

/// Statements of awk that wait until the file `gate` is there.
fn wait_for_gate(gate: &Path) -> String {
    let gate = gate.display();
    format!("while ((getline line < \"{gate}\") < 0) system(\"sleep 0.05\")")
}

#[test]
fn each_line_of_a_file_is_one_message_while_all_are_killed() {
    const LINES: u64 = 20_000;
    let order = |seq: u64| format!("{seq},order {seq:0200},{}", seq * 37 % 1000);
    let folder = tempfile::tempdir().unwrap();
    let mut csv = String::new();
    (1..=LINES).for_each(|seq| writeln!(csv, "{}", order(seq)).unwrap());
    std::fs::write(folder.path().join("orders.csv"), csv).unwrap();

    let server = server();
    let gate = folder.path().join("gate");
    let source = format!(
        "echo $$ >&2; cd {}; exec awk -v next_line=\"$BATON_NEXT\" \
         'NR == {LINES} {{ {} }} NR >= next_line' orders.csv",
        folder.path().display(),
        wait_for_gate(&gate)
    );
    let args = format!("{REJECT} --max-pending 500 --work 5ms --concurrency 4");
    let mut fleet = fleet_with(4, &server, &args, "lines", &source);
    kill_in_between(&mut fleet, &server, LINES, &gate);
    assert_each_once(&fleet, &server, LINES);
    assert!(failed_texts(&server) == numbered(LINES, order));
}

/// Rows 1 to 5000 in JSON, with a cursor at every seventh and at the last. It reads where it stood, and
/// waits with the last row for GATE.
const ROWS: &str = r#"echo $$ >&2
    read -r hello
    at=$(printf %s "$hello" | sed -n 's/.*"cursor":"\([0-9]*\)".*/\1/p')
    exec awk -v at="${at:-0}" 'BEGIN {
        for (row = at + 1; row <= 5000; row++) {
            if (row == 5000) { GATE }
            cursor = row % 7 == 0 || row == 5000 ? sprintf(",\"cursor\":\"%d\"", row) : ""
            printf "{\"text\":\"row %0500d\"%s}\n", row, cursor
        }
    }'"#;

#[test]
fn a_source_with_cursors_continues_behind_the_last_one_while_all_are_killed() {
    const ROW_COUNT: u64 = 5000;
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let rows = ROWS.replace("GATE", &wait_for_gate(&gate));
    let args = format!("{REJECT} --max-pending 300 --work 5ms --concurrency 2");
    let mut fleet = fleet_with(4, &server, &args, "json", &rows);
    kill_in_between(&mut fleet, &server, ROW_COUNT, &gate);
    assert_each_once(&fleet, &server, ROW_COUNT);
    assert_eq!(
        failed_texts(&server),
        numbered(ROW_COUNT, |row| format!("row {row:0500}"))
    );
}

/// Prints its number, its supervisor's and that of a process that it starts; then it hangs.
const HANG: &str = "trap '' TERM; sleep 1000 & echo $$ $PPID $! >&2; wait; sleep 1000";

#[test]
fn a_source_ends_with_its_node_however_the_node_ends() {
    let server = server();
    for end in [Fleet::kill9, |fleet: &mut Fleet, copy| {
        fleet.terminate(copy)?;
        assert_eq!(fleet.wait(copy)?, Some(0));
        Ok(())
    }] {
        let mut fleet = fleet_with(1, &server, REJECT, "lines", HANG);
        let pids = wait_output(&fleet, 0);
        assert_eq!(pids.split(' ').filter(|pid| runs(pid)).count(), 3);
        end(&mut fleet, 0).unwrap();
        wait_gone(&pids);
    }
}

#[test]
fn a_node_that_lost_its_lease_kills_its_source() {
    let server = server();
    let fleet = fleet_with(2, &server, REJECT, "lines", HANG);
    let generator = fleet.generator().unwrap();
    let pids = wait_output(&fleet, 0);
    let (child, mark) = (pids.split(' ').next().unwrap(), fleet.mark());
    fleet.pause(generator).unwrap();
    let _ = wait_for(&fleet, mark, "a successor", |told| told.is_generator());
    let _ = wait_output(&fleet, mark);
    assert!(runs(child), "its node cannot have killed it");
    fleet.resume(generator).unwrap();
    wait_gone(child);
}

/// Prints rows up to 400, slowly.
const SLOW_ROWS: &str = r#"echo $$ >&2
    row=$BATON_NEXT
    while [ $row -le 400 ]; do echo "row $row"; row=$((row + 1)); sleep 0.005; done"#;

#[test]
fn what_the_source_of_a_paused_node_prints_beside_its_successor_counts_for_nothing() {
    let server = server();
    let args = format!("{REJECT} --lease-ttl 500ms");
    let fleet = fleet_with(3, &server, &args, "lines", SLOW_ROWS);
    wait_status(&server, "some rows", |status| status.published >= 50);
    let (generator, first) = (fleet.generator().unwrap(), wait_output(&fleet, 0));
    let mark = fleet.mark();
    fleet.pause(generator).unwrap();
    let _ = wait_output(&fleet, mark);
    assert!(runs(&first), "two sources at a time");
    wait_status(&server, "more rows", |status| status.published >= 200);
    fleet.resume(generator).unwrap();
    wait_gone(&first);
    assert_each_once(&fleet, &server, 400);
    assert_eq!(
        failed_texts(&server),
        numbered(400, |row| format!("row {row}"))
    );
}

#[test]
fn a_source_whose_supervisor_is_killed_is_killed_too_and_starts_again() {
    let server = server();
    let fleet = fleet_with(1, &server, REJECT, "lines", HANG);
    let pids = wait_output(&fleet, 0);
    let pids: Vec<&str> = pids.split(' ').collect();
    let mark = fleet.mark();
    kill9(pids[1]);
    let _ = wait_output(&fleet, mark);
    for pid in [pids[0], pids[2]] {
        assert!(!runs(pid), "{pid} runs beside its successor");
    }
}

#[test]
fn messages_leave_when_the_source_pauses() {
    let server = server();
    let source = "echo one; echo two; sleep 1000";
    let _fleet = fleet_with(2, &server, REJECT, "lines", source);
    wait_status(&server, "both to end", |status| status.failed == 2);
    let source = r#"echo '{"text":"one"}'; echo '{"base64":"dHdv","id":"2","cursor":"c"}'
        sleep 1000"#;
    let server = self::server();
    let _fleet = fleet_with(2, &server, REJECT, "json", source);
    wait_status(&server, "both to end", |status| status.failed == 2);
    let texts = numbered(2, |seq| ["one", "two"][seq as usize - 1].to_owned());
    assert_eq!(failed_texts(&server), texts);
}

#[test]
fn a_source_hears_where_it_stands_and_what_redis_has() {
    let server = server();
    // It says what it reads, and passes over something in between.
    let source = r#"read -r hello; echo "$hello" >&2
        echo '{"text":"a"}'; echo '{"text":"b","cursor":"2 \"b\""}'
        read -r accepted; echo "$accepted" >&2
        echo '{"cursor":"3"}'
        read -r accepted; echo "$accepted" >&2
        exec sleep 1000"#;
    let mut fleet = fleet_with(2, &server, REJECT, "json", source);
    wait_until("all lines", || outputs(&fleet, 0).len() == 3);
    assert_eq!(
        outputs(&fleet, 0),
        [
            r#"{"baton":1,"next":1}"#,
            r#"{"accepted":"2 \"b\""}"#,
            r#"{"accepted":"3"}"#
        ]
    );
    let mark = fleet.mark();
    let _ = replace_generator(&mut fleet);
    assert_eq!(
        wait_output(&fleet, mark),
        r#"{"baton":1,"next":3,"cursor":"3"}"#
    );
    // It does not care where it stands, and prints the same again.
    wait_status(&server, "four messages", |status| status.published == 4);
}

#[test]
fn a_last_line_without_its_end_counts_only_if_the_source_succeeded() {
    let server = server();
    let source = r#"case $BATON_NEXT in
        1) printf 'one\ncut'; kill -9 $$;;
        2) printf 'two\r\n\ncut'; exit 3;;
        *) printf 'end';;
        esac"#;
    let fleet = fleet_with(2, &server, REJECT, "lines", source);
    wait_status(&server, "all to end", |status| status.failed == 4);
    let texts = ["one", "two\r", "", "end"];
    assert_eq!(
        failed_texts(&server),
        numbered(4, |seq| texts[seq as usize - 1].to_owned())
    );
    drop(fleet);
    assert_eq!(status(&server).published, 4);
}
