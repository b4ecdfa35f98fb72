//! Users and databases: what a URL or a flag says is what the server sees.

use baton_server::PrivateServer;

use crate::support::{baton, redis, run, send, server, status, three_messages};

const USER: &str = "alice";
const SECRET: &str = "s3cret-p/ss@word";
/// The same as a URL has it.
const ENCODED: &str = "s3cret-p%2Fss%40word";

#[test]
fn a_user_of_the_server_is_let_in_with_the_password_of_the_url_or_the_environment() {
    // Another user needs another password.
    let server = PrivateServer::builder().password("other").start().unwrap();
    let set_user = ["ACL", "SETUSER", USER, "on", "~*", "&*", "+@all"];
    send(&server, &[&set_user[..], &[&format!(">{SECRET}")]].concat());
    let port = server.port().unwrap();
    let full = format!("redis://{USER}:{ENCODED}@127.0.0.1:{port}");
    let named = format!("redis://{USER}@127.0.0.1:{port}");
    let from_url = || baton(&["--redis", &full]);
    let from_environment = || {
        let mut command = baton(&["--redis", &named]);
        command.env("REDIS_PASSWORD", SECRET);
        command
    };
    three_messages(from_url);
    assert_eq!(status(from_environment())["done"], 3);
    send(&server, &["FLUSHALL"]);
    three_messages(from_environment);
    assert_eq!(status(from_url())["done"], 3);

    // Neither a wrong password nor the right one without the user opens the door.
    for credentials in ["alice:s3cret", &format!(":{ENCODED}"), "alice:other"] {
        let url = format!("redis://{credentials}@127.0.0.1:{port}");
        for command in ["status", "run"] {
            let ended = run(baton(&[command, "--redis", &url]));
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert!(
                ended.stderr.contains("WRONGPASS")
                    && !ended.stderr.contains("s3cret")
                    && !ended.stderr.contains(USER),
                "{command}: {}",
                ended.stderr
            );
        }
    }
}

#[test]
fn a_user_without_a_password_is_not_taken_for_the_default_user() {
    // The default user of this server needs no password and may do everything.
    let server = PrivateServer::builder().tcp().start().unwrap();
    let set_user = ["ACL", "SETUSER", USER, "on", "~*", "&*", "+@all"];
    send(&server, &[&set_user[..], &[&format!(">{SECRET}")]].concat());
    let port = server.port().unwrap();
    for credentials in ["alice", "alice:", "nobody"] {
        let url = format!("redis://{credentials}@127.0.0.1:{port}");
        let ended = run(baton(&["getErrors", "--redis", &url]));
        assert_eq!(ended.code, Some(1), "{credentials}: {}", ended.stderr);
        assert!(ended.stderr.contains("WRONGPASS"), "{}", ended.stderr);
    }
}

#[test]
fn the_keys_of_a_fleet_are_in_the_database_that_was_named() {
    let server = server();
    let url = server.url();
    let (with_three, with_one) = (format!("{url}/3"), format!("{url}/1"));
    for (args, variable, database) in [
        (&["--redis", &url][..], "", 0),
        (&["--redis", &url, "--db", "3"], "", 3),
        (&["--redis", &with_three], "", 3),
        (&["--redis", &url], "3", 3),
        // What is typed as a number comes before what the URL says.
        (&["--redis", &with_one, "--db", "3"], "", 3),
        (&["--redis", &with_three, "--db", "0"], "", 0),
    ] {
        let command = || {
            let mut command = baton(args);
            command.env("BATON_DB", variable);
            command
        };
        three_messages(command);
        assert_eq!(used(&server), [format!("db{database}")], "{args:?}");
        assert_eq!(status(command())["done"], 3, "{args:?}");
        send(&server, &["FLUSHALL"]);
    }
}

#[test]
fn a_database_that_the_server_does_not_have_is_refused() {
    let server = server();
    for command in ["status", "run"] {
        let ended = run(baton(&[command, "--redis", &server.url(), "--db", "999"]));
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("db 999") && ended.stderr.contains("out of range"),
            "{}",
            ended.stderr
        );
    }
}

/// The databases that have keys.
fn used(server: &PrivateServer) -> Vec<String> {
    let told: String = redis::cmd("INFO")
        .arg("keyspace")
        .query(&mut redis(server))
        .unwrap();
    told.lines()
        .filter_map(|line| line.split_once(":keys="))
        .map(|(database, _)| database.to_owned())
        .collect()
}
