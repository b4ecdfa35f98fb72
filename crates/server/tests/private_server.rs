//! A private server, seen from outside: real servers, real processes, real signals.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use baton_server::{Error, Fsync, PortUse, PrivateServer, probe_port};
use rustix::process::{Pid, Signal, getpgid, kill_process};
use support::{
    ROLE, SecondProcess, command, lives, process_exists, processes_naming, say, wait_for_go,
    wait_until,
};

fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

/// A server that keeps nothing, on a port.
fn server() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

/// The answer to a command whose words blanks separate.
fn ask(url: &str, words: &str) -> String {
    command(url, &words.split(' ').collect::<Vec<_>>()).unwrap()
}

#[test]
fn it_answers_and_is_gone_with_its_folder_and_its_watchdog_once_dropped() {
    let server = server();
    let (pid, port) = (server.pid().unwrap(), server.port().unwrap());
    let folder = server.folder().to_owned();

    assert_eq!(server.url(), format!("redis://127.0.0.1:{port}"));
    assert_eq!(server.url_with_password(), server.url());
    assert_eq!(ask(&server.url(), "PING"), "PONG");
    let info = ask(&server.url(), "INFO server");
    assert!(info.contains(&format!("process_id:{pid}\r\n")), "{info}");
    assert!(server.log().contains("Ready to accept connections"));
    assert_eq!(processes_naming(&folder), 1, "the watchdog");

    drop(server);
    assert!(!process_exists(pid));
    assert!(!folder.exists());
    assert_eq!(processes_naming(&folder), 0);
    assert_ne!(probe_port(port), PortUse::Server);
}

#[test]
fn on_a_unix_socket_it_has_no_port() {
    let server = PrivateServer::builder().unix_socket().start().unwrap();
    assert_eq!(server.port(), None);
    assert_eq!(
        server.url(),
        format!("unix://{}/server.sock", server.folder().display())
    );
    assert_eq!(ask(&server.url(), "PING"), "PONG");
    let info = ask(&server.url(), "INFO server");
    assert!(info.contains("tcp_port:0\r\n"), "{info}");
}

#[test]
fn a_password_is_asked_for_and_is_in_the_url_that_is_to_have_it() {
    let password = "pass word/\"quoted\" é";
    let mut server = PrivateServer::builder().password(password).start().unwrap();

    assert_eq!(
        server.url_with_password(),
        format!(
            "redis://:pass%20word%2F%22quoted%22%20%C3%A9@127.0.0.1:{}",
            server.port().unwrap()
        )
    );
    assert!(ask(&server.url(), "PING").starts_with("-NOAUTH"));
    assert_eq!(command(&server.url(), &["AUTH", password]).unwrap(), "OK");
    server.restart().unwrap();
    assert_eq!(command(&server.url(), &["AUTH", password]).unwrap(), "OK");

    let server = PrivateServer::builder()
        .unix_socket()
        .password("a b")
        .start()
        .unwrap();
    assert_eq!(
        server.url_with_password(),
        format!("{}?pass=a%20b", server.url())
    );
}

#[test]
fn settings_reach_the_server_and_nothing_is_persisted_unless_asked_for() {
    let setting = |server: &PrivateServer, name: &str| {
        command(&server.url(), &["CONFIG", "GET", name]).unwrap()
    };
    let server = server();
    assert_eq!(setting(&server, "save"), "save ");
    assert_eq!(setting(&server, "appendonly"), "appendonly no");
    assert_eq!(setting(&server, "bind"), "bind 127.0.0.1");

    let server = PrivateServer::builder()
        .unix_socket()
        .tcp()
        .appendonly(Fsync::Always)
        .config("maxmemory", "77mb")
        .config("client-output-buffer-limit", "pubsub 1 2 3")
        .start()
        .unwrap();
    assert_eq!(setting(&server, "save"), "save ");
    assert_eq!(setting(&server, "appendonly"), "appendonly yes");
    assert_eq!(setting(&server, "appendfsync"), "appendfsync always");
    assert_eq!(
        setting(&server, "maxmemory"),
        format!("maxmemory {}", 77 * 1024 * 1024)
    );
    assert!(setting(&server, "client-output-buffer-limit").ends_with("pubsub 1 2 3"));
}

