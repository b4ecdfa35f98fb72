//! What a node tells the service manager that started it, on a real socket.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{TIMEOUT, baton, dead_port, end, run, server, signal, wait_until};

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    name: String,
    /// What came over it, each assignment with its time.
    heard: Vec<(Instant, String)>,
    _folder: TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::with(socket, path.to_str().unwrap().to_owned(), folder)
    }

    #[cfg(target_os = "linux")]
    fn with_abstract_name() -> Self {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::SocketAddr;
        let folder = tempfile::tempdir().unwrap();
        // As unique as the folder.
        let name = folder.path().to_str().unwrap().to_owned();
        let address = <SocketAddr as SocketAddrExt>::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Self::with(socket, format!("@{name}"), folder)
    }

    fn with(socket: UnixDatagram, name: String, folder: TempDir) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self {
            socket,
            name,
            heard: Vec::new(),
            _folder: folder,
        }
    }

    /// Lets this service manager start a command.
    fn start(&self, mut command: Command) -> Child {
        command.env("NOTIFY_SOCKET", &self.name).spawn().unwrap()
    }

    /// Reads all that has come.
    fn hear(&mut self) -> &[(Instant, String)] {
        let mut bytes = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut bytes) {
            let text = std::str::from_utf8(&bytes[..length]).unwrap();
            let now = Instant::now();
            self.heard
                .extend(text.lines().map(|line| (now, line.to_owned())));
        }
        &self.heard
    }

    fn has_heard(&mut self, fits: impl Fn(&str) -> bool) -> bool {
        self.hear().iter().any(|(_, line)| fits(line))
    }

    fn count(&mut self, words: &str) -> usize {
        self.hear().iter().filter(|(_, line)| line == words).count()
    }

    #[track_caller]
    fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.has_heard(|line| line.starts_with(words)) {
            assert!(Instant::now() < deadline, "no {words}: {:?}", self.heard);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn node(url: &str) -> Command {
    baton(&["run", "--fleet", "orders", "--redis", url])
}

#[track_caller]
fn stop(node: Child) {
    signal(&node, Signal::TERM);
    let ended = end(node);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_node_is_ready_when_it_has_joined_and_says_what_it_does_and_that_it_stops() {
    let (server, mut manager) = (server(), Manager::new());
    let generator = manager.start(node(&server.url()));
    manager.wait_for("READY=1");
    manager.wait_for("STATUS=generator of fleet orders, epoch 1");
    assert_eq!(manager.count("STOPPING=1"), 0);
    stop(generator);
    manager.wait_for("STOPPING=1");
    manager.wait_for("STATUS=leaving fleet orders");
    assert_eq!(
        (manager.count("READY=1"), manager.count("STOPPING=1")),
        (1, 1)
    );
    assert_eq!(manager.count("WATCHDOG=1"), 0, "no one asked for it");
}

#[test]
fn a_node_that_waits_for_its_redis_lives_and_is_not_ready() {
    let mut manager = Manager::new();
    let url = format!("redis://127.0.0.1:{}", dead_port());
    let mut waiting = node(&url);
    waiting.env("WATCHDOG_USEC", "100000");
    let waiting = manager.start(waiting);
    manager.wait_for("STATUS=joining fleet orders; waiting for Redis: ");
    let before = manager.count("WATCHDOG=1");
    wait_until("more signs of life", || {
        manager.count("WATCHDOG=1") > before + 20
    });
    assert_eq!(manager.count("READY=1"), 0);
    stop(waiting);
    manager.wait_for("STOPPING=1");
    assert_eq!(manager.count("READY=1"), 0);
}

#[test]
fn a_lone_node_that_never_generates_is_ready_too() {
    let (server, mut manager) = (server(), Manager::new());
    let mut worker = node(&server.url());
    worker.arg("--never-generate");
    let worker = manager.start(worker);
    manager.wait_for("READY=1");
    stop(worker);
}

#[test]
fn a_node_says_that_it_lives_in_time_also_without_its_redis_and_a_hung_one_does_not() {
    let (mut server, mut manager) = (server(), Manager::new());
    let mut watched = node(&server.url());
    watched.env("WATCHDOG_USEC", "400000");
    let watched = manager.start(watched);
    manager.wait_for("READY=1");
    wait_until("signs of life", || manager.count("WATCHDOG=1") > 4);
    server.kill9();
    wait_until("the trouble", || {
        manager.has_heard(|line| line.contains("waiting for Redis"))
    });
    let before = manager.count("WATCHDOG=1");
    wait_until("more signs of life", || {
        manager.count("WATCHDOG=1") > before + 10
    });

    let times: Vec<Instant> = manager
        .hear()
        .iter()
        .filter_map(|(at, line)| (line == "WATCHDOG=1").then_some(*at))
        .collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    let mean = (last - first) / u32::try_from(times.len() - 1).unwrap();
    assert!(
        mean > Duration::from_millis(150),
        "more often than every half period: {mean:?}"
    );

    signal(&watched, Signal::STOP);
    // What it sent before the signal.
    std::thread::sleep(Duration::from_millis(100));
    let before = manager.count("WATCHDOG=1");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(manager.count("WATCHDOG=1"), before);
    signal(&watched, Signal::CONT);
    stop(watched);
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let (server, mut manager) = (server(), Manager::new());
    let mut node = node(&server.url());
    node.env("WATCHDOG_USEC", "2000").env("WATCHDOG_PID", "1");
    let node = manager.start(node);
    manager.wait_for("STATUS=generator");
    stop(node);
    assert_eq!(manager.count("WATCHDOG=1"), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_socket_may_have_an_abstract_name() {
    let (server, mut manager) = (server(), Manager::with_abstract_name());
    let node = manager.start(node(&server.url()));
    manager.wait_for("READY=1");
    stop(node);
    manager.wait_for("STOPPING=1");
}

#[test]
fn commands_of_a_node_do_not_see_the_socket() {
    let (server, mut manager) = (server(), Manager::new());
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("seen");
    let mut alone = node(&server.url());
    let command = format!("env > {0}.new && mv {0}.new {0}", seen.display());
    alone.args([
        "--generator-works",
        "always",
        "--interval",
        "10ms",
        "--messages",
        "1",
    ]);
    alone
        .args(["--exec", &command])
        .env("WATCHDOG_USEC", "60000000");
    let alone = manager.start(alone);
    manager.wait_for("READY=1");
    wait_until("the command", || seen.exists());
    let variables = std::fs::read_to_string(&seen).unwrap();
    assert!(variables.contains("BATON_SEQ=1"), "{variables}");
    for name in ["NOTIFY_SOCKET", "WATCHDOG_"] {
        assert!(!variables.contains(name), "{variables}");
    }
    stop(alone);
}

#[test]
fn a_node_whose_service_manager_is_away_runs_and_a_wrong_name_is_told() {
    let (server, folder) = (server(), tempfile::tempdir().unwrap());
    for (name, complaint) in [
        (folder.path().join("nothing").display().to_string(), ""),
        ("nonsense".to_owned(), "NOTIFY_SOCKET is nonsense"),
    ] {
        let mut node = node(&server.url());
        node.env("NOTIFY_SOCKET", &name);
        // It ends as soon as the reader of its log has a line.
        let mut node = node.spawn().unwrap();
        let line = crate::support::read_line(node.stdout.as_mut().unwrap());
        assert!(line.contains("became generator"), "{line}");
        signal(&node, Signal::TERM);
        let ended = end(node);
        assert_eq!(ended.code, Some(0));
        ended.complains(complaint);
        assert_eq!(ended.stderr.is_empty(), complaint.is_empty(), "{ended:?}");
    }
}

#[test]
fn other_commands_tell_nothing() {
    let (server, mut manager) = (server(), Manager::new());
    let mut status = baton(&["status", "--redis", &server.url()]);
    status.env("NOTIFY_SOCKET", &manager.name);
    assert_eq!(run(status).code, Some(0));
    assert!(manager.hear().is_empty());
}
