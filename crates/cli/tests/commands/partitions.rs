//! The commands on a fleet of three partitions: each of them reads and changes all.

use baton_server::PrivateServer;
use serde_json::Value;

use crate::seeder::{AT, Seeder, texts};
use crate::shared::server;
use crate::support::{Ended, baton, run};

/// In partition p, p + 1 messages have failed, one waits, and one is claimed.
fn seeded() -> (PrivateServer, Vec<Seeder>) {
    let server = server();
    let seeders = seed(&server.url_with_password());
    (server, seeders)
}

/// The same, by a URL.
pub(crate) fn seed(url: &str) -> Vec<Seeder> {
    let mut seeders = Seeder::of_partitions(url, 3);
    for (p, seeder) in (0..).zip(&mut seeders) {
        seeder.fail(&texts(1..=p + 1));
        seeder.publish(&["waits", "waits"]);
        seeder.claim(1);
    }
    seeders
}

fn at(server: &PrivateServer, args: &[&str]) -> Ended {
    run(baton(&[&["--redis", &server.url()], args].concat()))
}

pub(crate) fn json_lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) const FAILED: [&str; 6] = ["0.1", "1.1", "1.2", "2.1", "2.2", "2.3"];

/// The second fields of lines with tabs.
pub(crate) fn numbers(ended: &Ended) -> Vec<String> {
    let fields = ended.stdout.lines().map(|line| line.split('\t').nth(1));
    fields
        .map(|number| number.unwrap().trim_start_matches('#').to_owned())
        .collect()
}

#[test]
fn status_lists_the_partitions_and_their_sum() {
    let (server, _seeders) = seeded();
    let status = at(&server, &["status"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    status.says("balanced: published 12 = done 0 + failed 6 + pending 3 + claimed 3 + delayed 0");
    let table: Vec<Vec<&str>> = status
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("partition "))
        .take(4)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(table[0][..3], ["partition", "published", "done"]);
    let port = server.port().unwrap().to_string();
    for (p, row) in (0..3).zip(&table[1..]) {
        let failed = (p + 1).to_string();
        let counts = [
            &p.to_string(),
            &(p + 3).to_string(),
            "0",
            &failed,
            "1",
            "1",
            "0",
            &failed,
        ];
        assert_eq!(row[..8], counts);
        assert_eq!(row[8], "balanced");
        assert!(row[9].ends_with(&port), "{row:?}");
    }
    let json = &json_lines(&at(&server, &["status", "--json"]))[0];
    assert_eq!(json["pending"], 3);
    let partitions = json["partitions"].as_array().unwrap();
    let pending: Vec<_> = partitions.iter().map(|one| &one["published"]).collect();
    assert_eq!(pending, [3, 4, 5]);
    assert_eq!(json["nodes"][0]["claimed"], 3);
}

#[test]
fn errors_and_get_errors_print_partition_after_partition() {
    let (server, _seeders) = seeded();
    let errors = at(&server, &["errors"]);
    assert_eq!(numbers(&errors), FAILED);
    let json = json_lines(&at(&server, &["errors", "--json"]));
    let places: Vec<_> = json
        .iter()
        .map(|one| (&one["partition"], &one["seq"]))
        .collect();
    assert_eq!(
        (places[0].0, places[5].0),
        (&Value::from(0), &Value::from(2))
    );
    assert_eq!(places[5].1, &Value::from(3));
    let groups = at(&server, &["errors", "--by", "reason"]);
    assert_eq!(
        groups.stdout,
        format!("6\t{AT}\t{AT}\t#2.3\tno such customer\n")
    );
    let groups = json_lines(&at(&server, &["errors", "--by", "reason", "--json"]));
    assert_eq!(groups[0]["example_partition"], 2);

    let taken = at(&server, &["getErrors"]);
    assert_eq!(numbers(&taken), FAILED);
    taken.complains("6 failed messages printed and removed");
    at(&server, &["getErrors"]).complains("no failed messages");
}

#[test]
fn retry_and_drop_settle_messages_of_all_partitions() {
    let (server, seeders) = seeded();
    let dropped = at(&server, &["drop", "--seq", "2", "--yes", "--json"]);
    assert_eq!(json_lines(&dropped)[0]["dropped"], 2, "{dropped:?}");
    dropped.complains("#1.2");
    let retried = at(&server, &["retry", "--all", "--yes", "--json"]);
    assert_eq!(json_lines(&retried)[0]["retried"], 4, "{retried:?}");
    for seeder in &seeders {
        assert_eq!(seeder.waiting(), [""; 0]);
    }
    let status = at(&server, &["status"]);
    status.says("published 12 + retried 4 = done 0 + failed 6 + pending 7");
}

#[test]
fn pause_and_resume_are_for_all_partitions() {
    let (server, seeders) = seeded();
    let paused = || -> Vec<bool> {
        let census = seeders.iter().map(Seeder::census);
        census
            .map(|census| census.paused.workers_since_ms.is_some())
            .collect()
    };
    at(&server, &["pause", "workers"]).says("paused the workers");
    assert_eq!(paused(), [true; 3]);
    at(&server, &["status"]).says("workers for ");
    at(&server, &["resume"]).says("resumed the workers");
    assert_eq!(paused(), [false; 3]);
}

#[test]
fn clean_puts_back_what_a_dead_node_held_in_any_partition() {
    let (server, seeders) = seeded();
    drop(seeders);
    crate::shared::wait_until("the seeder is absent", || {
        let json = &json_lines(&at(&server, &["status", "--json"]))[0];
        json["nodes"][0]["role"] == "dead"
    });
    let clean = at(&server, &["clean"]);
    clean.says("put back 3 messages and 0 failed messages that seeder held");
    clean.says("forgot seeder");
    at(&server, &["status"]).says("pending 6 + claimed 0");
}
