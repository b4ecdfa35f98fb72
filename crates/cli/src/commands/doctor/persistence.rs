//! What survives a restart of the server.

use super::facts::Facts;
use super::finding::{Finding, Mark};
use baton::Durability;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![appendonly(facts)];
    findings.extend(appendfsync(facts));
    findings.push(saving(facts));
    findings
}

fn has_file(facts: &Facts) -> bool {
    facts.info.text("aof_enabled") == "1"
}

fn is_asked(facts: &Facts) -> bool {
    facts.durability == Durability::Fsync
}

fn appendonly(facts: &Facts) -> Finding {
    if has_file(facts) {
        return Finding::ok("appendonly", "on");
    }
    let found = match facts.durability {
        Durability::Replicas(_) => {
            "off: a server that restarts before another takes over comes back empty, and its \
             replicas empty themselves"
        }
        _ => "off: if the server stops, messages since its last snapshot are lost, or all of them",
    };
    let mark = Mark::fail_if(is_asked(facts));
    Finding::bad("appendonly", mark, found, "set appendonly yes")
}

fn appendfsync(facts: &Facts) -> Option<Finding> {
    if !has_file(facts) {
        return None;
    }
    let mark = Mark::fail_if(is_asked(facts));
    Some(
        match facts.settings.get("appendfsync").map(String::as_str) {
            Some("always") => Finding::ok("appendfsync", "always"),
            Some(policy) => {
                let lost = match policy {
                    "everysec" => "the last second or two",
                    _ => "the last half minute or so",
                };
                let found = format!("{policy}: a power cut can lose {lost}");
                Finding::bad("appendfsync", mark, found, "set appendfsync always")
            }
            None => Finding::bad(
                "appendfsync",
                mark,
                "unknown: this user may not run CONFIG GET",
                "ask who runs the server, or let doctor log in as a user that may",
            ),
        },
    )
}

fn saving(facts: &Facts) -> Finding {
    let failed = |field: &str| facts.info.text(field) == "err";
    let refused = "the server may refuse every write (MISCONF); its log has the reason";
    if failed("aof_last_write_status") {
        Finding::fail(
            "saving",
            "the last write to the append-only file failed",
            refused,
        )
    } else if failed("rdb_last_bgsave_status") {
        Finding::fail("saving", "the last snapshot failed", refused)
    } else if failed("aof_last_bgrewrite_status") {
        Finding::warn(
            "saving",
            "the last rewrite of the append-only file failed",
            "the file grows until one succeeds; the server's log has the reason",
        )
    } else {
        Finding::ok("saving", "no write to disk has failed")
    }
}
