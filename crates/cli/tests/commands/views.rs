//! `baton status --watch`, `baton top`, `baton web` and `baton run --http`, as far as a terminal
//! and a browser are not needed for them.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Child;
use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::shared::page;
use crate::support::{Ended, TIMEOUT, baton, end, on, run, server, signal};

/// The first line that a process prints on the stream, and the process.
fn first_line(stream: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// The address in a line such as "… http://127.0.0.1:1234/ …".
fn address(line: &str) -> String {
    let (_, rest) = line
        .split_once("http://")
        .unwrap_or_else(|| panic!("{line}"));
    rest.split('/').next().unwrap().to_owned()
}

/// The status and the whole answer to a GET.
fn get(address: &str, path: &str) -> (u16, String) {
    let answer = page::get(address, path);
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.unwrap_or_default(), answer)
}

/// Asks until the answer has this status.
#[track_caller]
fn wait_for(address: &str, path: &str, status: u16) -> String {
    wait_for_words(address, path, status, "")
}

/// Asks until the answer has this status and these words.
#[track_caller]
fn wait_for_words(address: &str, path: &str, status: u16, words: &str) -> String {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (found, answer) = get(address, path);
        if found == status && answer.contains(words) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{path} answers {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn start(server: &PrivateServer, args: &[&str]) -> Child {
    let url = server.url();
    let mut all = vec!["--redis", url.as_str()];
    all.extend(args);
    baton(&all).spawn().unwrap()
}

#[track_caller]
fn stop(child: Child) -> Ended {
    signal(&child, Signal::TERM);
    end(child)
}

#[test]
fn a_watched_status_goes_on_when_redis_goes_and_comes() {
    let mut server = server();
    let mut watch = start(&server, &["status", "--watch", "--json"]);
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = |what: &str, fits: fn(&Value) -> bool| {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if fits(&line) {
                return;
            }
            assert!(Instant::now() < deadline, "no {what}: {line}");
        }
    };
    next("reading", |line| line["balanced"] == true);
    server.kill9();
    next("trouble", |line| line["trouble"].is_string());
    server.restart().unwrap();
    next("reading again", |line| line["balanced"] == true);
    let ended = stop(watch);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn top_without_a_terminal_says_what_to_do() {
    let top = on(&server(), &["top"]);
    assert_eq!(top.code, Some(1));
    top.complains("needs a terminal");
    top.complains("status --watch");
}

#[test]
fn a_page_for_others_needs_a_token_that_cannot_be_guessed() {
    let server = server();
    let open = on(&server, &["web", "--http", "0.0.0.0:0"]);
    assert_eq!(open.code, Some(2));
    open.complains("--token-file");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let file_arg = file.to_str().unwrap();
    let args = ["web", "--http", "127.0.0.1:0", "--token-file", file_arg];
    let missing = on(&server, &args);
    assert_eq!(missing.code, Some(1));
    for weak in ["", "short\n", "spaces are not allowed in it\n"] {
        std::fs::write(&file, weak).unwrap();
        let refused = on(&server, &args);
        assert_eq!(refused.code, Some(2), "{weak:?}: {}", refused.stderr);
        assert!(weak.is_empty() || !refused.stderr.contains(weak.trim()));
    }
}

#[test]
fn a_public_url_is_an_origin() {
    let server = server();
    for bad in [
        "baton.example",
        "https://baton.example/page",
        "ftp://baton.example",
    ] {
        let refused = on(&server, &["web", "--public-url", bad]);
        assert_eq!(refused.code, Some(2), "{bad}: {}", refused.stderr);
        refused.complains("--public-url");
    }
}

#[test]
fn an_address_that_is_taken_is_named() {
    let server = server();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for command in ["web", "run"] {
        let refused = on(&server, &[command, "--http", &addr]);
        assert_eq!(refused.code, Some(1), "{command}");
        let named = refused.stderr.contains(&format!("cannot listen on {addr}"));
        assert!(named, "{}", refused.stderr);
    }
}

#[test]
fn the_page_serves_metrics_and_health_and_ends_in_good_order() {
    let server = server();
    let mut web = start(&server, &["web", "--http", "127.0.0.1:0"]);
    let line = first_line(web.stdout.take().unwrap());
    assert!(line.contains("read-only"), "{line}");
    let address = address(&line);
    wait_for(&address, "/readyz", 200);
    let metrics = wait_for(&address, "/metrics", 200);
    assert!(
        metrics.contains("\nbaton_up{fleet=\"default\"} 1\n"),
        "{metrics}"
    );
    // No node generates here.
    let ill = wait_for(&address, "/healthz", 503);
    assert!(ill.contains("lease"), "{ill}");
    let ended = stop(web);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_node_tells_programs_how_it_is() {
    let server = server();
    let http = ["--http", "127.0.0.1:0"];
    let flags = ["run", "--interval", "20ms", "--error-rate", "0"];
    let mut nodes = [0; 2].map(|_| start(&server, &[&flags[..], &http[..]].concat()));
    let addresses = nodes
        .each_mut()
        .map(|node| address(&first_line(node.stderr.take().unwrap())));
    for address in &addresses {
        wait_for(address, "/readyz", 200);
        wait_for(address, "/healthz", 200);
        assert_eq!(get(address, "/").0, 404);
    }
    // One of them generates, the other has processed something.
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let all = addresses
            .each_ref()
            .map(|address| get(address, "/metrics").1);
        let told = |name: &str| {
            all.iter().any(|metrics| {
                let mut lines = metrics.lines().filter(|line| line.starts_with(name));
                lines.any(|line| !line.ends_with(" 0"))
            })
        };
        if told("baton_node_published_total") && told("baton_message_latency_seconds_count") {
            break;
        }
        assert!(Instant::now() < deadline, "{}", all[0]);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Without Redis a node is not ready, and after a while it is ill.
    drop(server);
    for address in &addresses {
        wait_for(address, "/readyz", 503);
        let ill = wait_for(address, "/healthz", 503);
        assert!(ill.contains("could not be read"), "{ill}");
    }
    for node in nodes {
        assert_eq!(stop(node).code, Some(0));
    }
}

#[test]
fn a_node_whose_handler_cannot_work_is_not_ready_until_it_can() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("handle");
    let program = program.to_str().unwrap();
    let flags = ["run", "--interval", "20ms", "--http", "127.0.0.1:0"];
    let mut generator = start(&server, &flags);
    let generator_address = address(&first_line(generator.stderr.take().unwrap()));
    wait_for(&generator_address, "/readyz", 200);
    wait_for(&generator_address, "/healthz", 200);
    let mut worker = start(&server, &[&flags[..], &["--", program]].concat());
    let worker_address = address(&first_line(worker.stderr.take().unwrap()));

    let reason = format!("cannot start {program}: No such file or directory (os error 2)");
    let not_ready = wait_for_words(&worker_address, "/readyz", 503, "handler");
    let body = not_ready.rsplit("\r\n").next().unwrap();
    assert_eq!(
        body,
        format!("the handler of this node cannot work: {reason}\n")
    );
    let metrics = get(&worker_address, "/metrics").1;
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("baton_node_handler_trouble{") && line.ends_with(" 1")),
        "{metrics}"
    );
    // It is the only worker, so the fleet is unhealthy, and the generator says so without the reason.
    let unhealthy = wait_for_words(&generator_address, "/healthz", 503, "no worker's handler");
    assert!(!unhealthy.contains(program), "{unhealthy}");
    assert_eq!(get(&generator_address, "/readyz").0, 200);

    std::fs::write(program, "#!/bin/sh\n").unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(program, permissions).unwrap();
    wait_for(&worker_address, "/readyz", 200);
    wait_for(&generator_address, "/healthz", 200);
    for node in [worker, generator] {
        assert_eq!(stop(node).code, Some(0));
    }
}

#[test]
fn an_address_to_listen_on_is_checked() {
    for command in ["web", "run"] {
        let refused = run(baton(&[command, "--http", "7070"]));
        assert_eq!(refused.code, Some(2));
        refused.complains("127.0.0.1:7070");
    }
}
