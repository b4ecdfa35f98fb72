//! The embedded server, seen from outside: it outlives its starter, and is shared.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use baton_server::{
    EmbeddedServer, EmbeddedState, EmbeddedStatus, Error, PortUse, PrivateServer, Started, Stopped,
    find_program, free_port, probe_port,
};
use rustix::process::{Pid, Signal, getsid, kill_process};
use support::{ROLE, SecondProcess, command, command_with, lives, say, wait_for_go, wait_until};
use tempfile::TempDir;

/// An embedded server on a port and in a folder of its own, stopped at the end of the test.
struct Fixture {
    embedded: EmbeddedServer,
    port: u16,
    data: TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::on_port(free_port().unwrap())
    }

    fn on_port(port: u16) -> Fixture {
        // A space, because a home folder may have one, and macOS's data folder does.
        let data = tempfile::Builder::new()
            .prefix("baton test ")
            .tempdir()
            .unwrap();
        Fixture {
            embedded: EmbeddedServer::new(port, data.path().join("data")),
            port,
            data,
        }
    }

    fn folder(&self) -> std::path::PathBuf {
        self.data.path().join("data/server")
    }

    /// Sends a command with the server's password.
    fn command(&self, words: &[&str]) -> String {
        let password = self.embedded.password().unwrap();
        command_with(&self.embedded.url(), Some(&password), words).unwrap()
    }

    fn pid(&self) -> u32 {
        match self.embedded.status().state {
            EmbeddedState::Running { pid } => pid,
            state => panic!("it does not run: {state:?}"),
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.embedded.stop();
    }
}

fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn it_starts_once_is_joined_by_others_and_stops_once() {
    let fixture = Fixture::new();
    let embedded = &fixture.embedded;
    let down = EmbeddedStatus {
        state: EmbeddedState::Down,
        port: fixture.port,
        data_dir: fixture.data.path().join("data"),
        program: Some(find_program().unwrap()),
        aof_bytes: 0,
        password_file: None,
    };
    assert_eq!(embedded.status(), down);
    assert_eq!(embedded.stop().unwrap(), Stopped::NotRunning);

    assert_eq!(embedded.start().unwrap(), Started::Here);
    assert_eq!(embedded.start().unwrap(), Started::Joined);
    assert_eq!(fixture.command(&["SET", "key", "value"]), "OK");
    let pid = fixture.pid();
    wait_until("the data is in the file", || {
        embedded.status().aof_bytes > 0
    });
    let running = embedded.status();
    assert!(running.is_running());
    assert_eq!(
        running,
        EmbeddedStatus {
            state: EmbeddedState::Running { pid },
            aof_bytes: running.aof_bytes,
            password_file: Some(fs::canonicalize(fixture.folder()).unwrap().join("password")),
            ..down.clone()
        }
    );

    assert_eq!(embedded.stop().unwrap(), Stopped::Ended { pid });
    assert!(!lives(pid));
    assert_ne!(probe_port(fixture.port), PortUse::Server);
    let stopped = embedded.status();
    assert!(!stopped.is_running());
    assert_eq!(
        stopped,
        EmbeddedStatus {
            aof_bytes: stopped.aof_bytes,
            ..down
        }
    );
    assert_eq!(embedded.stop().unwrap(), Stopped::NotRunning);
}

#[test]
fn its_settings_keep_the_data_safe_and_private() {
    let fixture = Fixture::new();
    assert_eq!(fixture.embedded.start().unwrap(), Started::Here);

    assert_eq!(mode(&fixture.data.path().join("data")), 0o700);
    assert_eq!(mode(&fixture.folder()), 0o700);
    assert!(fixture.embedded.log_path().exists());
    for (name, value) in [
        ("bind", "127.0.0.1"),
        ("protected-mode", "yes"),
        ("appendonly", "yes"),
        ("appendfsync", "everysec"),
        ("maxmemory-policy", "noeviction"),
        ("save", ""),
    ] {
        let answer = fixture.command(&["CONFIG", "GET", name]);
        assert_eq!(answer, format!("{name} {value}"));
    }
}

