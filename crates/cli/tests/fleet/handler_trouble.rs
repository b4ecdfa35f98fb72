//! Handlers that cannot work, whatever the message: the program or the service is missing. The node
//! says so, in its log and at `/readyz`, and no message is lost or has an attempt less.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use baton::inspect::Snapshot;
use baton_log::LogEvent;
use baton_processes::{Fleet, Own, Told};
use baton_server::PrivateServer;
use redis::Commands;
use rustix::net;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto};

use crate::shared::page::get;
use crate::support::{
    TIMEOUT, redis, replace_generator, server, status, wait_for, wait_status, wait_until, warns,
};

const MESSAGES: u64 = 3;

/// A generator that has published all its messages, and a worker with this handler that serves its
/// health at the address.
fn fleet_with(server: &PrivateServer, handler: &[&str]) -> (Fleet, String) {
    let (url, messages) = (server.url(), MESSAGES.to_string());
    let args = ["--redis", &url, "--interval", "0", "--messages", &messages];
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args);
    fleet.start_many(1, TIMEOUT).unwrap();
    wait_status(server, "all messages", |status| status.pending == MESSAGES);
    let address = format!("127.0.0.1:{}", baton_server::free_port().unwrap());
    let own = ["--http", &address]
        .into_iter()
        .chain(handler.iter().copied());
    let own = Own {
        args: own.map(str::to_owned).collect(),
        ..Own::default()
    };
    fleet.start_with(own).unwrap();
    (fleet, address)
}

#[track_caller]
fn wait_warning(fleet: &Fleet, words: &str) {
    let words = format!("the handler cannot work: {words}");
    wait_for(fleet, 0, &words, |told| warns(told, &words));
}

#[track_caller]
fn wait_readiness(address: &str, words: &[&str]) {
    wait_until(&format!("{words:?}"), || {
        let answer = get(address, "/readyz");
        words.iter().all(|word| answer.contains(word))
    });
}

/// All messages wait, and none has failed, is done, or waits for another attempt.
fn assert_all_wait(status: &Snapshot) {
    assert_eq!(status.pending + status.claimed, MESSAGES, "{status:?}");
    assert_eq!(
        (status.done, status.failed, status.delayed),
        (0, 0, 0),
        "{status:?}"
    );
}

/// The attempt in which each message was handled.
fn attempts(server: &PrivateServer) -> Vec<u64> {
    redis(server).lrange("attempts", 0, -1).unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_program_that_is_missing_or_not_executable_burns_no_message() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("handle");
    let path = program.to_str().unwrap();
    let (fleet, address) = fleet_with(&server, &["--", path]);
    wait_warning(
        &fleet,
        &format!("cannot start {path}: No such file or directory (os error 2); messages wait"),
    );
    wait_readiness(&address, &["503", "cannot work", "No such file"]);
    assert_all_wait(&status(&server));

    let script = "#!/bin/sh\necho \"[\\\"RPUSH\\\",\\\"attempts\\\",$BATON_ATTEMPT]\" > \"$BATON_EFFECTS\"\n";
    fs::write(&program, script).unwrap();
    set_mode(&program, 0o644);
    wait_readiness(&address, &["503", "Permission denied"]);
    assert_all_wait(&status(&server));

    set_mode(&program, 0o755);
    wait_status(&server, "all to be done", |status| status.done == MESSAGES);
    assert_eq!(attempts(&server), [1; MESSAGES as usize]);
    wait_readiness(&address, &["200 OK"]);
}

#[test]
fn a_shell_that_finds_no_program_burns_no_message() {
    let server = server();
    let (mut fleet, address) = fleet_with(&server, &["--exec", "no-such-program --flag"]);
    wait_warning(&fleet, "exit code 127: ");
    wait_readiness(&address, &["503", "exit code 127", "not found"]);
    assert_all_wait(&status(&server));
    // A generator needs no handler.
    replace_generator(&mut fleet);
    wait_readiness(&address, &["200 OK"]);
    assert_all_wait(&status(&server));
}

