//! Passwords: they are used, and never printed.

use baton_server::PrivateServer;

use crate::seeder::{Seeder, texts};
use crate::support::{assert_finds_m1, baton, dead_port, run};

const SECRET: &str = "s3cret-p/ss@word";

#[test]
fn a_password_comes_from_the_url_a_file_or_the_environment() {
    let server = PrivateServer::builder().password(SECRET).start().unwrap();
    Seeder::new(&server).fail(&texts(1..=1));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let file = file.to_str().unwrap();
    let url = server.url();
    for (args, variables) in [
        (vec!["--redis", &server.url_with_password()], vec![]),
        (
            vec!["--redis", &url, "--password-file", file],
            vec![("REDIS_PASSWORD", "wrong")],
        ),
        (vec!["--redis", &url], vec![("BATON_PASSWORD_FILE", file)]),
        (vec!["--redis", &url], vec![("REDIS_PASSWORD", SECRET)]),
        (
            vec![],
            vec![("REDIS_URL", url.as_str()), ("REDIS_PASSWORD", SECRET)],
        ),
    ] {
        assert_finds_m1(&args, &variables);
    }
}

#[test]
fn a_file_that_never_ends_is_refused() {
    let server = PrivateServer::builder().start().unwrap();
    let url = server.url();
    let tls = url.replace("redis://", "rediss://");
    let token = ["web", "--redis", &url, "--token-file", "/dev/zero"];
    for args in [
        &["status", "--redis", &url, "--password-file", "/dev/zero"][..],
        &["status", "--redis", &tls, "--tls-ca", "/dev/zero"],
        &token,
    ] {
        let ended = run(baton(args));
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(1), ""),
            "{args:?}"
        );
        ended.complains("/dev/zero: it has more than 1048576 bytes");
    }
}

#[test]
fn no_command_shows_a_password_when_it_fails() {
    let server = PrivateServer::builder().password("right").start().unwrap();
    let port = server.port().unwrap();
    let wrong = format!("redis://alice:{0}@127.0.0.1:{port}", "s3cret");
    let default = format!("redis://:s3cret@127.0.0.1:{port}");
    let dead = format!("redis://:s3cret@127.0.0.1:{}", dead_port());
    for command in ["run", "getErrors", "errors", "status", "clean"] {
        for (url, code) in [
            (wrong.as_str(), 1),
            (&default, 1),
            (&dead, 1),
            ("http://:s3cret@h", 2),
            ("redis://:s3cret@h:x", 2),
        ] {
            if command == "run" && url == dead {
                // A node waits for its server; another test covers that.
                continue;
            }
            let ended = run(baton(&[command, "--redis", url]));
            assert_eq!(ended.code, Some(code), "{command} {url}: {}", ended.stderr);
            assert!(ended.stderr.starts_with("baton: "), "{}", ended.stderr);
            for text in [&ended.stdout, &ended.stderr] {
                assert!(
                    !text.contains("s3cret") && !text.contains("alice"),
                    "{command}: {text}"
                );
            }
        }
    }
}

#[test]
fn a_url_in_the_wrong_place_is_not_repeated_with_its_password() {
    for args in [
        &["redis://:s3cret@h"][..],
        &["run", "redis://u:s3cret@h:1/2"],
        &["--fleet", "redis://u:s3cret@h"],
        &["--addr", "u:s3cret@h:1"],
        &["--host", "u:s3cret@h"],
    ] {
        let ended = run(baton(args));
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(
            !ended.stderr.contains("s3cret"),
            "{args:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_password_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    for (file, why) in [
        ("/no/such/file", "No such file"),
        (empty.to_str().unwrap(), "is empty"),
    ] {
        let ended = run(baton(&[
            "status",
            "--redis",
            "redis://h",
            "--password-file",
            file,
        ]));
        assert_eq!(ended.code, Some(1));
        assert!(
            ended.stderr.contains(file) && ended.stderr.contains(why),
            "{}",
            ended.stderr
        );
    }
}
