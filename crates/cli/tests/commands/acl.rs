//! `baton acl`: real fleets live under exactly the rules that it prints, on every server.

use std::collections::HashMap;
use std::process::Command;

use baton_processes::Fleet;
use baton_server::{PrivateServer, SentinelGroup};
use serde_json::Value;

use crate::shared::server_matrix::start_each;
use crate::shared::{wait_for, wait_status};
use crate::support::{
    Ended, TIMEOUT, baton, end, redis, run, send, server, signal, three_messages, wait_until,
};

const PASSWORD: &str = "least";
/// What clients try and do without: the name of their library, and a setting.
const OPTIONAL: [&str; 4] = ["client", "client|setinfo", "config", "config|get"];
/// Lines that the source prints.
const LINES: u64 = 40;

/// What `baton acl` prints with these arguments.
#[track_caller]
fn rules(args: &[&str]) -> Vec<String> {
    let mut command = baton(&["acl"]);
    command.args(args);
    let ended = run(command);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.lines().into_iter().map(str::to_owned).collect()
}

/// Pastes rules into a server, and gives each user the password.
fn paste(server: &PrivateServer, rules: &[String]) {
    for rule in rules {
        let words: Vec<&str> = rule.split(' ').collect();
        send(server, &words);
        send(
            server,
            &["ACL", "SETUSER", words[2], &format!(">{PASSWORD}")],
        );
    }
}

fn url_of(server: &PrivateServer, user: &str) -> String {
    let port = server.port().unwrap();
    format!("redis://baton-default-{user}:{PASSWORD}@127.0.0.1:{port}")
}

/// The program as one of the users.
fn act(server: &PrivateServer, user: &str, args: &[&str]) -> Ended {
    let url = url_of(server, user);
    let mut command = baton(&["--redis", &url]);
    command.args(args);
    run(command)
}

#[track_caller]
fn succeed(name: &str, ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{name}: {ended:#?}");
}

/// Every server of the matrix with the printed users.
fn servers() -> Vec<(String, PrivateServer)> {
    let started = start_each(PrivateServer::builder);
    for (name, server) in &started {
        let version = match name.as_str() {
            "redis-6.2" => "6.2",
            _ => "7.0",
        };
        paste(server, &rules(&["--server-version", version]));
    }
    started
}

/// What the server has refused to our users.
fn refusals(server: &PrivateServer) -> Vec<String> {
    let entries: Vec<HashMap<String, redis::Value>> = redis::cmd("ACL")
        .arg("LOG")
        .query(&mut redis(server))
        .unwrap();
    let text = |entry: &HashMap<String, redis::Value>, field: &str| -> String {
        redis::from_redis_value(entry[field].clone()).unwrap()
    };
    let ours = entries
        .iter()
        .filter(|entry| text(entry, "username").starts_with("baton-"));
    let objects = ours.map(|entry| text(entry, "object"));
    objects
        .filter(|object| !OPTIONAL.contains(&object.as_str()))
        .collect()
}

/// Lines for each way that a message can go: large ones, some that fail, some that are tried again,
/// and one that waits for a file.
fn source() -> String {
    let large = "x".repeat(3000);
    format!(
        "for n in $(seq \"$BATON_NEXT\" {LINES}); do
             case $n in
                 20) echo slow ;;
                 *3) echo fails ;;
                 *5) echo later ;;
                 *7) echo '{large}' ;;
                 *) echo \"line $n\" ;;
             esac
             sleep 0.01
         done"
    )
}

fn handler(gate: &str) -> String {
    format!(
        "read -r text
         case $text in
             fails) exit 65 ;;
             later) [ \"$BATON_ATTEMPT\" -gt 1 ] || exit 75 ;;
             slow) while [ ! -e '{gate}' ]; do sleep 0.01; done ;;
         esac"
    )
}