/// Answers each request with an effect that has its attempt.
fn serve(listener: &TcpListener) {
    for stream in listener.incoming() {
        let mut stream = BufReader::new(stream.unwrap());
        thread::spawn(move || {
            loop {
                let (mut attempt, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    if !matches!(stream.read_line(&mut line), Ok(1..)) {
                        return;
                    }
                    match line.trim_end().split_once(": ") {
                        Some(("baton-attempt", value)) => value.clone_into(&mut attempt),
                        Some(("content-length", value)) => length = value.parse().unwrap(),
                        None if line == "\r\n" => break,
                        _ => {}
                    }
                }
                stream.read_exact(&mut vec![0; length]).unwrap();
                let body = format!("[\"RPUSH\",\"attempts\",{attempt}]");
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-baton-effects";
                let length = body.len();
                let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
                if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

#[test]
fn a_service_that_is_away_burns_no_message() {
    let server = server();
    // The port is ours, but nothing listens yet.
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
    let any = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
    net::bind(&socket, &any).unwrap();
    let bound = net::getsockname(&socket).unwrap();
    let port = std::net::SocketAddrV4::try_from(bound).unwrap().port();

    let url = format!("http://127.0.0.1:{port}/job");
    let (fleet, address) = fleet_with(&server, &["--push", &url]);
    wait_warning(
        &fleet,
        &format!("cannot connect to 127.0.0.1:{port}: Connection refused"),
    );
    wait_readiness(&address, &["503", "cannot work", "Connection refused"]);
    assert_all_wait(&status(&server));

    net::listen(&socket, 16).unwrap();
    thread::spawn(move || serve(&TcpListener::from(socket)));
    wait_status(&server, "all to be done", |status| status.done == MESSAGES);
    assert_eq!(attempts(&server), [1; MESSAGES as usize]);
    wait_readiness(&address, &["200 OK"]);
}

#[test]
fn a_certificate_that_is_not_trusted_burns_no_message() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime.spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            // The client refuses the certificate.
            let _ = acceptor.accept(stream).await;
        }
    });

    // The CA that the node trusts is another one.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, other.cert.pem()).unwrap();
    let server = server();
    let url = format!("https://localhost:{port}/job");
    let push = ["--push", &url, "--push-ca", file.to_str().unwrap()];
    let (fleet, address) = fleet_with(&server, &push);
    let words = format!("the certificate of localhost:{port} is not trusted: ");
    wait_warning(&fleet, &words);
    wait_readiness(&address, &["503", &words]);
    assert_all_wait(&status(&server));
}

#[test]
fn a_node_short_of_open_files_blames_no_message() {
    const MESSAGES: u64 = 60;
    let server = server();
    let url = server.url();
    let limited = "ulimit -n 24; exec \"$0\" \"$@\"";
    let node = format!(
        "run --redis {url} --interval 0 --messages {MESSAGES} --generator-works alone \
         --concurrency 20 --attempts 2 --backoff 100ms..200ms --log json --exec"
    );
    let args = ["-c", limited, env!("CARGO_BIN_EXE_baton")].into_iter();
    let args = args.chain(node.split(' ')).chain(["sleep 0.2"]);
    let args = args.map(str::to_owned);
    let mut fleet = Fleet::of("/bin/sh", args.collect());
    fleet.start_many(1, TIMEOUT).unwrap();
    wait_warning(&fleet, "cannot start /bin/sh: Too many open files");
    wait_status(&server, "all messages", |status| {
        status.done + status.failed == MESSAGES
    });
    assert_eq!(status(&server).failed, 0);
    let delays = fleet.told_since(0);
    let is_delay = |told: &&Told| matches!(told.event(), LogEvent::Delayed { .. });
    let delays = delays.iter().filter(is_delay);
    assert_eq!(delays.count(), 0, "an attempt counted");
}
