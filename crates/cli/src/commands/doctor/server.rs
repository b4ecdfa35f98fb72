//! The server itself: version, role, memory, clients.

use super::facts::{Facts, Info};
use super::finding::{Finding, Mark};

/// The oldest version that a fleet can live on.
const OLDEST: (u64, u64) = (6, 2);
/// Connections of one node.
const NODE_CLIENTS: u64 = 3;
/// From this part of a limit on, the limit is near.
const NEAR_PERCENT: u64 = 80;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let checks = [version, role, eviction, memory, clients];
    checks.iter().map(|check| check(&facts.info)).collect()
}

fn version(info: &Info) -> Finding {
    let redis = info.text("redis_version");
    let found = match info.text("valkey_version") {
        "" => format!("Redis {redis}"),
        valkey => format!("Valkey {valkey}"),
    };
    let mut numbers = redis.split('.').map(|number| number.parse().unwrap_or(0));
    let release = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    match release >= OLDEST {
        true => Finding::ok("version", found),
        false => Finding::fail(
            "version",
            found,
            "a fleet needs Redis 6.2 or later, or Valkey",
        ),
    }
}

fn role(info: &Info) -> Finding {
    match (info.text("role"), info.text("slave_read_only")) {
        ("slave", "0") => Finding::fail(
            "role",
            "a replica that accepts writes",
            "it forgets them when it synchronizes: name its master",
        ),
        ("slave", _) => Finding::fail("role", "a read-only replica", "name its master"),
        _ => Finding::ok("role", "a master"),
    }
}

fn eviction(info: &Info) -> Finding {
    let policy = info.text("maxmemory_policy");
    match policy.starts_with("allkeys-") {
        true => Finding::fail(
            "eviction",
            format!("maxmemory-policy is {policy}: with full memory the server deletes messages"),
            "set maxmemory-policy noeviction",
        ),
        false => Finding::ok("eviction", format!("maxmemory-policy is {policy}")),
    }
}

fn memory(info: &Info) -> Finding {
    let (used, limit) = (info.number("used_memory"), info.number("maxmemory"));
    if limit == 0 {
        return Finding::ok("memory", format!("{} used, no limit", mebibytes(used)));
    }
    let found = format!("{} of {} used", mebibytes(used), mebibytes(limit));
    match is_near(used, limit) {
        true => Finding::bad(
            "memory",
            Mark::fail_if(used >= limit),
            found,
            "a server with full memory refuses new messages: raise maxmemory",
        ),
        false => Finding::ok("memory", found),
    }
}

fn clients(info: &Info) -> Finding {
    let connected = info.number("connected_clients");
    let limit = info.number("maxclients");
    let found = format!("{connected} of {limit} connections in use");
    match is_near(connected, limit) {
        true => Finding::bad(
            "clients",
            Mark::fail_if(connected + NODE_CLIENTS > limit),
            found,
            format!("a node needs {NODE_CLIENTS}: raise maxclients"),
        ),
        false => Finding::ok("clients", found),
    }
}

fn is_near(used: u64, limit: u64) -> bool {
    limit > 0 && u128::from(used) * 100 >= u128::from(limit) * u128::from(NEAR_PERCENT)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_or_has_no_version_fails() {
        for (version_text, mark) in [
            ("6.2.14", Mark::Ok),
            ("7.0.15", Mark::Ok),
            ("10.0.0", Mark::Ok),
            ("6.0.16", Mark::Fail),
            ("5.0.14", Mark::Fail),
            ("", Mark::Fail),
        ] {
            let fields = [("redis_version".to_owned(), version_text.to_owned())];
            let finding = version(&Info(fields.into()));
            assert_eq!(finding.mark, mark, "{version_text}");
        }
    }
}
