//! `baton doctor`: each line in good and in bad states of real servers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_server::{Fsync, PrivateServer, PrivateServerBuilder};
use serde_json::Value;

use crate::shared::fake_clock::FakeClock;
use crate::shared::server_matrix::start_each;
use crate::support::{Ended, baton, redis, run, send, server, wait_until};

/// What doctor reported.
pub(crate) struct Report {
    pub(crate) ended: Ended,
    /// Check → mark, and what was found with what to do.
    checks: BTreeMap<String, (String, String)>,
}

impl Report {
    /// The report on a target, with these further arguments.
    #[track_caller]
    pub(crate) fn of(url: &str, args: &[&str]) -> Self {
        let mut command = baton(&["--redis", url, "doctor", "--json"]);
        command.args(args);
        Self::from(run(command))
    }

    #[track_caller]
    pub(crate) fn from(ended: Ended) -> Self {
        let object: Value = serde_json::from_str(&ended.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let checks: BTreeMap<_, _> = object["checks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|check| {
                let words = format!("{}; {}", text(&check["found"]), text(&check["advice"]));
                (text(&check["check"]), (text(&check["mark"]), words))
            })
            .collect();
        let has_failure = checks.values().any(|(mark, _)| mark == "fail");
        assert_eq!(ended.code, Some(i32::from(has_failure)), "{ended:#?}");
        assert_eq!(object["ok"], !has_failure, "{ended:#?}");
        Self { ended, checks }
    }

    /// Asserts that a check has this mark, and words in what it says.
    #[track_caller]
    pub(crate) fn has(&self, check: &str, mark: &str, words: &[&str]) {
        let (marked, said) = self
            .checks
            .get(check)
            .unwrap_or_else(|| panic!("no {check}: {:#?}", self.ended));
        assert_eq!(marked, mark, "{check}: {said}");
        for words in words {
            assert!(said.contains(words), "no {words:?} in {check}: {said}");
        }
    }

    pub(crate) fn lacks(&self, check: &str) -> bool {
        !self.checks.contains_key(check)
    }

    /// The checks with a mark, but for those that depend on how busy this machine is.
    pub(crate) fn marked(&self, mark: &str) -> Vec<&str> {
        let checks = self.checks.iter().filter(|(_, (other, _))| other == mark);
        let names = checks.map(|(check, _)| check.as_str());
        names
            .filter(|check| !["clock", "latency"].contains(check))
            .collect()
    }
}

/// Waits until so many replicas follow a server.
pub(crate) fn wait_followed(master: &PrivateServer, replicas: usize) {
    wait_until("replicas that follow", || {
        let info: String = redis::cmd("INFO").query(&mut redis(master)).unwrap();
        info.matches("state=online").count() == replicas
    });
}

fn durable() -> PrivateServerBuilder {
    PrivateServer::builder().appendonly(Fsync::Always)
}

#[track_caller]
fn on(server: &PrivateServer, args: &[&str]) -> Report {
    Report::of(&server.url_with_password(), args)
}

#[test]
fn a_durable_server_has_no_complaint_and_nothing_is_left_behind() {
    for (name, server) in start_each(durable) {
        for level in ["none", "fsync"] {
            let report = on(&server, &["--durability", level]);
            assert_eq!(report.marked("fail"), [""; 0], "{name}");
            assert_eq!(report.marked("warn"), [""; 0], "{name}");
            report.has("appendonly", "ok", &["on"]);
            report.has("appendfsync", "ok", &["always"]);
            report.has("saving", "ok", &[]);
            report.has("role", "ok", &["a master"]);
            report.has("eviction", "ok", &["noeviction"]);
            report.has("memory", "ok", &["no limit"]);
            report.has("clients", "ok", &["of 10000"]);
            report.has("replicas", "ok", &["none"]);
            report.has("rights", "ok", &[]);
            report.has("keys", "ok", &[]);
            report.has("tls", "ok", &["stay on this machine"]);
            report.has("clock", "ok", &["ms"]);
            assert!(report.lacks("min-replicas") && report.lacks("cluster"));
            let version = name
                .replace("redis-", "Redis ")
                .replace("valkey-", "Valkey ");
            if version != name {
                report.has("version", "ok", &[&version]);
            }
        }
        assert_eq!(redis::cmd("DBSIZE").query(&mut redis(&server)), Ok(0));
    }
}

