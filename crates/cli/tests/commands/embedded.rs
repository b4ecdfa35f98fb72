//! The server that `baton run` starts when there is no other.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
    for part in [
        "so this node started one",
        &machine.port,
        "baton server stop",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert!(
        said.contains(machine.data.path().join("baton").to_str().unwrap()),
        "{said}"
    );
    // A password that is meant for another server does not lock a user out of this one.
    let mut status = machine.baton(&["status"]);
    status.env("REDIS_PASSWORD", "for another server");
    let status = run(status);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    status.says("appendonly yes");

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
        "the server is not running\n"
    );
    // The data stays.
    assert!(Path::new(machine.data.path()).join("baton/server").is_dir());
}

/// The id of a user that owns nothing.
const OTHER_USER: u32 = 65534;

#[test]
fn another_user_of_the_machine_is_not_let_in_and_reads_why() {
    if !rustix::process::geteuid().is_root() {
        // Not `eprintln!`, which the test runner keeps to itself when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: only root can be another user, so it is not seen that none gets in"
        );
        return;
    }
    let machine = Machine::new();
    let (node, _) = machine.start_node();
    // What is built may lie where no other user can enter.
    let other = tempfile::tempdir().unwrap();
    let program = other.path().join("baton");
    fs::copy(env!("CARGO_BIN_EXE_baton"), &program).unwrap();
    fs::set_permissions(other.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let as_other = |args: &[&str]| {
        let mut command = Command::new(&program);
        command
            .args(args)
            .uid(OTHER_USER)
            .gid(OTHER_USER)
            .env_clear()
            .env("XDG_DATA_HOME", other.path())
            .env("BATON_EMBEDDED_PORT", &machine.port)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        run(command)
    };
    let addr = format!("localhost:{}", machine.port);
    for args in [
        &["run"][..],
        &["getErrors"],
        &["status"],
        &["clean"],
        &["errors", "--addr", &addr],
    ] {
        let ended = as_other(args);
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(1), ""),
            "{args:?}"
        );
        for part in ["wants a password", "another user's `baton run`"] {
            ended.complains(part);
        }
    }
    let ended = as_other(&["server", "stop"]);
    assert_eq!(ended.code, Some(1));
    ended.complains("left alone");
    let password = machine.data.path().join("baton/server/password");
    let read = Command::new("cat")
        .arg(&password)
        .uid(OTHER_USER)
        .gid(OTHER_USER)
        .output()
        .unwrap();
    assert_eq!((read.status.code(), read.stdout), (Some(1), vec![]));

    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
    // Its own user gets in by every name of it.
    for args in [&["status"][..], &["status", "--addr", &addr], &["errors"]] {
        let ended = run(machine.baton(args));
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn the_status_of_the_server_says_how_to_reach_it_and_not_its_password() {
    let machine = Machine::new();
    let (node, _) = machine.start_node();
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
    let file = fs::canonicalize(machine.data.path().join("baton/server/password")).unwrap();
    let status = run(machine.baton(&["server", "status"])).stdout;
    let access = format!(
        "access   REDISCLI_AUTH=\"$(cat '{}')\" redis-cli -p {}\n",
        file.display(),
        machine.port
    );
    assert!(status.ends_with(&access), "{status}");
    let password = fs::read_to_string(file).unwrap();
    assert!(!status.contains(password.trim()));
    let url = format!("redis://:{}@127.0.0.1:{}", password.trim(), machine.port);
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    redis::cmd("PING").exec(&mut connection).unwrap();
}

#[test]
fn a_command_for_the_server_refuses_the_address_of_another() {
    let machine = Machine::new();
    let (node, _) = machine.start_node();
    for flags in [
        ["--addr", "example.org:6379"],
        ["--redis", "redis://127.0.0.1:1"],
        ["--port", "1"],
    ] {
        for what in ["stop", "status"] {
            let ended = run(machine.baton(&["server", what, flags[0], flags[1]]));
            assert_eq!(
                (ended.code, ended.stdout.as_str()),
                (Some(2), ""),
                "{flags:?}"
            );
            ended.complains("controls only the server");
        }
    }
    assert_eq!(run(machine.baton(&["server", "status"])).code, Some(0));
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
    let addr = format!("localhost:{}", machine.port);
    let stopped = run(machine.baton(&["server", "stop", "--addr", &addr]));
    assert!(
        stopped.stdout.starts_with("stopped the server"),
        "{stopped:?}"
    );
}

#[test]
fn a_port_whose_holder_answers_nothing_is_named_while_the_program_waits() {
    let machine = Machine::new();
    // The system accepts connections for it; it never reads one.
    let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = holder.local_addr().unwrap().to_string();
    let began = Instant::now();
    let mut node = machine.baton(&["run"]);
    node.env(
        "BATON_EMBEDDED_PORT",
        holder.local_addr().unwrap().port().to_string(),
    );
    let mut node = node.spawn().unwrap();
    let line = read_line(node.stderr.as_mut().unwrap());
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert!(
        line.contains(&addr) && line.contains("does not answer"),
        "{line}"
    );
    let ended = end(node);
    assert_eq!(ended.code, Some(1));
    ended.complains("is taken");
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );

    let mut status = machine.baton(&["status"]);
    status.env(
        "BATON_EMBEDDED_PORT",
        holder.local_addr().unwrap().port().to_string(),
    );
    let ended = run(status);
    assert_eq!(ended.code, Some(1));
    ended.complains(&addr);

    let ended = run(machine.baton(&["status", "--addr", &addr]));
    assert_eq!(ended.code, Some(1));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        lines[0].contains("no answer from") && lines[0].contains(&addr),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("cannot use") && lines[1].contains(&addr),
        "{lines:?}"
    );
}

#[test]
fn a_server_that_is_not_ours_is_not_stopped() {
    let machine = Machine::new();
    let other = crate::support::server();
    let mut command = machine.baton(&["server", "stop"]);
    command.env("BATON_EMBEDDED_PORT", other.port().unwrap().to_string());
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    ended.complains("it was left alone");
}

#[test]
fn without_a_server_program_a_node_says_how_to_get_one() {
    let machine = Machine::new();
    let mut command = machine.baton(&["run"]);
    command.env("BATON_SERVER_PROGRAM", "/no/such/program");
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    for part in ["no Redis answers", "/no/such/program", "--redis"] {
        ended.complains(part);
    }
}
