//! `baton pause`: not one message is published or claimed until `baton resume`, whatever restarts.

use std::path::Path;

use baton_log::LogEvent;
use baton_processes::{Fleet, Told};
use baton_server::PrivateServer;

use crate::source::{failed_texts, fleet_with};
use crate::support::{
    assert_each_once, durable_server, fleet_of, keys, redis, replace_generator, server, status,
    wait_for, wait_status, workers,
};

/// Runs a command of the program, which must succeed. Returns what it printed.
#[track_caller]
fn baton(server: &PrivateServer, args: &str) -> String {
    let mut command = baton_processes::command(Path::new(env!("CARGO_BIN_EXE_baton")));
    command.args(["--redis", &server.url()]);
    let output = command.args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "{args}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a node notices that a part is paused.
fn is_paused(told: &Told, wanted: &str) -> bool {
    matches!(told.event(), LogEvent::Paused { part } if part == wanted)
}

/// Waits until these copies have noticed that they are paused: one as the generator, all others as
/// workers.
#[track_caller]
fn wait_all_paused(fleet: &Fleet, mark: usize) {
    wait_for(fleet, mark, "a paused generator", |told| {
        is_paused(told, "generator")
    });
    for copy in workers(fleet) {
        wait_for(fleet, mark, "a paused worker", |told| {
            told.copy == copy && is_paused(told, "workers")
        });
    }
}

/// What changes when a message is published or claimed: the fence's last number and cursor, the
/// queue, claims with their deadlines, and what each slot ended last.
fn traces(server: &PrivateServer) -> Vec<redis::Value> {
    let (keys, mut redis) = (keys(), redis(server));
    let mut read = |words: &[&str]| -> redis::Value {
        redis::cmd(words[0])
            .arg(&words[1..])
            .query(&mut redis)
            .unwrap()
    };
    vec![
        read(&["HMGET", &keys.fence, "last", "cursor"]),
        read(&["LRANGE", &keys.queue, "0", "-1"]),
        read(&["HGETALL", &keys.claims]),
        read(&["ZRANGE", &keys.deadlines, "0", "-1"]),
        read(&["HKEYS", &keys.workers]),
        read(&["HGETALL", &keys.stats]),
    ]
}

/// A command that prints lines, and waits before two of them until a file is there.
fn gated_lines(count: u64, gates: [(u64, &Path); 2]) -> String {
    let [(first, first_gate), (second, second_gate)] = gates;
    format!(
        "gate() {{ while [ ! -e \"$1\" ]; do sleep 0.01; done; }}
         for n in $(seq \"$BATON_NEXT\" {count}); do
             case $n in {first}) gate '{}' ;; {second}) gate '{}' ;; esac
             echo \"line $n\"
         done",
        first_gate.display(),
        second_gate.display()
    )
}

#[test]
fn a_paused_fleet_that_is_killed_and_restarted_leaks_not_one_message() {
    const LINES: u64 = 400;
    let (server, folder) = (durable_server(), tempfile::tempdir().unwrap());
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    let source = gated_lines(LINES, [(101, &a), (301, &b)]);
    let args = "--error-rate 1 --max-pending 100000";
    let mut fleet = fleet_with(3, &server, args, "lines", &source);
    wait_status(&server, "the first lines", |status| status.failed == 100);
    baton(&server, "pause workers");
    std::fs::write(a, "").unwrap();
    wait_status(&server, "a backlog", |status| status.published == 300);
    let mark = fleet.mark();
    baton(&server, "pause generator");
    std::fs::write(b, "").unwrap();
    wait_all_paused(&fleet, 0);
    let before = traces(&server);
    let paused = status(&server);
    assert_eq!((paused.published, paused.pending), (300, 200), "{paused:?}");

    for round in 1..=3 {
        for copy in fleet.alive() {
            fleet.kill9(copy).unwrap();
        }
        let mark = fleet.mark();
        fleet.start_many(3, crate::support::TIMEOUT).unwrap();
        wait_all_paused(&fleet, mark);
        replace_generator(&mut fleet);
        assert_eq!(traces(&server), before, "round {round}");
    }
    assert_eq!(
        status(&server).paused,
        paused.paused,
        "since the first pause"
    );
    let told = fleet.told_since(mark);
    let leak = told
        .iter()
        .find(|told| told.is_published() || told.is_processed());
    assert!(leak.is_none(), "{leak:?}");

    baton(&server, "resume");
    wait_status(&server, "all to end", |status| status.failed == LINES);
    assert_each_once(&fleet, &server, LINES);
    let texts = failed_texts(&server);
    let expected: Vec<_> = (1..=LINES)
        .map(|seq| (seq, format!("line {seq}")))
        .collect();
    assert_eq!(texts, expected);

    // Each node notices each thing once.
    let told = fleet.told();
    for copy in 0..12 {
        for part in ["generator", "workers"] {
            let mine = || told.iter().filter(|told| told.copy == copy);
            let paused = mine().filter(|told| is_paused(told, part)).count();
            let resumed = mine().filter(|told| {
                matches!(told.event(), LogEvent::Resumed { part: resumed } if resumed == part)
            });
            let resumed = resumed.count();
            assert!(
                paused <= 1 && resumed <= paused,
                "{copy} {part}: {paused}, {resumed}"
            );
        }
    }
}

#[test]
fn paused_workers_let_the_generator_go_on_and_take_all_at_once_when_resumed() {
    let server = server();
    let fleet = fleet_of(3, &server, "--interval 2ms --messages 500 --error-rate 0");
    baton(&server, "pause workers");
    let status = wait_status(&server, "all to be published", |status| {
        status.published == 500 && status.claimed == 0
    });
    assert_eq!(status.pending, 500 - status.done, "{status:?}");
    baton(&server, "resume workers");
    assert_each_once(&fleet, &server, 500);
}

#[test]
fn a_generator_that_works_is_paused_in_both_its_roles_and_goes_on() {
    let server = server();
    let args = "--interval 2ms --messages 300 --error-rate 0 --generator-works always";
    let fleet = fleet_of(1, &server, args);
    wait_status(&server, "messages that ended", |status| status.done > 5);
    baton(&server, "pause");
    for part in ["generator", "workers"] {
        wait_for(&fleet, 0, "a pause", |told| is_paused(told, part));
    }
    wait_status(&server, "claims to end", |status| status.claimed == 0);
    baton(&server, "resume");
    assert_each_once(&fleet, &server, 300);
}

#[test]
fn a_generator_that_is_killed_while_it_is_paused_loses_nothing_of_its_source() {
    let server = server();
    let mut fleet = fleet_of(3, &server, "--interval 5ms --messages 200 --error-rate 0");
    wait_status(&server, "messages", |status| status.published > 10);
    baton(&server, "pause generator");
    wait_for(&fleet, 0, "a paused generator", |told| {
        is_paused(told, "generator")
    });
    let successor = replace_generator(&mut fleet);
    wait_for(&fleet, 0, "the successor's pause", |told| {
        told.copy == successor.copy && is_paused(told, "generator")
    });
    baton(&server, "drain --wait");
    let drained = status(&server);
    assert_eq!(drained.done, drained.published, "{drained:?}");
    assert!(drained.published < 200, "{drained:?}");
    baton(&server, "resume");
    assert_each_once(&fleet, &server, 200);
}
