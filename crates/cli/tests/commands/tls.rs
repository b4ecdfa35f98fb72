//! TLS: a server behind a certificate that is trusted, and behind one that is not.

mod proxy;

use std::process::Command;
use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{baton, end, read_line, run, signal, status, three_messages};
use proxy::{Authority, TlsProxy};

const SECRET: &str = "s3cret";
/// Max time until the program prints why it does not work.
const SOON: Duration = Duration::from_secs(10);

fn server() -> PrivateServer {
    PrivateServer::builder().password(SECRET).start().unwrap()
}

/// The program that trusts one authority, and no other that this machine knows.
fn trusting(authority: &Authority, url: &str) -> Command {
    let mut command = baton(&["--redis", url]);
    command
        .env("SSL_CERT_FILE", authority.file())
        .env_remove("SSL_CERT_DIR");
    command
}

#[test]
fn commands_and_nodes_work_behind_a_certificate_that_is_trusted() {
    let (server, authority) = (server(), Authority::new("known"));
    let proxy = TlsProxy::start(&server, authority.certify("localhost"));
    let url = format!("rediss://:{SECRET}@localhost:{}", proxy.port());
    assert_eq!(status(trusting(&authority, &url))["published"], 0);
    three_messages(|| trusting(&authority, &url));
    let told = status(trusting(&authority, &url));
    assert_eq!((&told["published"], &told["done"]), (&3.into(), &3.into()));
}

#[test]
fn a_command_says_what_is_wrong_with_a_certificate() {
    let (server, authority, stranger) = (
        server(),
        Authority::new("known"),
        Authority::new("stranger"),
    );
    for (certificate, why) in [
        (stranger.certify("localhost"), "UnknownIssuer"),
        (
            authority.certify("elsewhere.example"),
            "not valid for name \"localhost\"",
        ),
    ] {
        let proxy = TlsProxy::start(&server, certificate);
        let place = format!("localhost:{}", proxy.port());
        let url = format!("rediss://alice:{SECRET}@{place}");
        let mut command = trusting(&authority, &url);
        command.args(["status", "--json"]);
        let start = Instant::now();
        let ended = run(command);
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        for part in ["baton: cannot use rediss://", &place, "certificate", why] {
            ended.complains(part);
        }
        for secret in [SECRET, "alice"] {
            assert!(!ended.stderr.contains(secret), "{}", ended.stderr);
        }
    }
}

#[test]
fn a_node_that_does_not_trust_its_server_says_so_while_it_waits() {
    let (server, authority, stranger) = (
        server(),
        Authority::new("known"),
        Authority::new("stranger"),
    );
    let proxy = TlsProxy::start(&server, stranger.certify("localhost"));
    let url = format!("rediss://:{SECRET}@localhost:{}", proxy.port());
    let mut command = trusting(&authority, &url);
    command.args(["run", "--log", "json"]);
    let mut node = command.spawn().unwrap();
    let line = read_line(node.stdout.as_mut().unwrap());
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&told["event"], &told["state"]),
        (&"redis".into(), &"lost".into())
    );
    assert!(
        line.contains("UnknownIssuer") && !line.contains(SECRET),
        "{line}"
    );
    signal(&node, Signal::TERM);
    let ended = end(node);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_command_that_speaks_no_tls_is_told_so_by_a_server_that_does() {
    let (server, authority) = (server(), Authority::new("known"));
    let proxy = TlsProxy::start(&server, authority.certify("localhost"));
    let url = format!("redis://:{SECRET}@localhost:{}", proxy.port());
    let mut command = trusting(&authority, &url);
    command.arg("status");
    let ended = run(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    ended.complains("does not speak Redis's protocol");
}
