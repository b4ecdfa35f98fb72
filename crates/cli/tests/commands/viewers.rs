//! Every command that only reads works with the rights that `baton acl` prints, and needs them all.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use baton_protocol::bounds::SHORT_RECORD_BYTES;
use baton_server::PrivateServer;
use rustix::process::Signal;

use crate::seeder::Seeder;
use crate::shared::page::get;
use crate::shared::pty;
use crate::shared::server_matrix::start_each;
use crate::support::{baton, end, run, send, signal, wait_until};

const PASSWORD: &str = "reads-only";

/// The words of the rule that `baton acl` prints for a server of this version, with a password.
fn printed_rule(version: &str) -> Vec<String> {
    let printed = run(baton(&["acl", "viewer", "--server-version", version]));
    let rule = printed.stdout.replace("baton-default-viewer", "viewer");
    let password = format!(">{PASSWORD}");
    let words = rule.split_whitespace().chain([password.as_str()]);
    words.map(str::to_owned).collect()
}

fn allow(server: &PrivateServer, rule: &[String]) {
    let words: Vec<&str> = rule.iter().map(String::as_str).collect();
    send(server, &words);
}

/// The program as that user.
fn viewer(server: &PrivateServer, args: &[&str]) -> Command {
    let url = format!("redis://viewer@127.0.0.1:{}", server.port().unwrap());
    let mut command = baton(&["--redis", &url]);
    command.args(args).env("REDIS_PASSWORD", PASSWORD);
    command
}

/// A fleet with a waiting and two failed messages. One of those is so long that its record has a key of its
/// own.
fn seed(server: &PrivateServer) -> Seeder {
    let mut seed = Seeder::new(server);
    let long = format!("first to fail {}", "x".repeat(SHORT_RECORD_BYTES));
    seed.fail(&[&long, "second to fail"]);
    seed.publish(&["waits"]);
    seed
}

/// Every server of the matrix with that user and that fleet.
fn servers() -> Vec<(String, PrivateServer, Vec<String>, Seeder)> {
    let with_user = |(name, server): (String, PrivateServer)| {
        let rule = printed_rule(match name.as_str() {
            "redis-6.2" => "6.2",
            _ => "7.0",
        });
        allow(&server, &rule);
        let seed = seed(&server);
        (name, server, rule, seed)
    };
    let started = start_each(PrivateServer::builder);
    started.into_iter().map(with_user).collect()
}

#[test]
fn commands_that_look_work_with_the_printed_rights() {
    for (name, server, _, _seed) in servers() {
        let status = run(viewer(&server, &["status"]));
        assert_eq!(status.code, Some(0), "{name}: {}", status.stderr);
        status.says("pending 1");
        let json = crate::support::status(viewer(&server, &[]));
        let newest = json["newest"].as_array().unwrap();
        assert_eq!((&json["errors"], newest.len()), (&2.into(), 2), "{name}");

        let errors = run(viewer(&server, &["errors"]));
        assert_eq!(errors.code, Some(0), "{name}: {}", errors.stderr);
        errors.says("second to fail");

        let mut watch = viewer(&server, &["status", "--watch", "--json"]);
        let mut watch = watch.spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let line: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["errors"], 2, "{name}: {line}");
        signal(&watch, Signal::TERM);
        assert_eq!(end(watch).code, Some(0), "{name}");
    }
}

