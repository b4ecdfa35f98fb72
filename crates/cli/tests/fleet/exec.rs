//! Fleets that handle messages with commands: no command outlives its node, and effects are exact.

use std::fs;
use std::path::Path;

use baton::FailedMessage;
use baton_log::LogEvent;
use baton_processes::Fleet;
use baton_server::PrivateServer;
use redis::Commands;

use crate::support::{TIMEOUT, redis, server, status, wait_for, wait_status, wait_until, workers};

/// Prints its own number, its supervisor's and that of a process that it starts; then it hangs.
const HANG: &str = "trap '' TERM; sleep 1000 & echo $$ $PPID $!; wait; sleep 1000";

/// A fleet whose copies handle messages with this shell command.
fn fleet_with(count: usize, server: &PrivateServer, args: &str, command: &str) -> Fleet {
    let url = server.url();
    let args = args.split(' ').chain(["--redis", &url, "--exec", command]);
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args.collect::<Vec<_>>());
    fleet.start_many(count, TIMEOUT).unwrap();
    fleet
}

/// Waits for the first line that a command prints after `mark`: the copy, and the words.
#[track_caller]
fn wait_output(fleet: &Fleet, mark: usize) -> (usize, Vec<String>) {
    let is_output = |event: &LogEvent<'_>| matches!(event, LogEvent::HandlerOutput { .. });
    let told = wait_for(fleet, mark, "output", |told| is_output(told.event()));
    let LogEvent::HandlerOutput { text, .. } = told.event() else {
        unreachable!("it is an output");
    };
    let words = text.split(' ').map(str::to_owned).collect();
    (told.copy, words)
}

/// Whether there is such a process, be it only a zombie.
fn exists(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// The failed messages in order.
fn failed(server: &PrivateServer) -> Vec<FailedMessage> {
    let mut command = baton_processes::command(Path::new(env!("CARGO_BIN_EXE_baton")));
    command.args(["errors", "--json", "--redis", &server.url()]);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let line = |line| serde_json::from_str(line).unwrap();
    let mut failed: Vec<FailedMessage> = output.lines().map(line).collect();
    failed.sort_by_key(|failed| failed.seq);
    failed
}

#[track_caller]
fn wait_gone(pids: &[String]) {
    for pid in pids {
        wait_until("a process to be gone", || !exists(pid));
    }
}

#[test]
fn kill_9_of_a_node_ends_its_commands_with_all_they_started() {
    let server = server();
    let mut fleet = fleet_with(2, &server, "--interval 10ms --messages 1", HANG);
    let (worker, pids) = wait_output(&fleet, 0);
    assert!(
        pids.len() == 3 && pids.iter().all(|pid| exists(pid)),
        "{pids:?}"
    );
    let name = fs::read_to_string(format!("/proc/{}/comm", pids[1])).unwrap();
    assert_eq!(name, "baton-exec\n");
    fleet.kill9(worker).unwrap();
    wait_gone(&pids);
}

#[test]
fn no_command_runs_beside_the_next_attempt() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    // The second attempt looks at what is left of the first.
    let command = format!(
        r#"cd {}
        if [ $BATON_ATTEMPT = 1 ]; then
            trap '' TERM; sleep 1000 & echo $$ $! > pids; echo begun; wait; sleep 1000
        fi
        for pid in $(cat pids); do
            state=$(sed 's/.*) //; s/ .*//' /proc/$pid/stat 2>/dev/null)
            case "$state" in ''|Z|X) ;; *) echo beside $pid; exit 0;; esac
        done
        echo alone"#,
        folder.path().display()
    );
    let mut fleet = fleet_with(3, &server, "--interval 10ms --messages 1", &command);
    let (worker, words) = wait_output(&fleet, 0);
    assert_eq!(words, ["begun"]);
    let mark = fleet.mark();
    fleet.kill9(worker).unwrap();
    let (other, words) = wait_output(&fleet, mark);
    assert_eq!(words, ["alone"]);
    assert_ne!(other, worker);
    wait_status(&server, "it to end", |status| status.done == 1);
}

#[test]
fn a_node_that_stops_kills_what_does_not_end_and_gives_its_message_back() {
    let server = server();
    let mut fleet = fleet_with(2, &server, "--interval 10ms --messages 1", HANG);
    let (worker, pids) = wait_output(&fleet, 0);
    fleet.terminate(worker).unwrap();
    assert_eq!(fleet.wait(worker).unwrap(), Some(0));
    wait_gone(&pids);
    let status = status(&server);
    assert_eq!((status.pending, status.claimed, status.failed), (1, 0, 0));
}