#[test]
fn a_fleet_lives_under_the_printed_rules() {
    for (name, server) in servers() {
        let folder = tempfile::tempdir().unwrap();
        let gate = folder.path().join("gate").display().to_string();
        let (url, source, handler) = (url_of(&server, "node"), source(), handler(&gate));
        let args = [
            "--redis",
            &url,
            "--source",
            &source,
            "--exec",
            &handler,
            "--backoff",
            "10ms..20ms",
            "--http",
            "127.0.0.1:0",
        ];
        let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args);
        fleet.start_many(3, TIMEOUT).unwrap();
        // A worker dies with a message, and the generator without one.
        let held = wait_status(&server, "one message to be held", |status| {
            status.claimed == 1 && status.done + status.failed == LINES - 1
        });
        assert_eq!((held.failed, held.done), (4, LINES - 5), "{name}");
        let holder = held.nodes.iter().find(|node| node.claimed > 0).unwrap();
        let told = fleet.told();
        let holder = told.iter().find(|told| told.node() == holder.node);
        fleet.kill9(holder.unwrap().copy).unwrap();
        let mark = fleet.mark();
        fleet.kill9(fleet.generator().unwrap()).unwrap();
        wait_for(&fleet, mark, "a takeover", |told| told.is_generator());
        std::fs::write(&gate, "").unwrap();
        fleet.start_many(1, TIMEOUT).unwrap();
        wait_status(&server, "every message to end", |status| {
            status.done == LINES - 4
        });

        for args in [
            &["pause"][..],
            &["resume"],
            &["drain", "--wait"],
            &["resume"],
        ] {
            succeed(&name, &act(&server, "node", args));
        }
        succeed(&name, &act(&server, "node", &["retry", "--all", "--yes"]));
        wait_status(&server, "the retried ones to fail again", |status| {
            status.failed == 8
        });
        let status = act(&server, "viewer", &["status", "--json"]);
        succeed(&name, &status);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["published"], LINES, "{name}");
        assert_eq!(act(&server, "viewer", &["errors"]).lines().len(), 4);
        let taken = act(&server, "getErrors", &["getErrors"]);
        succeed(&name, &taken);
        assert_eq!(taken.lines().len(), 4, "{name}: {taken:?}");
        for copy in fleet.alive() {
            fleet.terminate(copy).unwrap();
            assert_eq!(fleet.wait(copy).unwrap(), Some(0), "{name}");
        }
        assert_eq!(refusals(&server), Vec::<String>::new(), "{name}");
        // What only `clean` sends is not among the rights of a node.
        act(&server, "node", &["clean"]).complains("hscan");
        send(&server, &["ACL", "SETUSER", "baton-default-node", "+hscan"]);
        succeed(&name, &act(&server, "node", &["clean"]));
    }
}

#[test]
fn a_command_is_told_which_right_its_user_lacks() {
    let server = server();
    let printed = rules(&[]);
    for (rule, user, command) in [
        (0, "node", "run"),
        (1, "viewer", "status"),
        (2, "getErrors", "getErrors"),
    ] {
        for right in ["hlen", "info", "pubsub|", "exec"] {
            let lacking: Vec<&str> = printed[rule]
                .split(' ')
                .filter(|word| !word.starts_with(&format!("+{right}")))
                .collect();
            paste(&server, &[lacking.join(" ")]);
            let ended = act(&server, user, &[command]);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
            ended.complains(right.trim_end_matches('|'));
        }
    }
    // No user may do the work of another.
    paste(&server, &printed);
    for (user, command) in [
        ("viewer", "run"),
        ("viewer", "getErrors"),
        ("getErrors", "run"),
        ("getErrors", "pause"),
    ] {
        let ended = act(&server, user, &[command]);
        assert_eq!(ended.code, Some(1), "{user}, {command}: {ended:?}");
    }
    assert_eq!(redis::cmd("DBSIZE").query(&mut redis(&server)), Ok(0));
}

#[test]
fn effects_need_their_own_keys_and_commands_beside_the_printed_rule() {
    let server = server();
    let mut rule = rules(&["node"]);
    let handler = "echo '[\"INCRBY\",\"app:count\",1]' > \"$BATON_EFFECTS\"";
    let fleet = |server: &PrivateServer| {
        let url = url_of(server, "node");
        let args = ["--redis", &url, "--messages", "3", "--interval", "20ms"];
        let args = [&args[..], &["--exec", handler]].concat();
        let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args);
        fleet.start_many(2, TIMEOUT).unwrap();
        fleet
    };
    paste(&server, &rule);
    let refused = fleet(&server);
    wait_status(&server, "refused effects", |status| status.failed == 3);
    drop(refused);
    send(&server, &["FLUSHALL"]);
    rule[0].push_str(" ~app:* +incrby");
    paste(&server, &rule);
    let _fleet = fleet(&server);
    wait_status(&server, "effects", |status| status.done == 3);
    let count: u64 = redis::cmd("GET")
        .arg("app:count")
        .query(&mut redis(&server))
        .unwrap();
    assert_eq!(count, 3);
}

