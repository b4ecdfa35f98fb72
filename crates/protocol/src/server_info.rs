//! What the server says about itself, and which of its settings can lose messages.

mod losses;
mod replica;

use serde::Serialize;

use crate::Durability;
pub use replica::Replica;

/// The facts of `INFO` that matter to a fleet.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct ServerInfo {
    /// `Redis 7.4.1` or `Valkey 9.1.2`.
    pub version: String,
    /// Names one server process, from one promotion to the next: each start has a new one, and so has
    /// a replica that becomes the master.
    #[serde(rename = "run")]
    pub run_id: String,
    /// Whether it is a replica that refuses writes.
    pub read_only_replica: bool,
    /// Replicas connected to it.
    pub replicas: u64,
    /// The replicas one by one, if it lists them.
    pub replication: Vec<Replica>,
    /// Whether the append-only file is on.
    pub aof: bool,
    /// When the append-only file is forced to disk, if the user may read that setting.
    pub appendfsync: Option<String>,
    /// What happens to keys when memory is full.
    pub maxmemory_policy: String,
    /// The memory limit in bytes; 0 for none.
    pub maxmemory: u64,
    /// Whether it is a replica, read-only or not.
    #[serde(skip)]
    pub(crate) is_replica: bool,
    /// Names the history of its writes. A replica that becomes the master has a new one.
    #[serde(skip)]
    pub(crate) replication_id: String,
    /// Whether it is still loading its data from disk.
    #[serde(skip)]
    pub(crate) loading: bool,
    /// Whether it is in cluster mode.
    #[serde(skip)]
    pub(crate) cluster: bool,
    /// Whether it is a Sentinel, which has no data.
    #[serde(skip)]
    pub(crate) sentinel: bool,
    /// Whether its last background save, or its last write to the append-only file, failed.
    #[serde(skip)]
    pub(crate) cannot_persist: bool,
    /// Its version as numbers, such as 7 and 0; zeros if it does not say.
    #[serde(skip)]
    pub(crate) release: (u32, u32),
}

impl ServerInfo {
    /// Reads the answer of `INFO`. What is missing is false, 0 or empty.
    pub fn parse(info: &str) -> Self {
        let field = |name: &str| field(info, name);
        let version = match field("valkey_version") {
            "" => format!("Redis {}", field("redis_version")),
            version => format!("Valkey {version}"),
        };
        let mut server = Self {
            version,
            run_id: run_id(field("run_id"), field("master_replid2")),
            aof: field("aof_enabled") == "1",
            maxmemory_policy: field("maxmemory_policy").to_owned(),
            maxmemory: field("maxmemory").parse().unwrap_or_default(),
            loading: field("loading") == "1",
            cluster: field("cluster_enabled") == "1",
            // Redis has one of the fields, Valkey the other.
            sentinel: [field("redis_mode"), field("server_mode")].contains(&"sentinel"),
            cannot_persist: field("rdb_last_bgsave_status") == "err"
                || field("aof_last_write_status") == "err",
            release: release(field("redis_version")),
            ..Self::default()
        };
        server.update_replication(info);
        server
    }

    /// Takes what the answer of `INFO replication` says: it is short, so it may be read often.
    pub fn update_replication(&mut self, info: &str) {
        let field = |name: &str| field(info, name);
        self.is_replica = field("role") == "slave";
        self.read_only_replica = self.is_replica && field("slave_read_only") != "0";
        self.replication_id = field("master_replid").to_owned();
        self.replicas = field("connected_slaves").parse().unwrap_or_default();
        self.replication = Replica::list(info);
    }

    /// Whether the server may delete keys of ours when its memory is full. No key of a fleet
    /// has a time to live, so the `volatile-*` policies never touch one.
    pub fn evicts(&self) -> bool {
        self.maxmemory_policy.starts_with("allkeys-")
    }

    /// Why a client that expects one server cannot use this one.
    pub(crate) fn needs_cluster_url(&self) -> String {
        format!(
            "this is a server in cluster mode ({}, cluster_enabled:1): name its cluster with \
             redis+cluster://host[:port],…",
            self.version
        )
    }

    /// Why a client that expects a server cannot use this Sentinel.
    pub(crate) fn needs_sentinel_url(&self) -> String {
        format!(
            "this is a Sentinel ({}), which has no data: name it with \
             redis+sentinel://host[:port],…/master",
            self.version
        )
    }

