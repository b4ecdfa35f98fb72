//! The log of a node, and outputs that stall or fail: the node goes on.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, Read};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use baton_log::LogEvent;
use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, baton, end, on, read_log, server, shell, signal, wait_until};

fn node(server: &PrivateServer, args: &[&str]) -> Command {
    let mut command = baton(&["run", "--log", "json", "--redis", &server.url()]);
    command.args(args);
    command
}

/// A node; killed when a test that fails forgets it.
struct Node(Option<Child>);

impl Node {
    fn start(mut command: Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Stops it in good order.
    fn stop(mut self) -> Ended {
        let child = self.0.take().unwrap();
        signal(&child, Signal::TERM);
        end(child)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A node whose stdout and stderr are one pipe. What the node writes stays there until a test
/// reads it.
fn into_pipe(mut command: Command) -> (Node, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    command.stderr(writer.try_clone().unwrap()).stdout(writer);
    (Node::start(command), reader)
}

fn status(server: &PrivateServer) -> Value {
    serde_json::from_str(&on(server, &["status", "--json"]).stdout).unwrap()
}

fn dev_full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// The last message of published lines that leave none out, from the first message on.
#[track_caller]
fn last_without_a_gap(log: &str) -> u64 {
    let mut last = 0;
    for line in log.lines() {
        match read_log(line).event {
            LogEvent::LogGap { .. } => panic!("{line}"),
            LogEvent::Published {
                first, last: to, ..
            } => {
                assert_eq!(first, last + 1, "{line}");
                last = to;
            }
            _ => {}
        }
    }
    last
}

#[test]
fn a_reader_that_stalls_holds_up_neither_the_fleet_nor_the_end_of_a_node() {
    // Far more lines than a pipe of 64 kB holds, from either node.
    const MESSAGES: u64 = 5000;
    let server = server();
    let args = ["--interval", "1ms", "--error-rate", "0"];
    let (generator, generator_log) = into_pipe(node(&server, &args));
    wait_until("a generator", || status(&server)["generator"]["epoch"] == 1);
    let (worker, worker_log) = into_pipe(node(&server, &args));
    wait_until("the messages", || {
        status(&server)["done"].as_u64().unwrap() > MESSAGES
    });
    assert_eq!(status(&server)["generator"]["epoch"], 1);
    for (node, log) in [(worker, worker_log), (generator, generator_log)] {
        let began = Instant::now();
        assert_eq!(node.stop().code, Some(0));
        // A second for the reader, and the time that a node takes anyway.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(7), "{took:?}");
        drop(log);
    }
    assert_eq!(status(&server)["nodes"], serde_json::json!([]));
}

#[test]
fn a_reader_that_keeps_up_misses_no_line_at_full_speed() {
    let server = server();
    let messages = 200_000;
    let args = ["--interval", "0", "--messages", &messages.to_string()];
    let (generator, mut reader) = into_pipe(node(&server, &args));
    let reading = std::thread::spawn(move || {
        let mut log = String::new();
        reader.read_to_string(&mut log).map(|_| log)
    });
    wait_until("all messages", || status(&server)["published"] == messages);
    assert_eq!(generator.stop().code, Some(0));
    let log = reading.join().unwrap().unwrap();
    assert_eq!(last_without_a_gap(&log), messages);
    let last = read_log(log.lines().last().unwrap());
    assert_eq!(last.event, LogEvent::Stopped);
}

#[test]
fn a_full_disk_under_its_log_does_not_stop_a_node() {
    let server = server();
    let args = ["--interval", "5ms", "--messages", "20"];
    let mut command = node(&server, &args);
    command.stdout(dev_full());
    let node = Node::start(command);
    wait_until("all messages", || status(&server)["published"] == 20);
    let ended = node.stop();
    assert_eq!(ended.code, Some(0));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(
        lines[0],
        "baton: cannot write the log (No space left on device): trying again; lines that 4 MiB \
         cannot hold are dropped and counted"
    );
    let lost = "baton: the output of the log takes no more: ";
    assert!(lines[1].starts_with(lost), "{}", ended.stderr);
    assert_eq!(lines.len(), 2, "{}", ended.stderr);
}

#[test]
fn a_full_disk_under_its_log_and_its_complaints_does_not_stop_a_node() {
    let server = server();
    let mut command = node(&server, &["--interval", "5ms", "--messages", "20"]);
    command.stdout(dev_full()).stderr(dev_full());
    let node = Node::start(command);
    wait_until("all messages", || status(&server)["published"] == 20);
    assert_eq!(node.stop().code, Some(0));
}

#[test]
fn a_log_goes_on_where_it_stopped_once_the_disk_has_room() {
    const ROOM: u64 = 8 * 1024;
    const MESSAGES: u64 = 1000;
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.log");
    // A file that grows no further: the system sends a signal with the error.
    let line = "ulimit -f 16; \
                exec $BATON run --interval 1ms --log json --messages 1000 >> \"$OUT\"";
    let mut command = shell(line);
    command.env("OUT", &path).env("REDIS_URL", server.url());
    let node = Node::start(command);
    let mut log = String::new();
    let mut times_full = 0;
    wait_until("all messages in the log", || {
        if size(&path) == ROOM {
            times_full += 1;
            log.push_str(&std::fs::read_to_string(&path).unwrap());
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(0)
                .unwrap();
        }
        let rest = std::fs::read_to_string(&path).unwrap_or_default();
        // The last line may have been in a full file, as a whole or in part.
        (log.clone() + &rest).contains(&format!(r#""last":{MESSAGES}"#))
    });
    let ended = node.stop();
    log.push_str(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(ended.code, Some(0));
    ended.complains("cannot write the log (File too large)");
    assert!(times_full > 0);
    assert_eq!(last_without_a_gap(&log), MESSAGES);
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}
