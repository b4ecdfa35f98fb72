//! Outputs that take nothing: no command panics, and exit codes stay true.

use std::fs::{File, OpenOptions};
use std::process::Stdio;

use baton_server::PrivateServer;

use crate::seeder::{Seeder, line, texts};
use crate::support::{baton, run, server};

fn dev_full() -> Stdio {
    OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe whose reader is gone.
fn broken_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

/// Takes the one failed message into a file, with this as stderr.
fn take_with_stderr(server: &PrivateServer, stderr: Stdio) {
    let mut seed = Seeder::new(server);
    seed.fail(&texts(1..=1));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("failed.txt");
    let mut command = baton(&["getErrors", "--redis", &server.url()]);
    command.stdout(File::create(&path).unwrap()).stderr(stderr);
    assert_eq!(run(command).code, Some(0));
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        format!("{}\n", line(1, "m1"))
    );
    assert_eq!(seed.waiting(), Vec::<String>::new());
}

#[test]
fn taking_succeeds_though_its_last_words_find_a_full_disk() {
    take_with_stderr(&server(), dev_full());
}

#[test]
fn taking_succeeds_though_nothing_reads_its_last_words() {
    take_with_stderr(&server(), broken_pipe());
}

#[test]
fn no_command_panics_whatever_becomes_of_its_words() {
    let server = server();
    Seeder::new(&server).fail(&texts(1..=3));
    let url = server.url();
    let commands = [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["--frobnicate"],
        &["getErrors", "--cleanTemp"],
        &["--redis", "redis://u:p@h:99999"],
        &["man"],
        &["completions", "bash"],
        &["errors", "--redis", &url],
        &["getErrors", "--redis", &url],
        &["status", "--redis", &url],
        &["status", "--json", "--redis", &url],
        &["clean", "--redis", &url],
        &["server", "status"],
        &["server", "stop"],
        &["status"],
        &["top"],
        &[
            "bench",
            "--messages",
            "2000",
            "--runs",
            "1",
            "--redis",
            &url,
        ],
        &["demo", "--redis", &url],
        &["run", "--redis", &url, "--http", "192.0.2.1:1"],
    ];
    // The demo takes its time: side by side.
    std::thread::scope(|scope| {
        for args in commands {
            for output in [dev_full, broken_pipe] {
                scope.spawn(move || {
                    let mut command = baton(args);
                    command.stdout(output()).stderr(output());
                    let code = run(command).code;
                    assert!(matches!(code, Some(0..=2)), "{args:?}: {code:?}");
                });
            }
        }
    });
}

#[test]
fn help_that_was_not_written_is_a_failure_unless_its_reader_is_gone() {
    for args in [&["--help"][..], &["--version"], &["man"]] {
        let mut command = baton(args);
        command.stdout(dev_full());
        let ended = run(command);
        assert_eq!(ended.code, Some(1), "{args:?}");
        ended.complains("No space left");

        let mut command = baton(args);
        command.stdout(broken_pipe());
        let ended = run(command);
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}
