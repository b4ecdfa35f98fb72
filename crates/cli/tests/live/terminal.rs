//! Runs the demo in a terminal that a test holds the other end of.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use baton::inspect::{NodeRole, Snapshot};
use baton_processes::{command, status};
use rustix::process::{Pid, Signal, getpgid, kill_process, test_kill_process};
use rustix::termios::{LocalModes, Termios, tcgetattr};

use crate::shared::{TIMEOUT, pty};

const POLL: Duration = Duration::from_millis(10);
const ROWS: NonZeroU16 = NonZeroU16::new(30).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(110).unwrap();

/// What the program did to its terminal.
struct Written {
    terminal: vt100::Parser,
    /// Whether the program has used a screen of its own.
    own_screen: bool,
    /// Whether the reader should stop.
    enough: bool,
}

/// The demo under way.
pub(crate) struct Demo {
    child: Child,
    /// Our end of the terminal, until it is closed.
    terminal: Option<OwnedFd>,
    /// The terminal's settings before the program started.
    calm: Termios,
    written: Arc<Mutex<Written>>,
    reader: Option<JoinHandle<()>>,
    /// The address of its server.
    url: String,
}

/// The processes and the folder that the demo created.
#[derive(Debug)]
pub(crate) struct Offspring {
    processes: Vec<u64>,
    folder: PathBuf,
}

/// How the demo ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// The text that it left in the terminal.
    pub(crate) words: String,
}