#[test]
fn after_a_crash_an_append_only_file_brings_the_data_back_on_the_same_port() {
    let mut server = PrivateServer::builder()
        .appendonly(Fsync::Always)
        .start()
        .unwrap();
    let (pid, url) = (server.pid().unwrap(), server.url());
    assert_eq!(ask(&url, "SET key value"), "OK");

    server.kill9();
    assert_eq!(server.pid(), None);
    assert!(!server.is_running());
    assert!(!process_exists(pid), "not even a zombie");
    assert!(command(&url, &["PING"]).is_err());

    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(ask(&url, "GET key"), "value");

    // A restart of a server that runs is a crash and a start.
    let pid = server.pid().unwrap();
    server.restart().unwrap();
    assert!(!process_exists(pid));
    assert_eq!(ask(&url, "GET key"), "value");
}

#[test]
fn without_persistence_a_restart_begins_empty() {
    let mut server = server();
    assert_eq!(ask(&server.url(), "SET key value"), "OK");
    server.restart().unwrap();
    assert_eq!(ask(&server.url(), "GET key"), "(nil)");
}

#[test]
fn a_stopped_server_keeps_its_data_for_a_restart_even_if_it_was_paused() {
    let mut server = PrivateServer::builder()
        .appendonly(Fsync::No)
        .start()
        .unwrap();
    assert_eq!(ask(&server.url(), "SET key value"), "OK");
    let pid = server.pid().unwrap();

    server.pause().unwrap();
    server.stop().unwrap();
    assert!(!process_exists(pid));
    assert!(matches!(server.pause(), Err(Error::NotRunning)));
    server.stop().unwrap();

    server.restart().unwrap();
    assert_eq!(ask(&server.url(), "GET key"), "value");
}

#[test]
fn a_paused_server_is_silent_until_it_is_resumed() {
    let mut server = server();
    server.pause().unwrap();
    assert!(command(&server.url(), &["PING"]).is_err());
    assert!(server.is_running());
    server.resume().unwrap();
    assert_eq!(ask(&server.url(), "PING"), "PONG");

    server.pause().unwrap();
    let pid = server.pid().unwrap();
    drop(server);
    assert!(!process_exists(pid), "a paused server can be dropped");
}

#[test]
fn a_server_that_dies_by_itself_is_noticed_and_leaves_no_zombie() {
    let mut server = server();
    let pid = server.pid().unwrap();
    kill_process(as_pid(pid), Signal::KILL).unwrap();
    wait_until("the death is noticed", || !server.is_running());
    assert!(!process_exists(pid));
    server.restart().unwrap();
    assert_eq!(ask(&server.url(), "PING"), "PONG");
}

#[test]
fn it_is_in_a_process_group_of_its_own_so_ctrl_c_is_left_to_its_owner() {
    let server = server();
    let pid = as_pid(server.pid().unwrap());
    assert_eq!(getpgid(Some(pid)).unwrap(), pid);
    assert_ne!(getpgid(None).unwrap(), pid);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = PrivateServer::builder()
        .config("no-such-setting", "1")
        .start()
        .unwrap_err();
    assert!(matches!(error, Error::EndedEarly { .. }), "{error}");
    assert!(error.to_string().contains("no-such-setting"), "{error}");

    let error = PrivateServer::builder()
        .program("/no/such/program")
        .start()
        .unwrap_err();
    assert!(matches!(error, Error::ProgramMissing { .. }), "{error}");
}

#[test]
fn a_port_that_stays_taken_is_given_up_with_the_log() {
    let other = server();
    let taken = other.port().unwrap().to_string();
    let error = PrivateServer::builder()
        .config("port", taken)
        .start()
        .unwrap_err();
    assert!(matches!(error, Error::PortTaken { .. }), "{error}");
    assert!(
        error.to_string().contains("Address already in use"),
        "{error}"
    );
}

