//! A server behind a socket of the file system.

use std::os::unix::fs::FileTypeExt;

use baton_server::PrivateServer;

use crate::support::{baton, run, status, three_messages};

const SECRET: &str = "s3cret-p/ss@w&rd?";

#[test]
fn a_socket_serves_commands_and_nodes() {
    let server = PrivateServer::builder().unix_socket().start().unwrap();
    let url = server.url();
    let path = url.strip_prefix("unix://").unwrap();
    assert!(std::fs::metadata(path).unwrap().file_type().is_socket());
    let command = || baton(&["--redis", &url]);
    assert_eq!(status(command())["published"], 0);
    three_messages(command);
    let told = status(command());
    assert_eq!((&told["published"], &told["done"]), (&3.into(), &3.into()));
    // Another database of the same server knows nothing of it.
    let other = format!("{url}?db=3");
    assert_eq!(status(baton(&["--redis", &other]))["published"], 0);
}

#[test]
fn a_socket_takes_a_password_from_its_url_or_the_environment() {
    let server = PrivateServer::builder()
        .unix_socket()
        .password(SECRET)
        .start()
        .unwrap();
    let (bare, full) = (server.url(), server.url_with_password());
    let from_url = || baton(&["--redis", &full]);
    let from_environment = || {
        let mut command = baton(&["--redis", &bare]);
        command.env("REDIS_PASSWORD", SECRET);
        command
    };
    assert_eq!(status(from_environment())["published"], 0);
    three_messages(from_url);
    assert_eq!(status(from_url())["done"], 3);

    for (url, code) in [
        (bare.clone(), "NOAUTH"),
        (format!("{bare}?pass=s3cret"), "WRONGPASS"),
    ] {
        for command in ["status", "run"] {
            let ended = run(baton(&[command, "--redis", &url]));
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{url}");
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert!(
                ended.stderr.contains(code) && !ended.stderr.contains("s3cret"),
                "{command}: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn a_socket_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("unix://{}", folder.path().join("none.sock").display());
    let ended = run(baton(&["status", "--redis", &url]));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains(&url) && ended.stderr.contains("No such file"),
        "{}",
        ended.stderr
    );
}
