//! Commands as a node runs them: real processes, a real supervisor.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use baton::{Effects, HandlerError};
use baton_exec::Exec;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use support::{Heard, Outcome, handle, handler, message, wait_until};

/// What the handlers of these tests start as their supervisor.
#[test]
#[ignore = "the other tests start it as a process"]
fn supervisor() {
    // Without a node there is nothing to do.
    let _ = baton_exec::supervise();
}

#[tokio::test]
async fn a_command_gets_the_exact_bytes_and_then_the_end() {
    let text: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let handler = handler(Exec::program([
        "/bin/sh".into(),
        "-c".into(),
        "cat > \"$0\"".into(),
        copy.clone().into_os_string(),
    ]));
    assert_eq!(handle(&handler, &text).await, Outcome::Done);
    assert_eq!(std::fs::read(copy).unwrap(), text);
    assert_eq!(handle(&handler, b"").await, Outcome::Done);
}

#[tokio::test]
async fn a_command_knows_its_message() {
    let heard = Heard::default();
    let script =
        "echo $BATON_SEQ $BATON_PARTITION $BATON_KEY $BATON_ATTEMPT; echo $BATON_DEADLINE_MS";
    let exec = Exec::shell(script).timeout(Duration::from_secs(30));
    let handler = heard.handler(exec);
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    let lines = heard.lines();
    assert_eq!(lines[0], format!("7: 7 3 {} 1", message(b"x").key()));
    let deadline_ms: u128 = lines[1].strip_prefix("7: ").unwrap().parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let left_ms = deadline_ms - now.unwrap().as_millis();
    assert!((20_000..=30_000).contains(&left_ms), "{left_ms}");
}

#[tokio::test]
async fn exit_codes_decide_what_becomes_of_the_message() {
    for (script, outcome) in [
        ("exit 0", Outcome::Done),
        (
            "echo bad >&2; exit 65",
            Outcome::rejected("exit code 65: bad"),
        ),
        (
            "echo busy >&2; exit 75",
            Outcome::later("exit code 75: busy"),
        ),
        ("exit 1", Outcome::later("exit code 1")),
        ("exit 255", Outcome::later("exit code 255")),
        ("kill -9 $$", Outcome::later("killed by SIGKILL")),
        (
            "echo oops >&2; kill -SEGV $$",
            Outcome::later("killed by SIGSEGV: oops"),
        ),
        ("exit 126", Outcome::unavailable("exit code 126")),
        (
            "exec 2>/dev/null; exec /no/such",
            Outcome::unavailable("exit code 127"),
        ),
    ] {
        let handler = handler(Exec::shell(script));
        assert_eq!(handle(&handler, b"x").await, outcome, "{script}");
    }
}

#[tokio::test]
async fn a_program_that_cannot_start_burns_no_message() {
    let missing = handler(Exec::program(["/no/such/program"]));
    let reason = "cannot start /no/such/program: No such file or directory (os error 2)";
    assert_eq!(handle(&missing, b"x").await, Outcome::unavailable(reason));

    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let plain_file = handler(Exec::program([&plain]));
    let reason = format!(
        "cannot start {}: Permission denied (os error 13)",
        plain.display()
    );
    assert_eq!(
        handle(&plain_file, b"x").await,
        Outcome::unavailable(&reason)
    );

    let nowhere = Exec::shell("true").handler(|| Command::new("/no/such/supervisor"), |_, _| {});
    let Outcome::Unavailable(reason) = handle(&nowhere, b"x").await else {
        panic!("a message was burnt");
    };
    assert!(reason.contains("No such file"), "{reason}");
}

#[tokio::test]
async fn each_line_of_stdout_is_passed_on_and_a_long_one_is_cut() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell("echo one; printf 'two\\r\\n'; printf end"));
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    assert_eq!(heard.lines(), ["7: one", "7: two", "7: end"]);

    let heard = Heard::default();
    let handler = heard.handler(Exec::shell(
        "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end",
    ));
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    let cut = format!("7: {}…", "x".repeat(4096));
    assert_eq!(heard.lines(), [cut.as_str(), "7: end"]);
}

#[tokio::test]
async fn the_reason_is_the_end_of_stderr() {
    let script = "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1";
    let Outcome::Later(reason) = handle(&handler(Exec::shell(script)), b"x").await else {
        panic!("not tried again");
    };
    let tail = reason.strip_prefix("exit code 1: line ").unwrap();
    assert!(
        tail.ends_with("\nline 1999") && tail.len() <= 4096,
        "{reason}"
    );
}

