//! Running the program.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use baton_log::{Line, LogEvent};
use baton_server::PrivateServer;
use rustix::net;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) use crate::shared::{TIMEOUT, redis, server, wait_until};

/// A port on which no program listens, reserved for this process. It is not Redis's own, so that a
/// test never meets the server of its machine.
pub(crate) fn dead_port() -> u16 {
    static RESERVED: LazyLock<(OwnedFd, u16)> = LazyLock::new(|| {
        let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        net::bind(&socket, &any).unwrap();
        let bound = net::getsockname(&socket).unwrap();
        let port = SocketAddrV4::try_from(bound).unwrap().port();
        (socket, port)
    });
    RESERVED.1
}

/// The program, without the variables of the caller's shell.
pub(crate) fn baton(args: &[&str]) -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_baton")), args)
}

/// The program, which hears SIGHUP even if these tests run under `nohup`.
pub(crate) fn baton_in_terminal(args: &[&str]) -> Command {
    let program = ["--default-signal=HUP", env!("CARGO_BIN_EXE_baton")];
    clean(Command::new("env"), &[&program[..], args].concat())
}

/// A shell command line in which `$BATON` is the program.
pub(crate) fn shell(line: &str) -> Command {
    let mut command = clean(Command::new("sh"), &["-c", line]);
    command.env("BATON", env!("CARGO_BIN_EXE_baton"));
    command
}

fn clean(mut command: Command, args: &[&str]) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("BATON_") && text != "BATON_SERVER_PROGRAM"
            || text.starts_with("REDIS_")
        {
            command.env_remove(&name);
        }
    }
    command
        .args(args)
        .env("BATON_EMBEDDED_PORT", dead_port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What a process left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The command line with its variables. Empty for a process that the test started itself.
    pub(crate) command: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    /// Asserts that the program printed this.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        assert!(self.stdout.contains(words), "no {words:?}: {self:#?}");
    }

    /// Asserts that the program complained with these words.
    #[track_caller]
    pub(crate) fn complains(&self, words: &str) {
        assert!(self.stderr.contains(words), "no {words:?}: {self:#?}");
    }
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn run(mut command: Command) -> Ended {
    let child = command.spawn().unwrap();
    let mut ended = end(child);
    ended.command = format!("{command:?}");
    ended
}

/// Makes sure that a command that runs once fails: one line on stderr has these words.
#[track_caller]
pub(crate) fn assert_complains(mut command: Command, words: &[&str]) {
    command.args(["status", "--json"]);
    let ended = run(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let lines = ended.stderr.lines();
    let last_words = lines.filter(|line| !line.ends_with("waiting for it"));
    assert_eq!(last_words.count(), 1, "{}", ended.stderr);
    for words in words {
        ended.complains(words);
    }
}

/// Makes sure that a node waits and says these words once, however often it tries to connect.
/// `attempts` counts connections.
#[track_caller]
pub(crate) fn assert_waits(mut command: Command, words: &[&str], attempts: impl Fn() -> u64) {
    let before = attempts();
    let mut node = command.args(["run", "--log", "json"]).spawn().unwrap();
    let line = read_line(node.stdout.as_mut().unwrap());
    wait_until("more attempts to connect", || attempts() > before + 10);
    signal(&node, Signal::TERM);
    let ended = end(node);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    for words in ["\"event\":\"redis\"", "\"state\":\"lost\""]
        .iter()
        .chain(words)
    {
        assert!(line.contains(words), "no {words:?}: {line}");
    }
    assert_eq!(ended.lines().len(), 1, "no line but its end: {ended:#?}");
}

/// How many connections a server has seen, those of this question included.
pub(crate) fn connections(server: &PrivateServer) -> u64 {
    let socket = server.folder().join("server.sock");
    let url = match socket.exists() {
        true => format!("unix://{}", socket.display()),
        false => server.url(),
    };
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let info: String = redis::cmd("INFO")
        .arg("stats")
        .query(&mut connection)
        .unwrap();
    let count = info.split("total_connections_received:").nth(1).unwrap();
    count.split("\r\n").next().unwrap().parse().unwrap()
}

/// Runs the program on a server.
#[track_caller]
pub(crate) fn on(server: &PrivateServer, args: &[&str]) -> Ended {
    let url = server.url_with_password();
    let mut all = vec!["--redis", url.as_str()];
    all.extend(args);
    run(baton(&all))
}

/// Starts `getErrors` on a server, with its output in a pipe.
pub(crate) fn start_get_errors(server: &PrivateServer) -> (Child, ChildStdout) {
    let mut child = baton_in_terminal(&["getErrors", "--redis", &server.url()])
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, stdout)
}