/// Runs a command in a dumb terminal until it writes these words or ends. Returns its exit code,
/// if it has one, and what it wrote.
pub(crate) fn run_dumb(args: &[&str], words: &str) -> (Option<i32>, String) {
    let (terminal, inner) = pty::open(ROWS.get(), COLUMNS.get());
    let mut child = command(env!("CARGO_BIN_EXE_baton").as_ref())
        .args(args)
        .env("TERM", "dumb")
        .stdin(inner.try_clone().unwrap())
        .stdout(inner.try_clone().unwrap())
        .stderr(inner)
        .spawn()
        .unwrap();
    let mut terminal = File::from(terminal);
    let (mut written, mut piece) = (String::new(), [0; 4096]);
    // Reading fails once the program's end is closed.
    while let Ok(read @ 1..) = terminal.read(&mut piece) {
        written.push_str(&String::from_utf8_lossy(&piece[..read]));
        if written.contains(words) {
            // Not SIGKILL, which would leave the nodes of a demo behind.
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
    }
    (child.wait().unwrap().code(), written)
}

impl Demo {
    /// Starts it and waits until its nodes are there.
    pub(crate) fn start() -> Self {
        let (terminal, inner) = pty::open(ROWS.get(), COLUMNS.get());
        let calm = tcgetattr(&inner).unwrap();
        let child = command(env!("CARGO_BIN_EXE_baton").as_ref())
            .arg("demo")
            .env("TERM", "xterm-256color")
            .stdin(inner.try_clone().unwrap())
            .stdout(inner.try_clone().unwrap())
            .stderr(inner)
            .spawn()
            .unwrap();
        let written = Arc::new(Mutex::new(Written {
            terminal: vt100::Parser::new(ROWS, COLUMNS, 0),
            own_screen: false,
            enough: false,
        }));
        let reader = read(File::from(terminal.try_clone().unwrap()), &written);
        let mut demo = Self {
            child,
            terminal: Some(terminal),
            calm,
            written,
            reader: Some(reader),
            url: String::new(),
        };
        demo.wait_words("5 nodes started");
        // The view names the server.
        demo.url = demo.word_after("fleet default on ");
        demo
    }

    /// Types a key.
    pub(crate) fn press(&self, key: &str) {
        rustix::io::write(self.terminal.as_ref().unwrap(), key.as_bytes()).unwrap();
    }

    /// Sends the demo itself a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the terminal shows these words.
    #[track_caller]
    pub(crate) fn wait_words(&self, words: &str) {
        self.wait(words, || self.text().contains(words).then_some(()));
    }

    /// The word that the terminal shows after these.
    pub(crate) fn word_after(&self, words: &str) -> String {
        let text = self.text();
        let rest = text.split(words).nth(1).unwrap_or_default();
        rest.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until the snapshot of the fleet fits.
    #[track_caller]
    pub(crate) fn wait_fleet(&self, what: &str, fits: impl Fn(&Snapshot) -> bool) -> Snapshot {
        self.wait(what, || {
            status(&self.url, "default").ok().filter(|seen| fits(seen))
        })
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = probe() {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "waited for {what}:\n{}",
                self.text()
            );
            std::thread::sleep(POLL);
        }
    }

    fn text(&self) -> String {
        let written = self.written.lock().unwrap();
        let rows = written.terminal.screen().rows(0, COLUMNS.get());
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Whether the terminal waits for whole lines and echoes them, as it did before.
    pub(crate) fn is_calm(&self) -> bool {
        let now = tcgetattr(self.terminal.as_ref().unwrap()).unwrap();
        let lines = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        now.local_modes & lines == self.calm.local_modes & lines
            && now.input_modes == self.calm.input_modes
    }

    /// Everything that has to end with the demo.
    pub(crate) fn offspring(&self) -> Offspring {
        let seen = status(&self.url, "default").unwrap();
        let nodes = seen.nodes.iter().filter(|node| node.role != NodeRole::Dead);
        let mut processes: Vec<u64> = nodes.map(|node| node.pid).collect();
        assert!(!processes.is_empty(), "no node: {seen:?}");
        for pid in &processes {
            let group = getpgid(Some(pid_of(*pid))).unwrap();
            assert_eq!(group, pid_of(*pid), "the terminal's signals reach a node");
        }
        let mut redis = self.redis();
        let info: String = redis::cmd("INFO").arg("server").query(&mut redis).unwrap();
        let pid = info
            .lines()
            .find_map(|line| line.strip_prefix("process_id:"));
        processes.push(pid.unwrap().parse().unwrap());
        let (_, folder): (String, String) = redis::cmd("CONFIG")
            .arg(&["GET", "dir"])
            .query(&mut redis)
            .unwrap();
        let offspring = Offspring {
            processes,
            folder: folder.into(),
        };
        assert!(offspring.is_all_here(), "{offspring:?}");
        offspring
    }

    pub(crate) fn redis(&self) -> redis::Connection {
        redis::Client::open(self.url.as_str())
            .unwrap()
            .get_connection()
            .unwrap()
    }

    /// Waits for its end, and for the end of every process that can write to its terminal.
    pub(crate) fn end(mut self) -> Ended {
        let status = self.wait_end().expect("it did not end");
        self.reader.take().unwrap().join().unwrap();
        assert!(self.is_calm(), "the terminal is not as it was");
        let written = self.written.lock().unwrap();
        let screen = written.terminal.screen();
        assert!(written.own_screen, "no screen of its own");
        assert!(!screen.alternate_screen(), "it did not leave its screen");
        Ended {
            code: status.code(),
            words: screen.contents(),
        }
    }

    /// Closes its terminal, as when a window is closed. Returns its exit code.
    pub(crate) fn hang_up(mut self) -> Option<i32> {
        // The view draws several times a second, so the reader stops soon.
        self.written.lock().unwrap().enough = true;
        self.reader.take().unwrap().join().unwrap();
        self.terminal = None;
        // The system sends the signal only to the leader of the terminal's session.
        self.signal(Signal::HUP);
        self.wait_end().expect("it did not end").code()
    }

    fn wait_end(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(POLL);
        }
        None
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::TERM);
        }
        if self.wait_end().is_none() {
            let _ = self.child.kill();
        }
    }
}

impl Offspring {
    fn is_all_here(&self) -> bool {
        self.folder.exists() && self.processes.iter().all(|pid| lives(*pid))
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_gone(&self) -> bool {
        !self.folder.exists() && !self.processes.iter().any(|pid| lives(*pid))
    }
}

fn lives(pid: u64) -> bool {
    test_kill_process(pid_of(pid)).is_ok()
}

fn pid_of(pid: u64) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}

/// Reads until no process has the terminal open.
fn read(mut terminal: File, written: &Arc<Mutex<Written>>) -> JoinHandle<()> {
    let written = Arc::clone(written);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            let mut written = written.lock().unwrap();
            written.terminal.process(&bytes[..count]);
            written.own_screen |= written.terminal.screen().alternate_screen();
            if written.enough {
                break;
            }
        }
    })
}