#[test]
fn a_second_signal_ends_the_commands_of_a_node_too() {
    let server = server();
    let mut fleet = fleet_with(2, &server, "--interval 10ms --messages 1", HANG);
    let (worker, pids) = wait_output(&fleet, 0);
    fleet.terminate(worker).unwrap();
    fleet.interrupt_copy(worker).unwrap();
    assert_ne!(fleet.wait(worker).unwrap(), Some(0));
    wait_gone(&pids);
}

#[test]
fn a_stopping_worker_lets_its_command_finish() {
    let server = server();
    let command = "echo begun; sleep 0.5; echo ended";
    let mut fleet = fleet_with(2, &server, "--interval 10ms --messages 1", command);
    let (worker, _) = wait_output(&fleet, 0);
    fleet.terminate(worker).unwrap();
    assert_eq!(fleet.wait(worker).unwrap(), Some(0));
    let status = status(&server);
    assert_eq!((status.done, status.pending), (1, 0), "{status:?}");
}

#[test]
fn effects_of_commands_are_exact_while_their_nodes_are_killed() {
    const MESSAGES: u64 = 400;
    let server = server();
    let command = r#"echo '["INCRBY","counted",1]' > $BATON_EFFECTS
        echo "[\"RPUSH\",\"seen\",$BATON_SEQ]" >> $BATON_EFFECTS"#;
    let args = format!("--interval 2ms --messages {MESSAGES} --concurrency 3");
    let mut fleet = fleet_with(4, &server, &args, command);
    for round in 1..=4 {
        let ended = |status: &baton::inspect::Snapshot| status.done >= round * MESSAGES / 6;
        wait_status(&server, "some to end", ended);
        let victim = workers(&fleet)[0];
        fleet.kill9(victim).unwrap();
        fleet.start().unwrap();
    }
    let status = wait_status(&server, "all to end", |status| {
        status.done + status.failed == MESSAGES
    });
    assert_eq!((status.failed, status.balanced), (0, true), "{status:?}");
    let mut redis = redis(&server);
    assert_eq!(redis.get("counted"), Ok(MESSAGES));
    let mut seen: Vec<u64> = redis.lrange("seen", 0, -1).unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (1..=MESSAGES).collect::<Vec<_>>());
}

#[test]
fn effects_of_commands_are_exact_while_their_folders_are_removed() {
    const MESSAGES: u64 = 200;
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let command = r#"echo '["INCRBY","counted",1]' >> $BATON_EFFECTS; exit 0"#;
    let args = format!("--interval 5ms --messages {MESSAGES} --concurrency 3");
    let mut fleet = fleet_with(0, &server, &args, command);
    for _ in 0..3 {
        let tmpdir = folder.path().to_str().unwrap().into();
        fleet
            .start_with(baton_processes::Own {
                env: vec![("TMPDIR".into(), tmpdir)],
                ..Default::default()
            })
            .unwrap();
    }
    for round in 1..=4 {
        let ended = |status: &baton::inspect::Snapshot| status.done >= round * MESSAGES / 6;
        wait_status(&server, "some to end", ended);
        for entry in fs::read_dir(folder.path()).unwrap() {
            // A command may make a file at the same moment.
            let _ = fs::remove_dir_all(entry.unwrap().path());
        }
    }
    let status = wait_status(&server, "all to end", |status| {
        status.done + status.failed == MESSAGES
    });
    assert_eq!((status.failed, status.balanced), (0, true), "{status:?}");
    assert_eq!(redis(&server).get("counted"), Ok(MESSAGES));
}

#[test]
fn a_worker_runs_as_many_commands_at_once_as_it_has_lanes() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    // Each command waits until four have begun.
    let command = format!(
        "cd {}; touch $BATON_SEQ; until [ $(ls | wc -l) -ge 4 ]; do sleep 0.01; done",
        folder.path().display()
    );
    let args = "--interval 1ms --messages 4 --concurrency 4";
    let fleet = fleet_with(2, &server, args, &command);
    wait_status(&server, "all to end", |status| status.done == 4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    drop(fleet);
}