#[test]
fn pasting_again_keeps_the_password_and_takes_other_rights() {
    let server = server();
    let rule = rules(&["viewer"]);
    paste(&server, &rule);
    send(
        &server,
        &[
            "ACL",
            "SETUSER",
            "baton-default-viewer",
            "~*",
            "&*",
            "+@all",
        ],
    );
    let words: Vec<&str> = rule[0].split(' ').collect();
    send(&server, &words);
    succeed("viewer", &act(&server, "viewer", &["status"]));
    let ended = act(&server, "viewer", &["getErrors"]);
    assert_eq!(ended.code, Some(1));
    ended.complains("NOPERM");
}

#[test]
fn the_url_says_which_further_rights_are_needed() {
    for (args, further) in [
        (&["--redis", "redis://h/3"][..], &["+select"][..]),
        (&["--redis", "redis://h", "--db", "3"], &["+select"]),
        (
            &["--redis", "redis+cluster://h"],
            &["+cluster|keyslot", "+cluster|slots"],
        ),
        (&["--redis", "redis+sentinel://h/m"], &[]),
    ] {
        for (plain, more) in rules(&[]).iter().zip(rules(args)) {
            let plain: Vec<&str> = plain.split(' ').collect();
            let more: Vec<&str> = more
                .split(' ')
                .filter(|word| !plain.contains(word))
                .collect();
            assert_eq!(more, further, "{args:?}");
        }
    }
}

#[test]
fn another_database_needs_the_right_to_select_it() {
    let server = server();
    let url = format!("{}/3", url_of(&server, "node"));
    paste(&server, &rules(&["node"]));
    let ended = run(baton(&["--redis", &url]));
    assert_eq!(ended.code, Some(1));
    ended.complains("select");
    paste(&server, &rules(&["node", "--db", "3"]));
    three_messages(|| baton(&["--redis", &url]));
}

/// A URL of the group whose clients log in at the Sentinels.
fn sentinel_url(group: &SentinelGroup) -> String {
    format!(
        "{}?sentinel_user=baton-default-sentinel&sentinel_password={PASSWORD}",
        group.url()
    )
}

#[test]
fn sentinels_have_a_user_of_their_own_and_need_each_of_its_rights() {
    let group = SentinelGroup::start(&PrivateServer::builder(), 1).unwrap();
    let url = sentinel_url(&group);
    let rule = rules(&["sentinel"]);
    let node = || -> Command { baton(&["--redis", &url]) };
    for sentinel in &group.sentinels {
        paste(sentinel, &rule);
    }
    three_messages(node);
    for sentinel in &group.sentinels {
        assert_eq!(refusals(sentinel), Vec::<String>::new());
    }
    // Without the first, no master is found; without the second, nobody hears that it moves.
    let without = |right: &str| {
        let words: Vec<&str> = rule[0].split(' ').filter(|word| *word != right).collect();
        assert_eq!(words.len() + 1, rule[0].split(' ').count());
        for sentinel in &group.sentinels {
            paste(sentinel, &[words.join(" ")]);
        }
    };
    without("+sentinel|master");
    let mut command = node();
    command.arg("status");
    let ended = run(command);
    assert_eq!(ended.code, Some(1));
    ended.complains("'sentinel|master'");
    for right in [
        "+subscribe",
        "&+switch-master",
        "&+promoted-slave",
        "&+failover-state-wait-promotion",
    ] {
        without(right);
        for sentinel in &group.sentinels {
            send(sentinel, &["ACL", "LOG", "RESET"]);
        }
        let mut command = node();
        let child = command.args(["status", "--watch"]).spawn().unwrap();
        wait_until("a refusal at each Sentinel", || {
            let mut sentinels = group.sentinels.iter();
            sentinels.all(|sentinel| !refusals(sentinel).is_empty())
        });
        signal(&child, rustix::process::Signal::TERM);
        assert_eq!(end(child).code, Some(0));
    }
}

#[test]
fn as_json_each_line_is_a_user() {
    let text = rules(&["--fleet", "orders"]);
    let json = rules(&["--fleet", "orders", "--json"]);
    assert_eq!(json.len(), 3);
    for (line, text) in json.iter().zip(&text) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["rule"], *text);
        let name = format!("baton-orders-{}", line["for"].as_str().unwrap());
        assert_eq!(line["user"], name);
        for field in ["keys", "channels", "commands"] {
            for word in line[field].as_array().unwrap() {
                assert!(text.contains(word.as_str().unwrap()), "{field}: {word}");
            }
        }
    }
    assert!(text[0].contains(" ~baton:{orders:* "), "{}", text[0]);
}