#[test]
fn another_server_on_the_port_is_not_mistaken_for_the_one_that_restarts() {
    let mut server = server();
    let (port, url) = (server.port().unwrap(), server.url());
    server.kill9();
    let mut squatter = Command::new(server.program())
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ])
        .current_dir(server.folder())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the squatter answers", || command(&url, &["PING"]).is_ok());
    assert_eq!(
        command(&url, &["SET", "whose", "the squatter's"]).unwrap(),
        "OK"
    );

    let log = server.folder().join("server.log");
    thread::scope(|scope| {
        let restart = scope.spawn(|| server.restart());
        wait_until("the restarting server has met the squatter", || {
            std::fs::read_to_string(&log)
                .unwrap()
                .contains("Address already in use")
        });
        squatter.kill().unwrap();
        squatter.wait().unwrap();
        restart.join().unwrap().unwrap();
    });
    assert_eq!(ask(&url, "GET whose"), "(nil)");
}

#[test]
fn many_servers_started_at_once_each_have_their_own_port() {
    let servers: Vec<PrivateServer> = thread::scope(|scope| {
        let starting: Vec<_> = (0..12).map(|_| scope.spawn(server)).collect();
        starting
            .into_iter()
            .map(|server| server.join().unwrap())
            .collect()
    });
    for server in &servers {
        let info = ask(&server.url(), "INFO server");
        assert!(
            info.contains(&format!("process_id:{}\r\n", server.pid().unwrap())),
            "{info}"
        );
    }
    let folders: Vec<PathBuf> = servers
        .iter()
        .map(|server| server.folder().to_owned())
        .collect();
    drop(servers);
    assert!(folders.iter().all(|folder| !folder.exists()));
}

/// Starts a second process that owns a server, and returns the server's pid and folder.
fn start_owner(role: &str) -> (SecondProcess, u32, PathBuf) {
    let mut owner = SecondProcess::start(role);
    let said = owner.hear();
    let (pid, folder) = said.split_once(' ').unwrap();
    let (pid, folder) = (pid.parse().unwrap(), PathBuf::from(folder));
    assert!(folder.exists());
    (owner, pid, folder)
}

fn assert_all_gone(pid: u32, folder: &Path) {
    wait_until("the server is gone", || !lives(pid));
    wait_until("the watchdog is gone", || processes_naming(folder) == 0);
    assert!(!folder.exists());
}

#[test]
fn when_its_owner_is_killed_the_server_its_folder_and_its_watchdog_are_gone() {
    for role in [
        "owner",
        "owner of a paused server",
        "owner of a restarted server",
    ] {
        let (owner, pid, folder) = start_owner(role);
        assert!(lives(pid), "{role}");
        owner.kill9();
        assert_all_gone(pid, &folder);
    }
}

#[test]
fn when_its_owner_is_killed_while_the_server_is_down_the_folder_is_gone_too() {
    let (owner, pid, folder) = start_owner("owner of a killed server");
    assert!(!lives(pid));
    owner.kill9();
    assert_all_gone(pid, &folder);
}

#[test]
fn when_its_owner_exits_without_dropping_it_everything_is_gone() {
    let (mut owner, pid, folder) = start_owner("owner that exits");
    owner.go();
    owner.wait();
    assert_all_gone(pid, &folder);
}

#[test]
#[ignore = "not a test: the other tests run it in a process that they kill"]
fn role_of_a_second_process() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut server = PrivateServer::builder()
        .appendonly(Fsync::No)
        .start()
        .unwrap();
    let pid = server.pid().unwrap();
    match role.as_str() {
        "owner of a paused server" => server.pause().unwrap(),
        "owner of a killed server" => server.kill9(),
        "owner of a restarted server" => server.restart().unwrap(),
        _ => {}
    }
    let pid = server.pid().unwrap_or(pid);
    say(&format!("{pid} {}", server.folder().display()));
    wait_for_go();
    std::process::exit(0);
}
