//! What the tests on real servers share.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

/// The variable by which a test tells a copy of the test program what to do.
pub(crate) const ROLE: &str = "BATON_SERVER_TEST_ROLE";

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether there is a process with this number at all; a zombie is one.
pub(crate) fn process_exists(pid: u32) -> bool {
    test_kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap()).is_ok()
}

/// The processes that live (zombies do not), as pid and command line.
fn living_processes() -> Vec<(u32, String)> {
    if !cfg!(target_os = "linux") {
        let all = ["-A", "-ww", "-o", "pid=,command="];
        let output = Command::new("ps").args(all).output().unwrap();
        return String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| line.trim().split_once(' '))
            .filter(|(_, command)| !command.contains("<defunct>"))
            .filter_map(|(pid, command)| Some((pid.parse().ok()?, command.to_owned())))
            .collect();
    }
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let command = String::from_utf8_lossy(&bytes).replace('\0', " ");
            (!command.is_empty()).then_some((pid, command))
        })
        .collect()
}

/// Whether this process lives. Who reaps an orphan is not up to us, so a zombie counts as gone.
pub(crate) fn lives(pid: u32) -> bool {
    living_processes().iter().any(|(living, _)| *living == pid)
}

/// How many living processes have this folder on their command line.
pub(crate) fn processes_naming(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    living_processes()
        .iter()
        .filter(|(_, command)| command.contains(folder))
        .count()
}

/// Sends one command to a server and returns its answer as text: an array's elements with spaces
/// between them, `(nil)` for nothing, an error with its leading `-`.
pub(crate) fn command(url: &str, words: &[&str]) -> io::Result<String> {
    command_with(url, None, words)
}

/// The same after the password, if there is one.
pub(crate) fn command_with(
    url: &str,
    password: Option<&str>,
    words: &[&str],
) -> io::Result<String> {
    let timeout = Some(Duration::from_secs(2));
    if let Some(path) = url.strip_prefix("unix://") {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(timeout)?;
        return exchange(stream, password, words);
    }
    let stream = TcpStream::connect(url.strip_prefix("redis://").unwrap())?;
    stream.set_read_timeout(timeout)?;
    exchange(stream, password, words)
}

fn exchange(
    stream: impl Read + Write,
    password: Option<&str>,
    words: &[&str],
) -> io::Result<String> {
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        send(stream.get_mut(), &["AUTH", password])?;
        assert_eq!(read_answer(&mut stream)?, "OK");
    }
    send(stream.get_mut(), words)?;
    read_answer(&mut stream)
}

fn send(stream: &mut impl Write, words: &[&str]) -> io::Result<()> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes())
}

fn read_answer(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match line.split_at(1) {
        ("+" | ":", text) => Ok(text.to_owned()),
        ("$", "-1") => Ok("(nil)".to_owned()),
        ("$", length) => {
            let mut bytes = vec![0; length.parse::<usize>().unwrap() + "\r\n".len()];
            reader.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - "\r\n".len());
            Ok(String::from_utf8(bytes).unwrap())
        }
        ("*", length) => {
            let elements: io::Result<Vec<String>> = (0..length.parse().unwrap())
                .map(|_| read_answer(reader))
                .collect();
            Ok(elements?.join(" "))
        }
        _ => Ok(line.to_owned()),
    }
}

/// A second process: this test program, running only the function `role_of_a_second_process`.
pub(crate) struct SecondProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl SecondProcess {
    pub(crate) fn start(role: &str) -> SecondProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "role_of_a_second_process",
                "--ignored",
                "--nocapture",
            ])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        SecondProcess {
            child,
            stdin,
            stdout,
        }
    }

    /// The next thing that the process says with [`say`].
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stdout.read_line(&mut line).unwrap(),
                0,
                "it ended without a word"
            );
            // The test harness writes to the same output, and not always whole lines.
            if let Some((_, said)) = line.split_once(SAYING) {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Lets a process go on that waits in [`wait_for_go`].
    pub(crate) fn go(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// Waits for its end, and for the end of everything that has its output open.
    pub(crate) fn wait(mut self) {
        drop(self.stdin.take());
        self.stdout.read_to_end(&mut Vec::new()).unwrap();
        self.child.wait().unwrap();
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill9(mut self) {
        self.child.kill().unwrap();
        self.wait();
    }
}

const SAYING: &str = "the second process says: ";

/// Says something to the test that started this process.
#[allow(clippy::print_stdout, reason = "a test may panic")]
pub(crate) fn say(text: &str) {
    println!("{SAYING}{text}");
}

/// Waits for the word of the test that started this process, or for its end.
pub(crate) fn wait_for_go() {
    let _ = io::stdin().read_line(&mut String::new());
}