#[test]
fn lines_for_people_have_a_mark_a_finding_and_advice() {
    let server = server();
    let ended = crate::support::on(&server, &["doctor"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    for line in ended.lines() {
        let mark = line.split(' ').next().unwrap();
        assert!(["ok", "warn"].contains(&mark), "{line}");
    }
    ended.says("ok    connection    redis://127.0.0.1:");
    ended.says("warn  appendonly    off: if the server stops");
    ended.says("; set appendonly yes\n");
    let ended = crate::support::on(&server, &["doctor", "--durability", "fsync"]);
    assert_eq!(ended.code, Some(1));
    ended.says("FAIL  appendonly    off");
}

#[test]
fn a_socket_needs_no_encryption() {
    let server = PrivateServer::builder().unix_socket().start().unwrap();
    on(&server, &[]).has("tls", "ok", &["stay on this machine"]);
}

#[test]
fn what_can_lose_messages_fails_only_at_the_durability_that_forbids_it() {
    let lazy = PrivateServer::builder().appendonly(Fsync::EverySec);
    let (none, lazy) = (server(), lazy.start().unwrap());
    for (level, mark) in [("none", "warn"), ("fsync", "fail")] {
        let level = ["--durability", level];
        on(&none, &level).has("appendonly", mark, &["off", "set appendonly yes"]);
        assert!(on(&none, &level).lacks("appendfsync"));
        let report = on(&lazy, &level);
        report.has("appendonly", "ok", &[]);
        report.has("appendfsync", mark, &["everysec", "the last second or two"]);
    }
    send(&lazy, &["CONFIG", "SET", "appendfsync", "no"]);
    on(&lazy, &[]).has("appendfsync", "warn", &["no: ", "half minute"]);
    let report = on(&none, &["--durability", "replicas"]);
    report.has("appendonly", "warn", &["comes back empty"]);
    report.has("replicas", "fail", &["replicas:1 needs 1 in sync"]);
    let wrong = crate::support::on(&none, &["doctor", "--durability", "replicas:0"]);
    assert_eq!(wrong.code, Some(2));
    wrong.complains("write none, fsync, replicas");
}

#[test]
fn a_setting_that_the_user_may_not_read_is_unknown() {
    let server = durable().start().unwrap();
    let rule = run(baton(&["acl", "node"])).stdout;
    let words: Vec<&str> = rule.split_whitespace().chain([">pw"]).collect();
    send(&server, &words);
    let port = server.port().unwrap();
    let url = format!("redis://baton-default-node:pw@127.0.0.1:{port}");
    for (level, mark) in [("none", "warn"), ("fsync", "fail")] {
        let report = Report::of(&url, &["--durability", level]);
        report.has("rights", "ok", &[]);
        report.has("appendfsync", mark, &["unknown", "CONFIG GET"]);
    }
    // A right less, and its name is in the line.
    for right in ["wait", "zadd", "subscribe", "evalsha"] {
        let less = format!("-{right}");
        send(&server, &["ACL", "SETUSER", words[2], &less]);
        let report = Report::of(&url, &[]);
        report.has("rights", "fail", &[right, "baton acl node"]);
        assert_eq!(report.marked("fail"), ["rights"]);
        send(&server, &["ACL", "SETUSER", words[2], &format!("+{right}")]);
    }
    send(
        &server,
        &["ACL", "SETUSER", words[2], "resetkeys", "~other:*"],
    );
    let report = Report::of(&url, &[]);
    report.has("rights", "fail", &["key", "baton:{default:0}:preflight"]);
    send(&server, &["ACL", "SETUSER", words[2], "-info"]);
    Report::of(&url, &[]).has("connection", "fail", &["info"]);
}

#[test]
fn memory_that_ends_and_eviction_are_told() {
    let server = durable().start().unwrap();
    let set = |name: &str, value: &str| send(&server, &["CONFIG", "SET", name, value]);
    set("maxmemory", "100mb");
    on(&server, &[]).has("memory", "ok", &["MiB of 100.0 MiB used"]);
    let info: String = redis::cmd("INFO")
        .arg("memory")
        .query(&mut redis(&server))
        .unwrap();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.unwrap().trim().parse().unwrap();
    set("maxmemory", &(used * 11 / 10).to_string());
    on(&server, &[]).has("memory", "warn", &["raise maxmemory"]);
    set("maxmemory", "1");
    on(&server, &[]).has("memory", "fail", &["raise maxmemory"]);
    set("maxmemory", "0");
    set("maxmemory-policy", "allkeys-lru");
    let report = on(&server, &[]);
    report.has("eviction", "fail", &["allkeys-lru", "noeviction"]);
    assert_eq!(report.marked("fail"), ["eviction"]);
    set("maxmemory-policy", "volatile-lru");
    on(&server, &[]).has("eviction", "ok", &[]);
}

#[test]
fn connections_that_end_are_told() {
    let server = durable().start().unwrap();
    let others: Vec<redis::Connection> = (0..16).map(|_| redis(&server)).collect();
    let limit = |max: &str| send(&server, &["CONFIG", "SET", "maxclients", max]);
    // The sender's own connection may still be counted.
    limit("21");
    on(&server, &[]).has("clients", "warn", &["of 21", "a node needs 3"]);
    limit("19");
    on(&server, &[]).has("clients", "fail", &["of 19", "raise maxclients"]);
    drop(others);
}

#[test]
fn a_save_that_failed_is_told() {
    let server = durable().start().unwrap();
    // The server cannot replace a folder by its file.
    std::fs::create_dir_all(server.folder().join("dump.rdb/in-the-way")).unwrap();
    send(&server, &["BGSAVE"]);
    wait_until("a save that fails", || {
        let info: String = redis::cmd("INFO").query(&mut redis(&server)).unwrap();
        info.contains("rdb_last_bgsave_status:err")
    });
    let report = on(&server, &[]);
    report.has("saving", "fail", &["the last snapshot failed", "MISCONF"]);
}

#[test]
fn a_replica_is_no_place_for_a_fleet() {
    let master = server();
    let port = master.port().unwrap();
    let replica = PrivateServer::builder().config("replicaof", format!("127.0.0.1 {port}"));
    let replica = replica.start().unwrap();
    let report = on(&replica, &[]);
    report.has("role", "fail", &["read-only replica", "name its master"]);
    send(&replica, &["CONFIG", "SET", "replica-read-only", "no"]);
    on(&replica, &[]).has("role", "fail", &["accepts writes", "forgets"]);
}

#[test]
fn replicas_are_counted_and_compared_with_the_durability() {
    let master = durable().start().unwrap();
    let port = master.port().unwrap();
    let replica = || {
        let settings = PrivateServer::builder().config("replicaof", format!("127.0.0.1 {port}"));
        settings
            .config("repl-diskless-sync-delay", "0")
            .start()
            .unwrap()
    };
    let mut replicas = [replica(), replica()];
    wait_followed(&master, 2);
    let report = on(&master, &[]);
    report.has(
        "replicas",
        "warn",
        &["2 in sync", "--durability replicas:2"],
    );
    report.has("min-replicas", "warn", &["set min-replicas-to-write 1"]);
    let report = on(&master, &["--durability", "replicas"]);
    report.has("replicas", "warn", &["any of the 2 may be promoted"]);
    let report = on(&master, &["--durability", "replicas:2"]);
    report.has(
        "replicas",
        "ok",
        &["2 in sync, 2 connected", "bytes behind"],
    );
    assert_eq!(report.marked("fail"), [""; 0]);
    let report = on(&master, &["--durability", "replicas:3"]);
    report.has("replicas", "fail", &["replicas:3 needs 3 in sync"]);
    send(&master, &["CONFIG", "SET", "min-replicas-to-write", "2"]);
    on(&master, &[]).has("min-replicas", "ok", &["is 2"]);

    // One of them hangs: it is connected, and lags.
    replicas[0].pause().unwrap();
    wait_until("a replica that lags", || {
        let report = on(&master, &["--durability", "replicas:2"]);
        let (mark, said) = &report.checks["replicas"];
        mark == "fail" && said.contains("1 in sync, 2 connected")
    });
    on(&master, &[]).has("replicas", "warn", &["lags"]);
    let report = on(&master, &[]);
    report.has(
        "min-replicas",
        "fail",
        &["is 2, and 1 are in sync", "refuses"],
    );
    replicas[0].resume().unwrap();
}

#[test]
fn a_key_of_another_program_is_named() {
    let server = durable().start().unwrap();
    send(&server, &["SET", "baton:{default:0}:queue", "mine"]);
    let report = on(&server, &[]);
    report.has("keys", "fail", &["baton:{default:0}:queue", "--fleet"]);
    let report = on(&server, &["--fleet", "other"]);
    report.has("keys", "ok", &[]);
}

#[test]
fn a_busy_server_is_told_by_its_latency() {
    let settings = durable().config("enable-debug-command", "yes");
    let server = settings.start().unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut busy = redis(&server);
            while !is_over.load(Ordering::Relaxed) {
                let mut sleep = redis::cmd("DEBUG");
                sleep.arg("SLEEP").arg("0.1").exec(&mut busy).unwrap();
            }
        });
        let report = on(&server, &[]);
        is_over.store(true, Ordering::Relaxed);
        report.has("latency", "warn", &["p50", "p99", "round trips", "nearer"]);
        assert_eq!(report.marked("fail"), [""; 0]);
    });
}

#[test]
fn a_server_that_does_not_answer_is_one_failure() {
    let port = crate::support::dead_port();
    let report = Report::of(&format!("redis://127.0.0.1:{port}"), &[]);
    report.has("connection", "fail", &["refused", "nothing else"]);
    assert_eq!(report.checks.len(), 1);
    let locked = PrivateServer::builder().password("s3cret").start().unwrap();
    let report = Report::of(&locked.url(), &[]);
    report.has("connection", "fail", &["NOAUTH"]);
}

#[test]
fn a_wrong_clock_of_the_server_is_told() {
    let Some(fake) = FakeClock::start() else {
        return;
    };
    for (ahead_s, words) in [(3600, "ms ahead of"), (-3600, "ms behind")] {
        fake.set(ahead_s);
        on(&fake.server, &[]).has("clock", "warn", &[words, "NTP"]);
    }
}
