//! TLS: a server behind a certificate that is trusted, and behind one that is not.

mod proxy;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use baton_server::{CertificateAuthority, CertificateFiles, PrivateServer};
use rustix::process::Signal;
use serde_json::Value;

use crate::doctor::Report;
use crate::shared::tool;
use crate::support::{
    assert_complains, assert_waits, baton, connections, end, read_line, run, signal, status,
    three_messages,
};
use proxy::TlsProxy;

const SECRET: &str = "s3cret";
/// Max time until the program prints why it does not work.
const SOON: Duration = Duration::from_secs(10);

fn server() -> PrivateServer {
    PrivateServer::builder().password(SECRET).start().unwrap()
}

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name).unwrap()
}

fn certify(authority: &CertificateAuthority, name: &str) -> CertificateFiles {
    authority.certify(&[name]).unwrap()
}

/// The program that trusts one authority, and no other that this machine knows.
fn trusting(authority: &CertificateAuthority, url: &str) -> Command {
    let mut command = baton(&["--redis", url]);
    command
        .env("SSL_CERT_FILE", authority.file())
        .env_remove("SSL_CERT_DIR");
    command
}

#[test]
fn commands_and_nodes_work_behind_a_certificate_that_is_trusted() {
    let (server, authority) = (server(), authority("known"));
    let proxy = TlsProxy::start(&server, &certify(&authority, "localhost"));
    let url = format!("rediss://:{SECRET}@localhost:{}", proxy.port());
    assert_eq!(status(trusting(&authority, &url))["published"], 0);
    three_messages(|| trusting(&authority, &url));
    let told = status(trusting(&authority, &url));
    assert_eq!((&told["published"], &told["done"]), (&3.into(), &3.into()));
}