#[tokio::test]
async fn a_gibibyte_of_output_takes_no_memory_and_does_not_fill_the_log() {
    let heard = Heard::default();
    let script = "head -c 268435456 /dev/zero >&2; yes | head -c 1073741824; exit 1";
    let handler = heard.handler(Exec::shell(script));
    let before_kib = support::peak_memory_kib();
    let outcome = handle(&handler, b"x").await;
    assert!(matches!(outcome, Outcome::Later(_)), "{outcome:?}");
    let grown_kib = support::peak_memory_kib() - before_kib;
    assert!(grown_kib < 100 << 10, "{grown_kib} KiB");
    let lines = heard.lines();
    assert_eq!(lines.len(), (1 << 19) + 1);
    let left_out = (1 << 30) - (1 << 20);
    assert_eq!(
        lines.last().unwrap(),
        &format!("7: … and {left_out} bytes more")
    );
}

#[tokio::test]
async fn a_command_that_reads_nothing_or_closes_its_input_is_done() {
    let text = vec![b'x'; 1 << 20];
    for script in [
        "true",
        "exec <&-",
        "head -c 1 >/dev/null",
        "exec <&- >&- 2>&-",
    ] {
        assert_eq!(
            handle(&handler(Exec::shell(script)), &text).await,
            Outcome::Done,
            "{script}"
        );
    }
}

#[tokio::test]
async fn effects_are_staged_only_after_exit_0() {
    let lines = r#"echo '["INCRBY","counted",1]' >> $BATON_EFFECTS;
        echo '["HSET","h","f","v"]' >> $BATON_EFFECTS;"#;
    let mut expected = Effects::default();
    expected.incr_by("counted", 1);
    expected.hset("h", "f", "v");
    for (end, outcome, expected) in [
        ("exit 0", Outcome::Done, expected),
        (
            "exit 75",
            Outcome::later("exit code 75"),
            Effects::default(),
        ),
    ] {
        let handler = handler(Exec::shell(format!("{lines} {end}")));
        let mut effects = Effects::default();
        let ended = baton::Handler::handle(&handler, message(b"x"), &mut effects).await;
        assert_eq!(Outcome::from(ended), outcome);
        assert_eq!(effects, expected);
    }
}

#[tokio::test]
async fn effects_that_cannot_be_read_reject_the_message() {
    for (write, reason) in [
        ("echo 'counted += 1'", "effects, line 1: not a command"),
        (
            "printf '\\n[\"FLUSHALL\"]\\n'",
            "effects, line 2: \"FLUSHALL\" is no known command",
        ),
        (
            "echo '[\"INCRBY\",\"counted\"]'",
            "effects, line 1: INCRBY does not take 1 arguments",
        ),
        (
            "echo '[\"DEL\",\"baton:{other}:queue\"]'",
            "effects, line 1: \"baton:{other}:queue\" belongs to a fleet",
        ),
        (
            "head -c 2000000 /dev/zero",
            "$BATON_EFFECTS has more than 1 MiB",
        ),
    ] {
        let handler = handler(Exec::shell(format!("{write} > $BATON_EFFECTS")));
        let Outcome::Rejected(found) = handle(&handler, b"x").await else {
            panic!("{write} is not rejected");
        };
        assert!(found.starts_with(reason), "{found}");
    }
    let fifo = handler(Exec::shell("rm $BATON_EFFECTS; mkfifo $BATON_EFFECTS"));
    let outcome = handle(&fifo, b"x").await;
    assert_eq!(
        outcome,
        Outcome::rejected("$BATON_EFFECTS is not a file any more")
    );
}

#[tokio::test]
async fn no_message_is_done_while_its_effects_may_be_lost() {
    // The first command removes the folder of all.
    let script = r#"if [ $BATON_SEQ = 1 ]; then rm -r $(dirname $BATON_EFFECTS); fi
        echo '["INCRBY","counted",1]' >> $BATON_EFFECTS; exit 0"#;
    let handler = handler(Exec::shell(script));
    let mut outcomes = Vec::new();
    let mut expected = Effects::default();
    expected.incr_by("counted", 1);
    for seq in [0, 1, 2] {
        let mut effects = Effects::default();
        let next = baton::Message::new(seq, b"x");
        let ended = baton::Handler::handle(&handler, next, &mut effects).await;
        assert_eq!(effects == expected, ended.is_ok());
        outcomes.push(Outcome::from(ended));
    }
    let gone = Outcome::unavailable("the folder of effects is gone");
    assert_eq!(outcomes, [Outcome::Done, gone, Outcome::Done]);
}

#[tokio::test]
async fn a_folder_of_effects_that_goes_away_between_two_commands_is_made_again() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell("dirname $BATON_EFFECTS; ls $BATON_EFFECTS"));
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    let folder = heard.lines()[0].strip_prefix("7: ").unwrap().to_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    let gone = "cannot start /bin/sh: the folder of effects is gone";
    assert_eq!(handle(&handler, b"x").await, Outcome::unavailable(gone));
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    let lines = heard.lines();
    assert_eq!(lines.len(), 4, "the command ran twice: {lines:?}");
    assert_ne!(lines[2], lines[0]);
    drop(handler);
    let folder = lines[2].strip_prefix("7: ").unwrap();
    assert!(!std::path::Path::new(folder).exists());
}