#[test]
fn it_lets_in_only_those_who_can_read_its_folder() {
    let fixture = Fixture::new();
    assert_eq!(fixture.embedded.password(), None);
    assert_eq!(fixture.embedded.start().unwrap(), Started::Here);
    let password = fixture.embedded.password().unwrap();

    let without = command(&fixture.embedded.url(), &["GET", "key"]).unwrap();
    assert!(without.starts_with("-NOAUTH"), "{without}");
    assert_eq!(mode(&fixture.folder().join("password")), 0o600);
    assert_eq!(mode(&fixture.folder().join("server.conf")), 0o600);
    let line = fs::read(format!("/proc/{}/cmdline", fixture.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains(&password));

    // A node that waits for the server to come back knows the old one.
    assert!(matches!(
        fixture.embedded.stop().unwrap(),
        Stopped::Ended { .. }
    ));
    assert_eq!(fixture.embedded.password(), None);
    assert_eq!(fixture.embedded.start().unwrap(), Started::Here);
    assert_eq!(fixture.embedded.password(), Some(password.clone()));

    // Without its file the server is still ours, and its next start has a new one.
    fs::write(fixture.folder().join("password"), &password[..40]).unwrap();
    assert_eq!(fixture.embedded.password(), None);
    let pid = fixture.pid();
    assert_eq!(fixture.embedded.stop().unwrap(), Stopped::Ended { pid });
    assert_eq!(fixture.embedded.start().unwrap(), Started::Here);
    let next = fixture.embedded.password().unwrap();
    assert_ne!(next, password);
    assert_eq!(fixture.command(&["PING"]), "PONG");
}

#[test]
fn a_server_of_an_older_version_without_a_password_is_joined_as_it_is() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.folder()).unwrap();
    let folder = fs::canonicalize(fixture.folder()).unwrap();
    let ran = Command::new(find_program().unwrap())
        .args(["--port", &fixture.port.to_string(), "--bind", "127.0.0.1"])
        .args(["--daemonize", "yes", "--set-proc-title", "no"])
        .args(["--save", "", "--appendonly", "yes"])
        .arg("--dir")
        .arg(&folder)
        .arg("--pidfile")
        .arg(folder.join("server.pid"))
        .arg("--logfile")
        .arg(folder.join("server.log"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    wait_until("it answers", || fixture.embedded.status().is_running());
    assert_eq!(fixture.embedded.start().unwrap(), Started::Joined);
    assert_eq!(fixture.embedded.password(), None);
    assert_eq!(fixture.embedded.status().password_file, None);
    let answer = command(&fixture.embedded.url(), &["SET", "old", "1"]);
    assert_eq!(answer.unwrap(), "OK");

    let pid = fixture.pid();
    assert_eq!(fixture.embedded.stop().unwrap(), Stopped::Ended { pid });
    assert_eq!(fixture.embedded.start().unwrap(), Started::Here);
    let answer = command(&fixture.embedded.url(), &["GET", "old"]).unwrap();
    assert!(answer.starts_with("-NOAUTH"), "{answer}");
    assert_eq!(fixture.command(&["GET", "old"]), "1");
}

#[test]
fn the_data_survives_a_stop_and_a_crash() {
    let fixture = Fixture::new();
    let embedded = &fixture.embedded;
    assert_eq!(embedded.start().unwrap(), Started::Here);
    assert_eq!(fixture.command(&["SET", "first", "1"]), "OK");
    assert!(matches!(embedded.stop().unwrap(), Stopped::Ended { .. }));

    assert_eq!(embedded.start().unwrap(), Started::Here);
    assert_eq!(fixture.command(&["GET", "first"]), "1");
    assert_eq!(fixture.command(&["SET", "second", "2"]), "OK");
    let pid = fixture.pid();
    kill_process(as_pid(pid), Signal::KILL).unwrap();
    wait_until("the server is gone", || !lives(pid));
    assert!(
        fixture.folder().join("server.pid").exists(),
        "a crash leaves the pid file behind"
    );
    assert_eq!(embedded.status().state, EmbeddedState::Down);

    assert_eq!(embedded.start().unwrap(), Started::Here);
    assert_eq!(fixture.command(&["GET", "first"]), "1");
    assert_eq!(fixture.command(&["GET", "second"]), "2");
}

#[test]
fn it_outlives_the_process_that_started_it_in_a_session_of_its_own() {
    let fixture = Fixture::new();
    let mut starter = start_together(&[&fixture]).remove(0);
    assert_eq!(starter.hear(), "Here");
    let pid = fixture.pid();
    assert_eq!(getsid(Some(as_pid(pid))).unwrap(), as_pid(pid));

    starter.kill9();

    assert_eq!(fixture.command(&["PING"]), "PONG");
    assert_eq!(fixture.embedded.stop().unwrap(), Stopped::Ended { pid });
}

#[test]
fn of_processes_that_start_it_at_the_same_moment_one_does_and_the_others_join() {
    let fixture = Fixture::new();
    let heard = start_together(&[&fixture; 6])
        .into_iter()
        .map(hear_to_the_end)
        .collect();
    assert_eq!(
        sorted(heard),
        ["Here", "Joined", "Joined", "Joined", "Joined", "Joined"]
    );
    assert!(fixture.embedded.status().is_running());
}

#[test]
fn with_different_data_folders_the_port_decides_and_the_losers_know_it_is_not_theirs() {
    let port = free_port().unwrap();
    let fixtures: [Fixture; 4] = std::array::from_fn(|_| Fixture::on_port(port));
    let heard: Vec<String> = start_together(&fixtures.each_ref())
        .into_iter()
        .map(hear_to_the_end)
        .collect();
    assert_eq!(
        sorted(heard.clone()),
        ["Here", "Joined", "Joined", "Joined"]
    );

    let winner = heard.iter().position(|word| word == "Here").unwrap();
    let pid = fixtures[winner].pid();
    for (number, loser) in fixtures
        .iter()
        .enumerate()
        .filter(|(number, _)| *number != winner)
    {
        assert_eq!(
            loser.embedded.status().state,
            EmbeddedState::NotOurs,
            "{number}"
        );
        assert_eq!(loser.embedded.stop().unwrap(), Stopped::NotOurs, "{number}");
    }
    assert_eq!(
        fixtures[winner].embedded.stop().unwrap(),
        Stopped::Ended { pid }
    );
    for fixture in &fixtures {
        assert_eq!(fixture.embedded.status().state, EmbeddedState::Down);
    }
}

#[test]
fn a_strangers_server_on_the_port_is_joined_and_never_stopped() {
    let stranger = PrivateServer::builder().password("secret").start().unwrap();
    let fixture = Fixture::on_port(stranger.port().unwrap());
    assert_eq!(fixture.embedded.start().unwrap(), Started::Joined);
    assert_eq!(fixture.embedded.status().state, EmbeddedState::NotOurs);
    assert_eq!(fixture.embedded.stop().unwrap(), Stopped::NotOurs);
    assert_eq!(probe_port(stranger.port().unwrap()), PortUse::Server);
}

#[test]
fn a_stale_pid_file_with_a_strangers_pid_kills_nobody_and_hinders_nothing() {
    let fixture = Fixture::new();
    let mut stranger = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    fs::create_dir_all(fixture.folder()).unwrap();
    for content in [
        stranger.id().to_string(),
        "4000000".to_owned(),
        "not a pid".to_owned(),
    ] {
        fs::write(fixture.folder().join("server.pid"), content).unwrap();
        assert_eq!(fixture.embedded.status().state, EmbeddedState::Down);
        assert_eq!(fixture.embedded.stop().unwrap(), Stopped::NotRunning);
        fs::write(
            fixture.folder().join("server.pid"),
            stranger.id().to_string(),
        )
        .unwrap();
        assert_eq!(fixture.embedded.start().unwrap(), Started::Here);
        assert!(matches!(
            fixture.embedded.stop().unwrap(),
            Stopped::Ended { .. }
        ));
    }
    assert_eq!(stranger.try_wait().unwrap(), None, "the stranger lives");
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
}

#[test]
fn without_the_program_the_start_fails_and_nothing_is_created() {
    let fixture = Fixture::new();
    let embedded = fixture.embedded.clone().program("/no/such/program");
    assert!(matches!(
        embedded.start(),
        Err(Error::ProgramMissing { .. })
    ));
    assert_eq!(embedded.status().program, None);
    assert!(!fixture.folder().exists());
}

#[test]
fn a_program_that_refuses_to_start_says_why() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.folder().join("appendonlydir")).unwrap();
    let manifest = fixture
        .folder()
        .join("appendonlydir/appendonly.aof.manifest");
    fs::write(manifest, "this is not a manifest\n").unwrap();
    let error = fixture.embedded.start().unwrap_err();
    assert!(matches!(error, Error::EndedEarly { .. }), "{error}");
    assert!(error.to_string().contains("manifest"), "{error}");
}

/// Starts one process for each of the fixtures, and lets all of them start the server at once.
fn start_together(fixtures: &[&Fixture]) -> Vec<SecondProcess> {
    let mut starters: Vec<SecondProcess> = fixtures
        .iter()
        .map(|fixture| {
            let folder = fixture.data.path().join("data");
            SecondProcess::start(&format!("{} {}", fixture.port, folder.display()))
        })
        .collect();
    for starter in &mut starters {
        assert_eq!(starter.hear(), "ready");
    }
    for starter in &mut starters {
        starter.go();
    }
    starters
}

fn hear_to_the_end(mut starter: SecondProcess) -> String {
    let word = starter.hear();
    starter.wait();
    word
}

fn sorted(mut words: Vec<String>) -> Vec<String> {
    words.sort();
    words
}

#[test]
#[ignore = "not a test: the other tests run it in processes that start a server together"]
fn role_of_a_second_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (port, folder) = role.split_once(' ').unwrap();
    let embedded = EmbeddedServer::new(port.parse().unwrap(), folder);
    say("ready");
    wait_for_go();
    say(&format!("{:?}", embedded.start().unwrap()));
    wait_for_go();
}