/// Waits for the end of a process; kills it if it takes too long.
#[track_caller]
pub(crate) fn end(child: Child) -> Ended {
    let pid = Pid::from_child(&child);
    let waiter = thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + TIMEOUT;
    while !waiter.is_finished() {
        if Instant::now() > deadline {
            let _ = kill_process(pid, Signal::KILL);
            panic!("the program did not end: {:?}", waiter.join().unwrap());
        }
        thread::sleep(Duration::from_millis(2));
    }
    let Output {
        status,
        stdout,
        stderr,
    } = waiter.join().unwrap().unwrap();
    Ended {
        command: String::new(),
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// Starts two nodes (`baton` alone is `baton run`) with what the command says, lets one publish three
/// messages and the other process them, and stops both.
#[track_caller]
pub(crate) fn three_messages(command: impl Fn() -> Command) {
    const FLAGS: &str = "--log json --messages 3 --interval 20ms --error-rate 0";
    let (tell, told) = mpsc::channel();
    let mut nodes = [0; 2].map(|_| command().args(FLAGS.split(' ')).spawn().unwrap());
    for node in &mut nodes {
        let (stdout, tell) = (BufReader::new(node.stdout.take().unwrap()), tell.clone());
        thread::spawn(move || {
            for line in stdout.lines() {
                // The receiver is gone once the messages are there.
                let _ = tell.send(line.unwrap());
            }
        });
    }
    drop(tell);
    let deadline = Instant::now() + TIMEOUT;
    let (mut published, mut processed, mut log) = (0, 0, Vec::new());
    while (published, processed) != (3, 3) {
        let Ok(line) = told.recv_timeout(deadline.saturating_duration_since(Instant::now())) else {
            let ended = nodes.map(|mut node| {
                let _ = node.kill();
                end(node)
            });
            panic!("no three messages: {log:#?} {ended:?}");
        };
        match read_log(&line).event {
            LogEvent::Published { first, last, .. } => published += last - first + 1,
            LogEvent::Processed { first, last, .. } => processed += last - first + 1,
            _ => {}
        }
        log.push(line);
    }
    for node in nodes {
        signal(&node, Signal::TERM);
        let ended = end(node);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
}

/// Reads a line of a node's log. Every event and every field in it must be one that
/// [`baton_log`] knows.
#[track_caller]
pub(crate) fn read_log(text: &str) -> Line<'static> {
    let line: Line = serde_json::from_str(text).unwrap();
    assert_ne!(line.event, LogEvent::Other, "{text}");
    let fields: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_value(&line).unwrap(), fields);
    line
}

/// What `status --json` says, for a command that has no more than its connection.
#[track_caller]
pub(crate) fn status(mut command: Command) -> Value {
    command.args(["status", "--json"]);
    let ended = run(command);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Reads one line, byte by byte, so that nothing more is taken from the reader.
pub(crate) fn read_line(from: &mut impl Read) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while from.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// Sends one command and ignores its answer.
pub(crate) fn send(server: &PrivateServer, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.exec(&mut redis(server)).unwrap();
}

/// Asserts that a command line finds a server on which the message `m1` has failed.
#[track_caller]
pub(crate) fn assert_finds_m1(args: &[&str], variables: &[(&str, &str)]) {
    let mut command = baton(&["errors"]);
    command.args(args).envs(variables.iter().copied());
    let ended = run(command);
    assert_eq!(
        ended.lines(),
        [crate::seeder::line(1, "m1")],
        "{args:?} {variables:?}: {}",
        ended.stderr
    );
}
