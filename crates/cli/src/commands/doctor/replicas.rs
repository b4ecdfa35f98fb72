//! Replicas: how many follow, how closely, and what a failover can lose.

use super::facts::{Facts, Info};
use super::finding::Finding;
use baton::Durability;

/// Seconds since a replica's last sign of life after which it does not count as in sync. A replica
/// gives one every second.
const MAX_LAG_S: u64 = 2;

/// The replicas of the server.
#[derive(Debug, PartialEq, Eq)]
struct Replicas {
    connected: u64,
    in_sync: u64,
    /// How many bytes the last of them is behind.
    behind_bytes: u64,
}

impl Replicas {
    /// Reads the lines `slave0:ip=…,port=…,state=online,offset=…,lag=…` of INFO.
    fn read(info: &Info) -> Self {
        let offset = info.number("master_repl_offset");
        let connected = info.number("connected_slaves");
        let (mut in_sync, mut behind_bytes) = (0, 0);
        for at in 0..connected {
            let line = info.text(&format!("slave{at}"));
            let field = |name: &str| {
                let mut fields = line.split(',').filter_map(|field| field.split_once('='));
                fields.find_map(|(field, value)| (field == name).then_some(value))
            };
            let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
            let lag = number("lag").unwrap_or(u64::MAX);
            in_sync += u64::from(field("state") == Some("online") && lag <= MAX_LAG_S);
            let behind = offset.saturating_sub(number("offset").unwrap_or_default());
            behind_bytes = behind_bytes.max(behind);
        }
        Self {
            connected,
            in_sync,
            behind_bytes,
        }
    }
}

/// Checks the replicas. Sentinels may know of replicas that are not connected at present.
pub(super) fn check(facts: &Facts, known_to_sentinels: u64) -> Vec<Finding> {
    let replicas = Replicas::read(&facts.info);
    let mut findings = vec![count(facts, &replicas, known_to_sentinels)];
    findings.extend(min_replicas(facts, &replicas));
    findings
}

fn count(facts: &Facts, replicas: &Replicas, known_to_sentinels: u64) -> Finding {
    let Replicas {
        connected,
        in_sync,
        behind_bytes,
    } = *replicas;
    let found = match connected {
        0 => "none".to_owned(),
        _ => format!(
            "{in_sync} in sync, {connected} connected, the last one {behind_bytes} bytes behind"
        ),
    };
    let all = connected.max(known_to_sentinels);
    match facts.durability {
        Durability::Replicas(wanted) if in_sync < u64::from(wanted.get()) => Finding::fail(
            "replicas",
            found,
            format!("replicas:{wanted} needs {wanted} in sync: nothing would be confirmed"),
        ),
        Durability::Replicas(wanted) if all > u64::from(wanted.get()) => Finding::warn(
            "replicas",
            found,
            format!(
                "any of the {all} may be promoted, also one that has not confirmed: \
                 use --durability replicas:{all}"
            ),
        ),
        Durability::Replicas(_) => Finding::ok("replicas", found),
        _ if connected > in_sync => Finding::warn(
            "replicas",
            found,
            "a replica that lags loses more when it is promoted: see its log",
        ),
        _ if connected > 0 => Finding::warn(
            "replicas",
            found,
            format!(
                "they follow asynchronously, and a failover can lose the last writes: \
                 use --durability replicas:{all}"
            ),
        ),
        _ if facts.has_failover() => {
            Finding::warn("replicas", found, "no server can take over: attach some")
        }
        _ => Finding::ok("replicas", found),
    }
}

fn min_replicas(facts: &Facts, replicas: &Replicas) -> Option<Finding> {
    const CHECK: &str = "min-replicas";
    let needed = facts.settings.get("min-replicas-to-write");
    let needed: Option<u64> = needed.and_then(|text| text.parse().ok());
    let follows = replicas.connected > 0 || facts.has_failover();
    match needed {
        Some(needed) if needed > replicas.in_sync => Some(Finding::fail(
            CHECK,
            format!(
                "min-replicas-to-write is {needed}, and {} are in sync: the server refuses every write",
                replicas.in_sync
            ),
            "attach replicas, or lower it",
        )),
        Some(0) if follows && !matches!(facts.durability, Durability::Replicas(_)) => {
            Some(Finding::warn(
                CHECK,
                "min-replicas-to-write is 0: a master that is cut off goes on accepting writes, and \
                 a failover loses them",
                "set min-replicas-to-write 1",
            ))
        }
        Some(needed) if follows => Some(Finding::ok(
            CHECK,
            format!("min-replicas-to-write is {needed}"),
        )),
        None if follows => Some(Finding::warn(
            CHECK,
            "unknown: this user may not run CONFIG GET",
            "ask who runs the server for min-replicas-to-write",
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_is_silent_or_not_online_is_not_in_sync() {
        let fields = [
            ("connected_slaves", "3"),
            ("master_repl_offset", "100"),
            (
                "slave0",
                "ip=10.0.0.2,port=6379,state=online,offset=100,lag=1,type=replica",
            ),
            (
                "slave1",
                "ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0",
            ),
            (
                "slave2",
                "ip=10.0.0.4,port=6379,state=online,offset=90,lag=9",
            ),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let replicas = Replicas::read(&Info(fields.map(owned).into()));
        let expected = Replicas {
            connected: 3,
            in_sync: 1,
            behind_bytes: 100,
        };
        assert_eq!(replicas, expected);
    }
}