    /// The settings with which it can lose messages of nodes at this level, and what to do about
    /// each.
    pub fn warnings(&self, level: Durability) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.evicts() {
            warnings.push(format!(
                "maxmemory-policy is {}: when memory is full, the server deletes keys, and with \
                 them messages; set it to noeviction",
                self.maxmemory_policy
            ));
        }
        if !self.aof {
            warnings.push(
                "appendonly is off: if the server stops, messages since its last snapshot are \
                 lost, or all of them; set appendonly yes"
                    .to_owned(),
            );
        }
        match self.appendfsync.as_deref() {
            Some(policy @ ("everysec" | "no")) if self.aof => warnings.push(format!(
                "appendfsync is {policy}: if the machine of the server loses power, {} can be \
                 lost; set appendfsync always",
                if policy == "no" {
                    "the last half minute or so"
                } else {
                    "the last second or two"
                }
            )),
            _ => {}
        }
        if self.cannot_persist {
            warnings.push(
                "the server could not save its data the last time: it may refuse every write with \
                 MISCONF until it can; its log has the reason"
                    .to_owned(),
            );
        }
        warnings.extend(self.failover_warning(level));
        if self.read_only_replica {
            warnings
                .push("this server is a read-only replica: a fleet cannot run on it".to_owned());
        } else if self.is_replica {
            warnings.push(
                "this server is a replica that accepts writes: it forgets them when it \
                 synchronizes; name its master"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// A field of the answer of `INFO`; empty if it is missing.
fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .unwrap_or_default()
        .trim()
}

/// Mixes the first digits of a server's `run_id` and of the replication id that it followed before it
/// became the master; that has zeros if it was never a replica. A server that was the master before
/// and becomes it again has the same `run_id`, but other nodes are connected to it.
fn run_id(process: &str, followed: &str) -> String {
    let digits = |id: &str| u32::from_str_radix(id.get(..8)?, 16).ok();
    match digits(process) {
        Some(process) => format!("{:08x}", process ^ digits(followed).unwrap_or(0)),
        None => String::new(),
    }
}

/// The first two numbers of a version.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|number| number.parse());
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.1.2\r\n\
        run_id:0123456789abcdef0123\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\n\
        loading:0\r\naof_enabled:1\r\nrole:slave\r\nslave_read_only:1\r\nconnected_slaves:2\r\n";

    #[test]
    fn the_facts_are_read_from_info() {
        let server = ServerInfo::parse(INFO);
        assert_eq!(server.version, "Valkey 9.1.2");
        assert_eq!(server.run_id, "01234567");
        assert!(server.read_only_replica && server.aof && server.evicts() && !server.loading);
        assert_eq!((server.replicas, server.maxmemory), (2, 100));
    }

    #[test]
    fn each_dangerous_setting_is_named() {
        let mut server = ServerInfo::parse(INFO);
        server.appendfsync = Some("everysec".to_owned());
        let warnings = server.warnings(Durability::None).join("\n");
        for word in ["allkeys-lru", "everysec", "2 replicas", "read-only replica"] {
            assert!(warnings.contains(word), "{word} in {warnings}");
        }
        let writable = INFO.replace("slave_read_only:1", "slave_read_only:0");
        let warnings = ServerInfo::parse(&writable).warnings(Durability::None);
        assert!(
            warnings
                .join("\n")
                .contains("a replica that accepts writes")
        );
        let safe = ServerInfo {
            aof: true,
            appendfsync: Some("always".to_owned()),
            maxmemory_policy: "noeviction".to_owned(),
            ..ServerInfo::default()
        };
        assert_eq!(safe.warnings(Durability::None), Vec::<String>::new());
    }

    #[test]
    fn a_server_in_cluster_mode_needs_another_url() {
        let server = ServerInfo::parse("redis_version:7.0.15\r\ncluster_enabled:1\r\n");
        let why = server.needs_cluster_url();
        assert!(why.contains("cluster mode (Redis 7.0.15"), "{why}");
        assert!(server.cluster && !ServerInfo::parse("cluster_enabled:0").cluster);
        assert_eq!(server.release, (7, 0));
    }

    #[test]
    fn a_server_that_cannot_save_is_a_warning() {
        for line in ["rdb_last_bgsave_status:err", "aof_last_write_status:err"] {
            let warnings = ServerInfo::parse(line)
                .warnings(Durability::None)
                .join("\n");
            assert!(warnings.contains("MISCONF"), "{warnings}");
        }
        let well = ServerInfo::parse("rdb_last_bgsave_status:ok\r\naof_last_write_status:ok");
        assert!(
            !well
                .warnings(Durability::None)
                .join("\n")
                .contains("MISCONF")
        );
    }

    #[test]
    fn garbage_is_read_as_unknown() {
        let server = ServerInfo::parse("\u{0}:::\r\nrun_id\r\nmaxmemory:x");
        assert_eq!((server.run_id.as_str(), server.maxmemory), ("", 0));
    }
}
