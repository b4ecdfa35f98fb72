//! TLS: a server behind a certificate that is trusted, and behind one that is not.

mod proxy;

use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::doctor::Report;
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
        (
            stranger.certify("localhost"),
            "does not trust (invalid peer certificate: UnknownIssuer); --tls-ca names a file",
        ),
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

#[test]
fn a_flag_names_the_authority_and_the_certificate_of_the_caller() {
    let (server, authority, callers) = (server(), Authority::new("known"), Authority::new("us"));
    let proxy = TlsProxy::asking(&server, authority.certify("localhost"), Some(&callers));
    let url = format!("rediss://:{SECRET}@localhost:{}", proxy.port());
    let ca = authority.file();
    let with_ca = || {
        let mut command = baton(&["--redis", &url]);
        command.arg("--tls-ca").arg(&ca);
        command
    };
    let mut stranger = with_ca();
    stranger.arg("status");
    let ended = run(stranger);
    assert_eq!(ended.code, Some(1));
    ended.complains("the server asks for a certificate of this client");
    ended.complains("--tls-cert and --tls-key name it");
    let [certificate, key] = callers.certify_caller();
    let known = || {
        let mut command = with_ca();
        command.arg("--tls-cert").arg(&certificate);
        command.arg("--tls-key").arg(&key);
        command
    };
    three_messages(known);
    assert_eq!(status(known())["done"], 3);
}

#[test]
fn a_wrong_file_of_certificates_is_named_at_once() {
    let authority = Authority::new("known");
    let ca = authority.file();
    let (ca, missing) = (ca.to_str().unwrap(), "/nowhere/ca.pem");
    let (tls, plain) = ("rediss://localhost:1", "redis://localhost:1");
    for (url, args, words) in [
        (
            tls,
            &["--tls-ca", missing][..],
            "cannot read /nowhere/ca.pem: No such file",
        ),
        (
            tls,
            &["--tls-ca", "/dev/null"],
            "cannot read /dev/null: it is not a PEM file",
        ),
        (
            plain,
            &["--tls-ca", ca],
            "certificates need a URL that begins with rediss",
        ),
        (tls, &["--tls-cert", ca], "--tls-key"),
    ] {
        let mut command = baton(&["--redis", url, "status"]);
        command.args(args);
        let ended = run(command);
        assert!(ended.code.is_some_and(|code| code > 0), "{args:?}");
        ended.complains(words);
    }
}

#[test]
fn doctor_says_when_the_certificate_expires() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let (server, authority, callers) = (server(), Authority::new("known"), Authority::new("us"));
    let doctor = |port: u16, args: &[&str]| {
        let url = format!("rediss://:{SECRET}@localhost:{port}");
        let mut command = trusting(&authority, &url);
        command.args(["doctor", "--json"]).args(args);
        Report::from(run(command))
    };
    // Half a day more, so that the number of whole days is certain.
    for (days, mark) in [(100, "ok"), (10, "warn")] {
        let end = SystemTime::now() + DAY * days + DAY / 2;
        let proxy = TlsProxy::start(&server, authority.certify_until("localhost", end));
        let expires = format!("expires in {days} days");
        doctor(proxy.port(), &[]).has("tls", mark, &["encrypted", &expires]);
    }
    // The certificate comes before the server asks for that of the caller.
    let end = SystemTime::now() + DAY * 10 + DAY / 2;
    let certificate = authority.certify_until("localhost", end);
    let proxy = TlsProxy::asking(&server, certificate, Some(&callers));
    let [certificate, key] = callers.certify_caller();
    let files = [authority.file(), certificate, key];
    let [ca, certificate, key] = files.map(|path| path.display().to_string());
    let args = [
        "--tls-ca",
        &ca,
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
    ];
    doctor(proxy.port(), &args).has("tls", "warn", &["expires in 10 days", "renew it"]);
    let expired = authority.certify_until("localhost", SystemTime::now() - DAY);
    let proxy = TlsProxy::start(&server, expired);
    doctor(proxy.port(), &[]).has("connection", "fail", &["certificate"]);
}