#[test]
fn nodes_leave_no_folder_of_effects_behind() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let own = || baton_processes::Own {
        env: vec![("TMPDIR".into(), folder.path().to_str().unwrap().into())],
        ..Default::default()
    };
    let mut fleet = fleet_with(
        0,
        &server,
        "--interval 5ms",
        "echo x > $BATON_EFFECTS; exit 65",
    );
    for _ in 0..3 {
        fleet.start_with(own()).unwrap();
    }
    wait_status(&server, "some to fail", |status| status.failed >= 10);
    let workers = workers(&fleet);
    assert!(fs::read_dir(folder.path()).unwrap().count() > 0);
    fleet.terminate(workers[0]).unwrap();
    assert_eq!(fleet.wait(workers[0]).unwrap(), Some(0));
    drop(fleet);
    let is_empty = || fs::read_dir(folder.path()).unwrap().next().is_none();
    wait_until("all folders to be removed", is_empty);
}

#[test]
fn effects_that_cannot_be_written_fail_their_message_alone() {
    let server = server();
    let mut redis = redis(&server);
    let other = "baton:{other:0}:fence";
    redis.hset::<_, _, _, ()>(other, "epoch", 7).unwrap();
    redis.rpush::<_, _, ()>("list", "first").unwrap();
    let command = r#"case $BATON_SEQ in
        1) echo 'counted += 1';;
        2) echo '["DEL","baton:{other:0}:fence"]';;
        3) echo '["SET","half","written"]'; echo '["INCRBY","list",1]';;
        *) echo '["RPUSH","list","last"]';;
        esac > "$BATON_EFFECTS""#;
    let _fleet = fleet_with(2, &server, "--interval 10ms --messages 4", command);
    let status = wait_status(&server, "all to end", |status| {
        status.done + status.failed == 4
    });
    assert_eq!((status.done, status.failed), (1, 3), "{status:?}");
    let failed = failed(&server);
    let reasons: Vec<&str> = failed.iter().map(|failed| failed.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "effects, line 1: not a command such as [\"INCRBY\",\"counted\",1]: expected value",
            "effects, line 1: \"baton:{other:0}:fence\" belongs to a fleet",
            "its effects were refused: list: holds a list, INCRBY needs a string",
        ]
    );
    assert!(failed.iter().all(|failed| !failed.text.is_empty()));
    assert_eq!(redis.hget(other, "epoch"), Ok(7));
    assert_eq!(redis.exists("half"), Ok(false));
    let list: Vec<String> = redis.lrange("list", 0, -1).unwrap();
    assert_eq!(list, ["first", "last"]);
}

#[test]
fn a_command_that_hangs_or_fails_has_its_attempts_and_then_goes_to_errors() {
    let server = server();
    let command = "[ $BATON_SEQ = 1 ] && exec sleep 1000; echo attempt $BATON_ATTEMPT >&2; exit 75";
    let args = "--interval 10ms --messages 2 --attempts 2 --backoff 10ms..20ms --timeout 300ms";
    let _fleet = fleet_with(2, &server, args, command);
    let status = wait_status(&server, "all to fail", |status| status.failed == 2);
    assert_eq!((status.done, status.delayed), (0, 0), "{status:?}");
    let failed = failed(&server);
    let reasons = |failed: &FailedMessage| (failed.first_reason.clone(), failed.reason.clone());
    let timed_out = "timed out after 300ms".to_owned();
    assert_eq!(reasons(&failed[0]), (timed_out.clone(), timed_out));
    let attempt = |attempt: u64| format!("exit code 75: attempt {attempt}");
    assert_eq!(reasons(&failed[1]), (attempt(1), attempt(2)));
    assert!(
        failed.iter().all(|failed| failed.attempt == 2),
        "{failed:?}"
    );
}

#[test]
fn a_baton_that_a_command_starts_is_not_confused_by_the_variables_of_the_command() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("errors");
    // The last message looks at all that failed before it. If one claim has all three, they fail only
    // when its lane finds the last one slow.
    let command = format!(
        r#"[ $BATON_SEQ -lt 3 ] && exit 65
        until grep -q ^2 {file}; do
            {} errors --by reason --redis {} > {file} 2>&1
        done"#,
        env!("CARGO_BIN_EXE_baton"),
        server.url(),
        file = file.display()
    );
    let _fleet = fleet_with(2, &server, "--interval 10ms --messages 3", &command);
    wait_status(&server, "all to end", |status| {
        (status.done, status.failed) == (1, 2)
    });
    let seen = fs::read_to_string(&file).unwrap();
    assert!(
        seen.starts_with("2\t") && seen.contains("exit code"),
        "{seen}"
    );
}
