//! Messages are posted to a service: a small one in this process, and those of the documents.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use baton_server::PrivateServer;

use crate::shared::{fleet_of, tool, wait_status};
use crate::support::{baton, on, read_line, redis, run, server, wait_until};

/// A service that counts each message in Redis. It rejects every fifth.
#[derive(Clone, Default)]
struct Service {
    /// How often each key came, and with which authorization.
    keys: Arc<Mutex<BTreeMap<String, (u64, String)>>>,
}

impl Service {
    /// Returns the URL.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/job", listener.local_addr().unwrap());
        let service = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let service = service.clone();
                thread::spawn(move || service.serve(stream.unwrap()));
            }
        });
        url
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        loop {
            let mut headers = BTreeMap::new();
            loop {
                let mut line = String::new();
                if !matches!(reader.read_line(&mut line), Ok(1..)) {
                    return;
                }
                match line.trim_end().split_once(": ") {
                    Some((name, value)) => headers.insert(name.to_owned(), value.to_owned()),
                    None if line == "\r\n" => break,
                    None => None,
                };
            }
            let length = headers["content-length"].parse().unwrap();
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let token = headers.get("authorization").cloned().unwrap_or_default();
            let mut keys = self.keys.lock().unwrap();
            let key = headers["idempotency-key"].clone();
            keys.entry(key).or_insert((0, token)).0 += 1;
            let seq: u64 = headers["baton-seq"].parse().unwrap();
            assert_eq!(headers["baton-partition"], "0");
            let (status, body) = match seq % 5 {
                0 => ("422 No", "no such customer"),
                _ => ("200 OK", "[\"INCRBY\",\"counted\",1]\n"),
            };
            let length = body.len();
            let kind = "Content-Type: application/x-baton-effects";
            let head = format!("HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n");
            if writer
                .write_all(&[head.as_bytes(), body.as_bytes()].concat())
                .is_err()
            {
                return;
            }
        }
    }
}

#[test]
fn each_message_is_posted_and_its_answer_decides() {
    let server = server();
    let service = Service::default();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    std::fs::write(&file, "Authorization: Bearer s3cret\n").unwrap();
    let (url, file) = (service.start(), file.display());
    let args = format!(
        "--interval 0 --messages 100 --concurrency 4 --push {url} --push-header-file {file}"
    );
    let _fleet = fleet_of(3, &server, &args);
    let status = wait_status(&server, "100 ends", |status| {
        status.done + status.failed == 100
    });
    assert_eq!((status.done, status.failed), (80, 20));
    assert_eq!(counted(&server), 80);
    let keys = service.keys.lock().unwrap();
    let once = (1, "Bearer s3cret".to_owned());
    assert!(keys.len() == 100 && keys.values().all(|seen| *seen == once));
    let errors = on(&server, &["errors"]);
    let reason = "HTTP 422 Unprocessable Entity: no such customer";
    assert_eq!(errors.stdout.matches(reason).count(), 20, "{errors:?}");
}

#[test]
fn flags_that_do_not_go_together_are_refused() {
    let url = "http://127.0.0.1:1/";
    for (args, words) in [
        (&["--push", url, "--work", "1ms"][..], "'--work <TIME>'"),
        (
            &["--push", url, "--error-rate", "0"],
            "'--error-rate <SHARE>'",
        ),
        (&["--push-header-file", "x"], "--push"),
        (&["--push-ca", "x"], "--push"),
        (&["--timeout", "1s"], "--push"),
    ] {
        let ended = run(baton(&[&["run"], args].concat()));
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        ended.complains(words);
    }
}

