//! `baton health`, as a probe runs it: an exit code and one line, in time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStderr, Command};
use std::thread;
use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use rustix::process::Signal;

use crate::shared::page::Page;
use crate::shared::replicated::Replicated;
use crate::support::{Ended, baton, dead_port, on, run, send, server, signal, wait_until};

/// A node with `--http`, and where it listens.
struct Node {
    process: Child,
    addr: SocketAddr,
    stderr: BufReader<ChildStderr>,
}

impl Node {
    #[track_caller]
    fn start(mut command: Command) -> Self {
        command.args(["run", "--http", "127.0.0.1:0", "--error-rate", "0"]);
        let mut process = command.spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let addr = line.split('/').find_map(|word| word.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("no address: {line:?}"));
        // Otherwise the node would wait for a reader of its log.
        let mut log = process.stdout.take().unwrap();
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self {
            process,
            addr,
            stderr,
        }
    }

    fn on(server: &PrivateServer) -> Self {
        Self::start(baton(&["--redis", &server.url()]))
    }

    fn ask(&self, args: &[&str]) -> Ended {
        ask(&self.addr.to_string(), args)
    }

    #[track_caller]
    fn stop(mut self) {
        signal(&self.process, Signal::TERM);
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        let code = self.process.wait().unwrap().code();
        assert_eq!((code, rest.as_str()), (Some(0), ""));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(addr: &str, args: &[&str]) -> Ended {
    let mut all = vec!["health", "--http", addr];
    all.extend(args);
    run(baton(&all))
}

/// Asserts that the answer is yes, in one line.
#[track_caller]
fn assert_yes(ended: &Ended, line: &str) {
    let expected = (Some(0), line, "");
    let answer = (ended.code, ended.stdout.trim_end(), ended.stderr.as_str());
    assert_eq!(answer, expected, "{ended:#?}");
}

/// Asserts that the answer is no, in one line that has these words.
#[track_caller]
fn assert_no(ended: &Ended, words: &[&str]) {
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(1), ""),
        "{ended:#?}"
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}");
    for words in words {
        ended.complains(words);
    }
}

#[test]
fn a_node_of_a_living_fleet_is_healthy_and_ready() {
    let server = server();
    let node = Node::on(&server);
    let addr = node.addr;
    wait_until("a reading", || node.ask(&["--ready"]).code == Some(0));
    assert_yes(
        &node.ask(&["--ready"]),
        &format!("ready: http://{addr}/readyz"),
    );
    assert_yes(&node.ask(&[]), &format!("healthy: http://{addr}/healthz"));
    // As in a container: the variables of the node, among them one for its handler.
    let mut command = baton(&["health"]);
    command.env("BATON_HTTP", format!("0.0.0.0:{}", addr.port()));
    command.env("BATON_READY", "1").env("BATON_TIMEOUT", "1h");
    assert_yes(&run(command), &format!("ready: http://{addr}/readyz"));
    // The node is gone, and so is its fleet.
    node.stop();
    let refused = format!("cannot ask http://{addr}/healthz");
    assert_no(&ask(&addr.to_string(), &[]), &[&refused, "refused"]);
    assert_no(
        &on(&server, &["health"]),
        &["no generator has renewed the lease"],
    );
}

#[test]
fn redis_says_whether_a_node_generates() {
    let server = server();
    let place = format!("fleet default on {}", server.url());
    let started = Instant::now();
    let none = on(&server, &["health"]);
    assert_no(
        &none,
        &[
            "not healthy",
            &place,
            "no generator has renewed the lease for",
        ],
    );
    // As soon as it is sure, not when the time is over.
    assert!(started.elapsed() < Duration::from_secs(3), "{started:?}");
    assert_no(
        &on(&server, &["health", "--within", "300ms"]),
        &["no generator within 300ms"],
    );
    // There is no node that could be ready, but the fleet can be read.
    assert_yes(
        &on(&server, &["health", "--ready"]),
        &format!("ready: {place}"),
    );

    let node = Node::on(&server);
    wait_until("a generator", || on(&server, &["health"]).code == Some(0));
    let healthy = on(&server, &["health"]);
    assert!(
        healthy.stdout.starts_with(&format!("healthy: {place}: ")),
        "{healthy:#?}"
    );
    assert!(healthy.stdout.ends_with(" generates\n"), "{healthy:#?}");
    assert_eq!(healthy.stdout.lines().count(), 1);
    assert_no(
        &on(&server, &["--fleet", "other", "health"]),
        &["fleet other", "no generator"],
    );
    assert_eq!(on(&server, &["pause"]).code, Some(0));
    assert_eq!(on(&server, &["health"]).code, Some(0));
    node.stop();
}