#[test]
fn a_command_says_what_is_wrong_with_a_certificate() {
    let (server, authority, stranger) = (server(), authority("known"), authority("stranger"));
    for (certificate, why) in [
        (
            certify(&stranger, "localhost"),
            "give the client that authority's certificate (invalid peer certificate: UnknownIssuer); \
             --tls-ca names its file",
        ),
        (
            certify(&authority, "elsewhere.example"),
            "is for another name: use a name that the certificate has",
        ),
    ] {
        let proxy = TlsProxy::start(&server, &certificate);
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
    let (server, authority, stranger) = (server(), authority("known"), authority("stranger"));
    let proxy = TlsProxy::start(&server, &certify(&stranger, "localhost"));
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
        line.contains("give the client that authority's certificate") && !line.contains(SECRET),
        "{line}"
    );
    signal(&node, Signal::TERM);
    let ended = end(node);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_command_that_speaks_no_tls_is_told_so_by_a_server_that_does() {
    let (server, authority) = (server(), authority("known"));
    let proxy = TlsProxy::start(&server, &certify(&authority, "localhost"));
    let url = format!("redis://:{SECRET}@localhost:{}", proxy.port());
    let mut command = trusting(&authority, &url);
    command.arg("status");
    let ended = run(command);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    ended.complains("the server speaks TLS: use a URL that begins with rediss");
}

#[test]
fn a_flag_names_the_authority_and_the_certificate_of_the_caller() {
    let (server, authority, callers) = (server(), authority("known"), authority("us"));
    let proxy = TlsProxy::asking(
        &server,
        &certify(&authority, "localhost"),
        Some(&callers.file()),
    );
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
    ended.complains("the server wants a certificate from this client");
    ended.complains("--tls-cert and --tls-key name the files");
    let caller = certify(&callers, "caller");
    let known = || {
        let mut command = with_ca();
        command.arg("--tls-cert").arg(&caller.cert);
        command.arg("--tls-key").arg(&caller.key);
        command
    };
    three_messages(known);
    assert_eq!(status(known())["done"], 3);
}

#[test]
fn a_wrong_file_of_certificates_is_named_at_once() {
    let authority = authority("known");
    let [one, two] = [(); 2].map(|()| certify(&authority, "caller"));
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let (ca, missing) = (text(&one.ca), "/nowhere/ca.pem");
    let (cert, key, other_key) = (text(&one.cert), text(&one.key), text(&two.key));
    let (tls, plain) = ("rediss://localhost:1", "redis://localhost:1");
    let client = |cert, key| vec!["--tls-cert", cert, "--tls-key", key];
    for (url, args, words) in [
        (
            tls,
            vec!["--tls-ca", missing],
            "cannot use /nowhere/ca.pem: No such file".to_owned(),
        ),
        (
            tls,
            vec!["--tls-ca", "/dev/null"],
            "cannot use /dev/null: it has no certificate in PEM form".to_owned(),
        ),
        (
            tls,
            vec!["--tls-ca", &key],
            format!("cannot use {key}: it has a key and no certificate"),
        ),
        (
            plain,
            vec!["--tls-ca", &ca],
            "certificates need a URL that begins with rediss".to_owned(),
        ),
        (tls, vec!["--tls-cert", &cert], "--tls-key".to_owned()),
        (
            tls,
            client(&key, &cert),
            format!("cannot use {key}: it has a key and no certificate"),
        ),
        (
            tls,
            client(&cert, &ca),
            format!("cannot use {ca}: it has a certificate and no key"),
        ),
        (
            tls,
            client(&cert, &other_key),
            format!("{cert} and {other_key} do not fit together"),
        ),
    ] {
        for command in ["status", "run"] {
            let mut command = baton(&["--redis", url, command]);
            command.args(&args);
            let ended = run(command);
            assert!(ended.code.is_some_and(|code| code > 0), "{args:?}");
            ended.complains(&words);
        }
    }
}

#[test]
fn doctor_says_when_the_certificate_expires() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let (server, known, callers) = (server(), authority("known"), authority("us"));
    let certify_until = |end: SystemTime| known.certify_until(&["localhost"], end).unwrap();
    let doctor = |port: u16, args: &[&str]| {
        let url = format!("rediss://:{SECRET}@localhost:{port}");
        let mut command = trusting(&known, &url);
        command.args(["doctor", "--json"]).args(args);
        Report::from(run(command))
    };
    // Half a day more, so that the number of whole days is certain.
    for (days, mark) in [(100, "ok"), (10, "warn")] {
        let end = SystemTime::now() + DAY * days + DAY / 2;
        let proxy = TlsProxy::start(&server, &certify_until(end));
        let expires = format!("expires in {days} days");
        doctor(proxy.port(), &[]).has("tls", mark, &["encrypted", &expires]);
    }
    // The certificate comes before the server asks for that of the caller.
    let end = SystemTime::now() + DAY * 10 + DAY / 2;
    let proxy = TlsProxy::asking(&server, &certify_until(end), Some(&callers.file()));
    let caller = certify(&callers, "caller");
    let files = [known.file(), caller.cert, caller.key];
    let [ca, cert, key] = files.map(|path| path.display().to_string());
    let args = ["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    doctor(proxy.port(), &args).has("tls", "warn", &["expires in 10 days", "renew it"]);
    let proxy = TlsProxy::start(&server, &certify_until(SystemTime::now() - DAY));
    doctor(proxy.port(), &[]).has("connection", "fail", &["certificate"]);
}

#[test]
fn a_real_server_with_tls_says_what_each_client_does_wrong() {
    let Some(program) = tool::tls_server() else {
        return;
    };
    let (ours, strange) = (authority("ours"), authority("strange"));
    let server = PrivateServer::builder()
        .program(program)
        .tls(certify(&ours, "127.0.0.1"))
        .start()
        .unwrap();
    let (tls, port) = (server.url(), server.port().unwrap());
    let caller = |url: &str, ca: &CertificateAuthority, own: Option<&CertificateAuthority>| {
        let mut command = baton(&["--redis", url]);
        command.arg("--tls-ca").arg(ca.file());
        if let Some(own) = own {
            let files = certify(own, "caller");
            command.arg("--tls-cert").arg(files.cert);
            command.arg("--tls-key").arg(files.key);
        }
        command
    };
    three_messages(|| caller(&tls, &ours, Some(&ours)));
    let plain = format!("redis://127.0.0.1:{port}");
    let other_name = format!("rediss://localhost:{port}");
    let as_sentinel = format!("rediss+sentinel://127.0.0.1:{port}/fleet");
    for (command, words) in [
        (
            &(|| caller(&tls, &strange, None)) as &dyn Fn() -> Command,
            "give the client that authority's certificate",
        ),
        (
            &|| caller(&as_sentinel, &strange, None),
            "give the client that authority's certificate",
        ),
        (
            &|| caller(&other_name, &ours, Some(&ours)),
            "use a name that the certificate has",
        ),
        (
            &|| caller(&tls, &ours, None),
            "the server wants a certificate from this client",
        ),
        (
            &|| caller(&tls, &ours, Some(&strange)),
            "the server refuses this client's certificate",
        ),
        (
            &|| baton(&["--redis", &plain]),
            "the server speaks TLS: use a URL that begins with rediss",
        ),
    ] {
        assert_complains(command(), &[words]);
        assert_waits(command(), &[words], || connections(&server));
    }
}

#[test]
fn a_client_that_speaks_tls_is_told_that_its_server_does_not() {
    let server = PrivateServer::builder().start().unwrap();
    let url = server.url().replace("redis://", "rediss://");
    let words = ["the server speaks no TLS on this port"];
    assert_complains(baton(&["--redis", &url]), &words);
    assert_waits(baton(&["--redis", &url]), &words, || connections(&server));
}