#[test]
fn the_page_works_with_the_printed_rights_and_is_no_subscriber() {
    for (name, server, _, _seed) in servers() {
        let mut web = viewer(&server, &["web", "--http", "127.0.0.1:0"]);
        let mut web = web.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(web.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.split_once("http://").unwrap().1;
        let address = address.split('/').next().unwrap().to_owned();
        wait_until("a reading", || get(&address, "/readyz").contains("200 OK"));
        let errors = get(&address, "/api/errors?limit=10");
        assert!(errors.contains("second to fail"), "{name}: {errors}");
        let metrics = get(&address, "/metrics");
        assert!(metrics.contains("baton_up{fleet=\"default\"} 1"), "{name}");
        // The seeder's own three channels are all there is.
        let mut redis = crate::support::redis(&server);
        let channels: Vec<String> = redis::cmd("PUBSUB")
            .arg("CHANNELS")
            .query(&mut redis)
            .unwrap();
        assert_eq!(channels.len(), 3, "{name}: {channels:?}");
        signal(&web, Signal::TERM);
        assert_eq!(end(web).code, Some(0), "{name}");
    }
}

#[test]
fn top_works_with_the_printed_rights() {
    for (name, server, _, _seed) in servers() {
        let (terminal, inner) = pty::open(40, 110);
        let mut top = viewer(&server, &["top"])
            .env("TERM", "xterm-256color")
            .stdin(inner.try_clone().unwrap())
            .stdout(inner.try_clone().unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(inner);
        let written = Arc::new(Mutex::new(String::new()));
        let (mut screen, kept) = (
            File::from(terminal.try_clone().unwrap()),
            Arc::clone(&written),
        );
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end of the program is an error here.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                kept.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        wait_until("the books and the failed messages", || {
            let written = written.lock().unwrap();
            written.contains("balanced: all 3 found") && written.contains("seeder")
        });
        rustix::io::write(&terminal, b"q").unwrap();
        assert_eq!(top.wait().unwrap().code(), Some(0), "{name}");
        reader.join().unwrap();
    }
}

#[test]
fn each_printed_right_is_needed_and_status_names_the_one_that_is_missing() {
    for (name, server, rule, _seed) in servers() {
        let rights = rule.iter().filter(|word| word.starts_with('+'));
        // `type` tells which key is of a wrong type, when one is.
        for right in rights.filter(|right| *right != "+type") {
            let rest: Vec<String> = rule.iter().filter(|word| *word != right).cloned().collect();
            allow(&server, &rest);
            let command = right.trim_start_matches('+');
            let command = command.split('|').next().unwrap();
            let status = run(viewer(&server, &["status"]));
            assert_eq!(status.code, Some(1), "{name}, without {right}");
            assert_eq!(status.stderr.lines().count(), 1, "{}", status.stderr);
            let complaint = &status.stderr;
            assert!(complaint.contains(command), "{right}: {complaint}");
        }
        // Neither the one half of the keys nor the other is enough.
        let keys = rule.iter().filter(|word| word.contains('~'));
        for keys in keys {
            let rest: Vec<String> = rule.iter().filter(|word| *word != keys).cloned().collect();
            allow(&server, &rest);
            let status = run(viewer(&server, &["status"]));
            assert_eq!(status.code, Some(1), "{name}, without {keys}");
            status.complains("NOPERM");
        }
    }
}

#[test]
fn a_key_of_a_wrong_type_is_named_with_the_printed_rights() {
    for (name, server, _, _seed) in servers() {
        let queue = "baton:{default:0}:queue";
        send(&server, &["DEL", queue]);
        send(&server, &["SET", queue, "x"]);
        let status = run(viewer(&server, &["status"]));
        assert_eq!(status.code, Some(1), "{name}");
        status.complains(queue);
    }
}

#[test]
fn who_may_look_may_not_write() {
    for (name, server, _, _seed) in servers() {
        let url = format!(
            "redis://viewer:{PASSWORD}@127.0.0.1:{}",
            server.port().unwrap()
        );
        let mut redis = redis::Client::open(url).unwrap().get_connection().unwrap();
        let queue = "baton:{default:0}:queue";
        let eval = match name.as_str() {
            "redis-6.2" => "EVAL",
            _ => "EVAL_RO",
        };
        let push = "return redis.call('RPUSH', KEYS[1], 'x')";
        for words in [
            &["RPUSH", queue, "x"][..],
            &["DEL", queue],
            &["SUBSCRIBE", "baton:{default:0}:presence:x"],
            &["GET", "other"],
            &[eval, push, "1", queue],
        ] {
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            let refused = command.exec(&mut redis).unwrap_err().to_string();
            let why = [
                "NOPERM",
                "ermission",
                "read-only",
                "not allowed",
                "can't run",
            ];
            assert!(
                why.iter().any(|why| refused.contains(why)),
                "{name}, {words:?}: {refused}"
            );
        }
        // So does the program, before it has done anything.
        for command in ["getErrors", "run", "clean"] {
            let ended = run(viewer(&server, &[command]));
            assert_eq!(ended.code, Some(1), "{name}, {command}");
            ended.complains("NOPERM");
        }
        let json = crate::support::status(viewer(&server, &[]));
        assert_eq!((&json["errors"], &json["pending"]), (&2.into(), &1.into()));
    }
}