#[test]
fn a_node_that_cannot_use_redis_is_neither_ready_nor_healthy_and_says_why() {
    let url = format!("redis://127.0.0.1:{}", dead_port());
    let node = Node::start(baton(&["--redis", &url]));
    wait_until("a trouble", || {
        node.ask(&["--ready"]).stderr.contains("refused")
    });
    assert_no(
        &node.ask(&["--ready"]),
        &[
            "baton: not ready: http://",
            "/readyz: this node cannot use Redis: ",
        ],
    );
    wait_until("a verdict", || node.ask(&[]).code == Some(1));
    assert_no(
        &node.ask(&[]),
        &[
            "baton: not healthy: http://",
            "/healthz: the fleet could not be read for",
        ],
    );
    node.stop();
    for flag in [&["health"][..], &["health", "--ready"]] {
        let ended = run(baton(&[&["--redis", &url], flag].concat()));
        assert_no(&ended, &["the fleet could not be read", "refused", &url]);
    }
    // No server is named, and none is there.
    assert_no(&run(baton(&["health"])), &["no Redis answers on localhost"]);
}

#[test]
fn a_server_that_refuses_is_told_at_once_and_in_words_that_help() {
    let server = PrivateServer::builder().password("s3cret").start().unwrap();
    let url = server.url();
    let refused = run(baton(&["--redis", &url, "health"]));
    // Not "could not be read for 1.6 s".
    assert_no(
        &refused,
        &["cannot use redis://", "NOAUTH", "REDIS_PASSWORD"],
    );
    let mut ready = baton(&["--redis", &url, "health", "--ready"]);
    ready.env("REDIS_PASSWORD", "s3cret");
    assert_eq!(run(ready).code, Some(0));
}

#[test]
fn a_page_is_asked_as_a_node_is() {
    let server = server();
    let page = Page::with_token(&server, &[]);
    let addr = page.addr.to_string();
    wait_until("a reading", || ask(&addr, &["--ready"]).code == Some(0));
    wait_until("a verdict", || ask(&addr, &[]).code == Some(1));
    assert_no(&ask(&addr, &[]), &["no generator has renewed the lease"]);
}

#[test]
fn who_does_not_answer_in_time_is_not_healthy() {
    // A hung node and a hung server: both accept connections and say nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = silent.local_addr().unwrap().to_string();
    let url = format!("redis://{addr}");
    for (args, limit, words) in [
        (
            &["--http", &addr][..],
            "300ms",
            "did not answer within 300ms",
        ),
        (&["--redis", &url], "300ms", "within 300ms"),
        (&["--redis", &url], "1500ms", "within 1.5s"),
        (&["--http", &addr], "3s", "did not answer within 3s"),
    ] {
        let started = Instant::now();
        let mut all = vec!["health"];
        all.extend(args);
        // The last is the default.
        if limit != "3s" {
            all.extend(["--within", limit]);
        }
        assert_no(&run(baton(&all)), &[words, &addr]);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(6), "{all:?} took {took:?}");
    }
}

#[test]
fn a_password_file_that_nobody_writes_is_not_waited_for() {
    let server = PrivateServer::builder().password("s3cret").start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("password");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let path = fifo.to_str().unwrap().to_owned();
    let flags = ["--password-file", &path];
    let url = server.url();
    let asked = [&["--redis", &url][..], &flags, &["health", "--ready"]].concat();
    let started = Instant::now();
    let late = run(baton(&[&asked[..], &["--within", "300ms"]].concat()));
    assert_no(&late, &["password file", "could not be read within 300ms"]);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    // A pipe with a writer is a file as any other, such as that of `<(pass show redis)`.
    let writer = thread::spawn(move || std::fs::write(fifo, "s3cret\n"));
    assert_eq!(run(baton(&asked)).code, Some(0));
    writer.join().unwrap().unwrap();
}