#[tokio::test]
async fn a_command_that_removes_its_effects_file_is_tried_again() {
    let handler = handler(Exec::shell("rm $BATON_EFFECTS"));
    let outcome = handle(&handler, b"x").await;
    assert_eq!(outcome, Outcome::later("$BATON_EFFECTS was removed"));
}

#[tokio::test]
async fn a_command_that_takes_too_long_gets_sigterm_and_its_attempt_counts() {
    let script = "trap 'echo asked to stop >&2; exit 0' TERM; sleep 100 & wait";
    let exec = Exec::shell(script).timeout(Duration::from_millis(300));
    let outcome = handle(&handler(exec), b"x").await;
    assert_eq!(
        outcome,
        Outcome::later("timed out after 300ms: asked to stop")
    );
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_with_all_it_started() {
    let heard = Heard::default();
    let script = "trap '' TERM; sleep 1000 & echo $!; echo $$; wait; sleep 1000";
    let exec = Exec::shell(script)
        .timeout(Duration::from_millis(300))
        .kill_after(Duration::from_millis(300));
    let handler = heard.handler(exec);
    let began = Instant::now();
    assert_eq!(
        handle(&handler, b"x").await,
        Outcome::later("timed out after 300ms")
    );
    assert!(began.elapsed() >= Duration::from_millis(600));
    for line in heard.lines() {
        let pid = line.strip_prefix("7: ").unwrap().to_owned();
        wait_until("all is reaped", || !support::exists(&pid)).await;
    }
}

#[tokio::test]
async fn a_command_that_leaves_a_process_behind_ends_and_the_process_too() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell("sleep 1000 & echo $!"));
    let began = Instant::now();
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    // The sleep holds both pipes, for which the node waits a second.
    let took = began.elapsed();
    assert!((1..5).contains(&took.as_secs()), "{took:?}");
    let pid = heard.lines()[0].strip_prefix("7: ").unwrap().to_owned();
    wait_until("it is killed", || !support::exists(&pid)).await;
}

#[tokio::test]
async fn late_output_of_a_process_left_behind_is_still_read() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell("(sleep 0.2; echo late) & exit 0"));
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    assert_eq!(heard.lines(), ["7: late"]);
}

#[tokio::test]
async fn dropping_the_future_kills_the_command() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell(
        "trap '' TERM; echo $$; sleep 1000 & echo $!; wait",
    ));
    {
        let handling = std::pin::pin!(handle(&handler, b"x"));
        let two_lines = wait_until("two lines", || heard.lines().len() == 2);
        tokio::select! {
            _ = handling => panic!("it ended"),
            () = two_lines => {}
        }
    }
    for line in heard.lines() {
        let pid = line.strip_prefix("7: ").unwrap().to_owned();
        wait_until("all is killed and reaped", || !support::exists(&pid)).await;
    }
}

#[tokio::test]
async fn a_supervisor_that_dies_takes_its_commands_along_and_is_replaced() {
    let heard = Heard::default();
    let script = "if [ $BATON_SEQ = 7 ]; then echo $PPID; echo $$; sleep 1000; fi";
    let handler = heard.handler(Exec::shell(script));
    let handling = async {
        let outcome = handle(&handler, b"x").await;
        assert_eq!(
            outcome,
            Outcome::unavailable("the supervisor of its command died")
        );
    };
    let killing = async {
        wait_until("two lines", || heard.lines().len() == 2).await;
        support::kill9(heard.lines()[0].strip_prefix("7: ").unwrap());
    };
    tokio::join!(handling, killing);
    let pid = heard.lines()[1].strip_prefix("7: ").unwrap().to_owned();
    wait_until("the command is killed", || !support::runs(&pid)).await;

    let mut effects = Effects::default();
    let next = baton::Message::new(8, b"x");
    baton::Handler::handle(&handler, next, &mut effects)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_paused_supervisor_is_replaced_when_the_time_of_its_command_is_over() {
    let heard = Heard::default();
    let script = "if [ $BATON_SEQ = 7 ]; then echo $PPID; echo $$; sleep 1000; fi";
    let exec = Exec::shell(script)
        .timeout(Duration::from_millis(300))
        .kill_after(Duration::from_millis(300));
    let handler = heard.handler(exec);
    let pausing = async {
        wait_until("two lines", || heard.lines().len() == 2).await;
        support::pause(heard.lines()[0].strip_prefix("7: ").unwrap());
    };
    let handling = tokio::time::timeout(Duration::from_secs(60), handle(&handler, b"x"));
    let (outcome, ()) = tokio::join!(handling, pausing);
    let outcome = outcome.expect("a paused supervisor stalls its node");
    let reason = "the supervisor of its command did not answer and was killed";
    assert_eq!(outcome, Outcome::unavailable(reason));
    for line in heard.lines() {
        assert!(!support::runs(line.strip_prefix("7: ").unwrap()), "{line}");
    }
    let next = baton::Message::new(8, b"x");
    let ended = baton::Handler::handle(&handler, next, &mut Effects::default()).await;
    assert_eq!(Outcome::from(ended), Outcome::Done);
}

#[tokio::test]
async fn a_handler_that_ends_kills_a_paused_supervisor_with_its_commands() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell("echo $PPID; echo $$; sleep 1000"));
    {
        let handling = std::pin::pin!(handle(&handler, b"x"));
        tokio::select! {
            _ = handling => panic!("it ended"),
            () = wait_until("two lines", || heard.lines().len() == 2) => {}
        }
        support::pause(heard.lines()[0].strip_prefix("7: ").unwrap());
    }
    drop(handler);
    for line in heard.lines() {
        assert!(!support::runs(line.strip_prefix("7: ").unwrap()), "{line}");
    }
}