#[test]
fn a_url_that_cannot_be_used_is_refused_and_not_printed() {
    for (url, words) in [
        ("ftp://u:s3cret@h/", "neither http nor https"),
        ("http://u:s3cret@h/", "password in it is not used"),
        ("http:///job", "no URL"),
        ("http:/u:s3cret@h", "no URL"),
        ("u:s3cret@h", "no scheme"),
        ("http://h/?token=s3cret and more", "no URL"),
    ] {
        let typed = baton(&["run", "--push", url]);
        let mut set = baton(&["run"]);
        set.env("BATON_PUSH", url);
        for command in [typed, set] {
            let ended = run(command);
            assert_eq!(ended.code, Some(2), "{ended:?}");
            assert!(ended.stderr.starts_with("baton: --push: "), "{ended:?}");
            ended.complains(words);
            assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_refused_and_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "X-Good: yes\nAuthorization Bearer s3cret\n").unwrap();
    let (file, missing) = (file.to_str().unwrap(), "/no/such/file");
    for (flag, file, words) in [
        (
            "--push-header-file",
            file,
            "line 2: write it as Name: value",
        ),
        (
            "--push-header-file",
            missing,
            "cannot read it: No such file",
        ),
        ("--push-ca", file, "no CA certificates"),
        ("--push-ca", missing, "cannot read it: No such file"),
    ] {
        let ended = run(baton(&["run", "--push", "https://localhost/", flag, file]));
        assert_eq!(ended.code, Some(2), "{ended:?}");
        ended.complains(&format!("{flag} {file}: {words}"));
        assert!(!ended.stderr.contains("s3cret"), "{ended:?}");
    }
}

#[test]
fn authorities_for_a_url_without_tls_are_refused() {
    let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.cert.pem()).unwrap();
    let file = file.to_str().unwrap();
    let push = ["run", "--push", "http://localhost/"];
    let typed = baton(&[&push[..], &["--push-ca", file]].concat());
    let mut set = baton(&push);
    set.env("BATON_PUSH_CA", file);
    for command in [typed, set] {
        let ended = run(command);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let words = "only an https:// URL needs CA certificates";
        ended.complains(&format!("--push-ca {file}: {words}"));
    }
}

/// What the effects of the service counted.
fn counted(server: &PrivateServer) -> u64 {
    let counted: Option<u64> = redis::cmd("GET")
        .arg("counted")
        .query(&mut redis(server))
        .unwrap();
    counted.unwrap_or_default()
}

/// The first block of code of this language in a section of the document.
fn example(section: &str, language: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/handlers.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once(&format!("\n### {section}\n")).unwrap();
    let (_, code) = section.split_once(&format!("```{language}\n")).unwrap();
    code.split_once("```").unwrap().0.to_owned()
}

/// A service of the documents. It is killed when this is dropped.
struct Example {
    process: Child,
    port: String,
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Example {
    fn start(program: &Path, flag: &str, code: &str) -> Self {
        let mut process = Command::new(program)
            .args([flag, code])
            .env("PORT", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = read_line(process.stdout.as_mut().unwrap());
        let port = line.strip_prefix("listening on port ").unwrap().to_owned();
        Self { process, port }
    }
}

/// Runs a service of the documents and a fleet that posts to it.
fn check_example(tool: &str, flag: &str, section: &str, language: &str) {
    let skipped = format!("no {tool}, so the service of docs/handlers.md in it is not run");
    let found = tool::find(&format!("BATON_{tool}"), &[tool], "--version", &skipped);
    tool::require(tool, found.as_ref());
    let Some(program) = found else {
        return;
    };
    let example = Example::start(&program, flag, &example(section, language));
    let server = server();
    let url = format!("http://127.0.0.1:{}/job", example.port);
    let args = format!("--interval 0 --messages 50 --concurrency 2 --push {url}");
    let _fleet = fleet_of(2, &server, &args);
    wait_until("50 messages", || counted(&server) == 50);
    check_curl(&example.port);
}

/// Runs the line of the documents that plays the node.
fn check_curl(port: &str) {
    let skipped = "no curl, so the line of docs/handlers.md with it is not run";
    let found = tool::find("BATON_CURL", &["curl"], "--version", skipped);
    tool::require("curl", found.as_ref());
    if found.is_none() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/handlers.md");
    let text = std::fs::read_to_string(path).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("    curl -i "))
        .unwrap();
    let line = line.replace(":8080/", &format!(":{port}/"));
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("[\"INCRBY\",\"counted\",1]"), "{answer}");
}

#[test]
fn the_service_in_python_handles_messages() {
    check_example("python3", "-c", "Push to Python", "python");
}

#[test]
fn the_service_in_node_handles_messages() {
    check_example("node", "-e", "Push to Node", "js");
}