#[test]
fn a_fleet_that_cannot_go_on_is_not_healthy_and_redis_says_why() {
    let mut group = Replicated::start(1);
    let server = &group.server;
    let mut command = baton(&["--redis", &server.url(), "--durability", "replicas:1"]);
    command.args(["--interval", "20ms"]);
    let node = Node::start(command);
    wait_until("a healthy fleet", || {
        on(server, &["health"]).code == Some(0)
    });
    group.replicas[0].pause().unwrap();
    wait_until("a beat that says it", || {
        on(server, &["health", "--within", "500ms"]).code == Some(1)
    });
    assert_no(
        &on(server, &["health"]),
        &[
            "not healthy: fleet default on ",
            "are not confirmed: no replica has the last writes",
        ],
    );
    // The fleet can be read.
    assert_eq!(on(server, &["health", "--ready"]).code, Some(0));
    group.replicas[0].resume().unwrap();
    wait_until("a healthy fleet", || {
        on(server, &["health"]).code == Some(0)
    });

    send(server, &["CONFIG", "SET", "maxmemory", "1"]);
    wait_until("a beat that says it", || {
        let asked = on(server, &["health", "--within", "500ms"]);
        asked.stderr.contains("are not accepted: OOM")
    });
    send(server, &["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("a healthy fleet", || {
        on(server, &["health"]).code == Some(0)
    });
    node.stop();
}

#[test]
fn a_server_that_stands_still_is_not_healthy() {
    let server = server();
    let node = Node::on(&server);
    wait_until("a generator", || on(&server, &["health"]).code == Some(0));
    send(&server, &["CLIENT", "PAUSE", "8000", "ALL"]);
    assert_no(&on(&server, &["health"]), &["not healthy", "within 3s"]);
    wait_until("a verdict", || node.ask(&[]).code == Some(1));
    assert_no(&node.ask(&[]), &["the fleet could not be read for"]);
    // It goes on.
    wait_until("a healthy fleet", || node.ask(&[]).code == Some(0));
    node.stop();
}

#[test]
fn who_is_no_node_is_named() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = other.local_addr().unwrap().to_string();
    let not_ours = "/healthz answered, but not as Baton does";
    let answers: [(&[u8], &[&str]); 4] = [
        // Any program may have such a path.
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n",
            &[not_ours, "`run --http`"],
        ),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            &["/healthz answered 404 Not Found", "`run --http`"],
        ),
        (
            b"-ERR unknown command 'GET'\r\n",
            &["cannot ask http://", "no HTTP answer"],
        ),
        (
            b"HTTP/1.1 503 Nope\r\nContent-Length: 12\r\n\r\none\x1b[2J\ntwo\n",
            &["not healthy: http://", "/healthz: one?[2J; two"],
        ),
    ];
    for (answer, words) in answers {
        let listener = other.try_clone().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
        });
        assert_no(&ask(&addr, &[]), words);
        server.join().unwrap();
    }
    // So is one whose answer has no end.
    let listener = other.try_clone().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(b"HTTP/1.1 503 Nope\r\n\r\n").unwrap();
        // It ends when the other side has enough.
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_no(
        &ask(&addr, &[]),
        &["cannot ask http://", "length limit exceeded"],
    );
    server.join().unwrap();
}

#[test]
fn a_wrong_address_or_time_is_refused() {
    for (flag, value) in [
        ("--http", "127.0.0.1:0"),
        ("--http", "9464"),
        ("--http", "http://127.0.0.1:9464"),
        ("--http", "node.example:9464"),
        ("--within", "3"),
        ("--within", "0s"),
    ] {
        let ended = run(baton(&["health", flag, value]));
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(2), ""),
            "{value}"
        );
        ended.complains(flag);
    }
    let help = run(baton(&["health", "--help"]));
    for part in [
        "BATON_HTTP",
        "--ready",
        "[default: 3s]",
        "HEALTHCHECK",
        "Exit codes:",
    ] {
        help.says(part);
    }
}