#[tokio::test]
async fn a_command_that_kills_its_supervisor_again_costs_its_message_an_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let harmless = folder.path().join("harmless");
    let script = format!("[ -e {} ] || kill -9 $PPID; sleep 1", harmless.display());
    let handler = handler(Exec::shell(script));
    let reason = "the supervisor of its command died";
    let (first, again) = (Outcome::unavailable(reason), Outcome::later(reason));
    assert_eq!(handle(&handler, b"x").await, first);
    assert_eq!(handle(&handler, b"x").await, again);
    assert_eq!(handle(&handler, b"x").await, again);
    let neighbour = baton::Message::new(8, b"x");
    let ended = baton::Handler::handle(&handler, neighbour, &mut Effects::default()).await;
    assert_eq!(Outcome::from(ended), first);

    std::fs::write(&harmless, "").unwrap();
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    std::fs::remove_file(&harmless).unwrap();
    assert_eq!(handle(&handler, b"x").await, first);
}

#[tokio::test]
async fn as_many_commands_run_at_once_as_messages_are_handled() {
    let folder = tempfile::tempdir().unwrap();
    let pair = folder.path().join("fifo");
    // Each end of the pipe waits until the other is open.
    let made = std::process::Command::new("mkfifo").arg(&pair).status();
    assert!(made.unwrap().success());
    let script = format!(
        "if [ $BATON_SEQ = 1 ]; then cat {0}; else echo met > {0}; fi",
        pair.display()
    );
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell(script));
    let (mut first, mut second) = (Effects::default(), Effects::default());
    let one = baton::Handler::handle(&handler, baton::Message::new(1, b""), &mut first);
    let two = baton::Handler::handle(&handler, baton::Message::new(2, b""), &mut second);
    let ended: (Result<(), HandlerError>, _) = tokio::join!(one, two);
    assert!(ended.0.is_ok() && ended.1.is_ok());
    assert_eq!(heard.lines(), ["1: met"]);
}

#[tokio::test]
async fn cleaners_of_old_files_find_the_folder_of_effects_locked() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell("dirname $BATON_EFFECTS"));
    assert_eq!(handle(&handler, b"x").await, Outcome::Done);
    let lines = heard.lines();
    let folder = std::fs::File::open(lines[0].strip_prefix("7: ").unwrap()).unwrap();
    let cleaner = FlockOperation::NonBlockingLockExclusive;
    assert_eq!(flock(&folder, cleaner), Err(Errno::WOULDBLOCK));
    drop(handler);
    assert_eq!(flock(&folder, cleaner), Ok(()));
}

#[tokio::test]
async fn a_handler_that_ends_leaves_no_process_and_no_folder() {
    let heard = Heard::default();
    let handler = heard.handler(Exec::shell(
        "echo $PPID; dirname $BATON_EFFECTS; echo x > $BATON_EFFECTS; exit 1",
    ));
    assert!(matches!(handle(&handler, b"x").await, Outcome::Later(_)));
    let lines = heard.lines();
    let value = |line: usize| lines[line].strip_prefix("7: ").unwrap().to_owned();
    let (pid, folder) = (value(0), value(1));
    let is_empty = || std::fs::read_dir(&folder).unwrap().next().is_none();
    wait_until("its effects file is removed", is_empty).await;
    drop(handler);
    assert!(!support::exists(&pid), "the supervisor is still there");
    assert!(!std::path::Path::new(&folder).exists());
}
