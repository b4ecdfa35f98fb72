//! The server that `baton run` starts when there is no other.

use std::path::Path;
use std::process::{Child, Command};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{baton, end, read_line, run, signal};

/// A machine of its own: a port and a folder for data. Its server ends with it.
struct Machine {
    port: String,
    data: TempDir,
}

impl Machine {
    fn new() -> Self {
        Self {
            port: baton_server::free_port().unwrap().to_string(),
            data: tempfile::tempdir().unwrap(),
        }
    }

    fn baton(&self, args: &[&str]) -> Command {
        let mut command = baton(args);
        command
            .env("BATON_EMBEDDED_PORT", &self.port)
            .env("XDG_DATA_HOME", self.data.path());
        command
    }

    fn start_node(&self) -> (Child, String) {
        let mut node = self.baton(&["--interval", "20ms"]).spawn().unwrap();
        let line = read_line(node.stdout.as_mut().unwrap());
        (node, line)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.baton(&["server", "stop"]).output();
    }
}

#[test]
fn a_node_starts_a_server_that_others_join_and_that_outlives_it() {
    let machine = Machine::new();
    let (mut first, line) = machine.start_node();
    assert!(line.contains("became generator, epoch 1"), "{line}");
    let (mut second, line) = machine.start_node();
    assert!(line.contains("works for "), "{line}");

    first.kill().unwrap();
    let said = end(first).stderr;
    for part in ["one was started", &machine.port, "baton server stop"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(
        said.contains(machine.data.path().join("baton").to_str().unwrap()),
        "{said}"
    );
    // A password that is meant for another server does not lock anybody out of this one.
    let mut status = machine.baton(&["status"]);
    status.env("REDIS_PASSWORD", "for another server");
    let status = run(status);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    assert!(
        status.stdout.contains("appendonly yes"),
        "{}",
        status.stdout
    );

    let stdout = second.stdout.as_mut().unwrap();
    while !read_line(stdout).contains("became generator, epoch 2") {}
    signal(&second, Signal::TERM);
    let ended = end(second);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));

    let running = run(machine.baton(&["server", "status"]));
    assert_eq!(running.code, Some(0));
    assert!(
        running.stdout.starts_with("server   running, pid "),
        "{}",
        running.stdout
    );
    let stopped = run(machine.baton(&["server", "stop"]));
    assert!(
        stopped.stdout.starts_with("stopped the server, pid "),
        "{}",
        stopped.stdout
    );
    let down = run(machine.baton(&["server", "status"]));
    assert_eq!(
        (down.code, down.stdout.starts_with("server   not running\n")),
        (Some(1), true)
    );
    assert_eq!(
        run(machine.baton(&["server", "stop"])).stdout,
        "the server does not run\n"
    );
    // The data stays.
    assert!(Path::new(machine.data.path()).join("baton/server").is_dir());
}

#[test]
fn a_server_that_is_not_ours_is_not_stopped() {
    let machine = Machine::new();
    let other = crate::support::server();
    let mut command = machine.baton(&["server", "stop"]);
    command.env("BATON_EMBEDDED_PORT", other.port().unwrap().to_string());
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("it is left alone"),
        "{}",
        ended.stderr
    );
}

#[test]
fn without_a_server_program_a_node_says_how_to_get_one() {
    let machine = Machine::new();
    let mut command = machine.baton(&["run"]);
    command.env("BATON_SERVER_PROGRAM", "/no/such/program");
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    for part in ["no Redis answers", "/no/such/program", "--redis"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
