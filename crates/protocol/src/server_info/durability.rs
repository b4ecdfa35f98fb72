//! What a fleet can lose: the level at which its nodes confirm, on the server that they have.

use std::fmt;

use super::ServerInfo;

/// What nodes wait for before they call a write confirmed. The weaker level is the lesser one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DurabilityLevel {
    /// The server's answer.
    #[default]
    None,
    /// The answer of a server that forces each write to disk before it answers.
    Fsync,
    /// That so many replicas have the write.
    Replicas(u64),
}

impl DurabilityLevel {
    /// Reads `none`, `fsync` or `replicas:2`. A level that this version does not know promises
    /// nothing that it could tell: it is `none`.
    pub fn parse(level: &str) -> Self {
        let replicas = level.strip_prefix("replicas:").map(str::parse);
        match (level, replicas) {
            ("fsync", _) => Self::Fsync,
            (_, Some(Ok(replicas @ 1..))) => Self::Replicas(replicas),
            _ => Self::None,
        }
    }
}

impl fmt::Display for DurabilityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Fsync => f.write_str("fsync"),
            Self::Replicas(replicas) => write!(f, "replicas:{replicas}"),
        }
    }
}

impl ServerInfo {
    /// What this level is worth on this server, in a sentence.
    pub fn promise(&self, level: DurabilityLevel) -> String {
        match level {
            DurabilityLevel::None => {
                "nodes take the server's answer as confirmed; what it forgets is counted as void"
                    .to_owned()
            }
            DurabilityLevel::Fsync => match (self.aof, self.appendfsync.as_deref()) {
                (true, Some("always")) => "a restart of the server, or a loss of its power, \
                     loses nothing confirmed; a failover can"
                    .to_owned(),
                (true, None) => "a restart of the server loses nothing confirmed if its \
                     appendfsync is always, which it does not tell"
                    .to_owned(),
                _ => "the server does not force each write to disk, so a restart can lose what \
                     was confirmed"
                    .to_owned(),
            },
            DurabilityLevel::Replicas(needed) => self.promise_of_replicas(needed),
        }
    }

    fn promise_of_replicas(&self, needed: u64) -> String {
        let online = self.online_replicas();
        match self.replicas {
            replicas if replicas > needed => format!(
                "a failover loses nothing confirmed if it promotes one of the {needed} of \
                 {replicas} replicas that confirmed it"
            ),
            _ if online < needed => format!(
                "{online} of {needed} replicas follow, so nothing is confirmed until the others \
                 do"
            ),
            1 => "a failover to the replica loses nothing confirmed".to_owned(),
            replicas => {
                format!("a failover to any of the {replicas} replicas loses nothing confirmed")
            }
        }
    }

    /// How a failover can lose writes of nodes at this level, if it can.
    pub(super) fn failover_warning(&self, level: DurabilityLevel) -> Option<String> {
        let replicas = self.replicas;
        match level {
            _ if replicas == 0 => None,
            DurabilityLevel::Replicas(needed) if needed >= replicas => None,
            DurabilityLevel::Replicas(needed) => Some(format!(
                "nodes wait for {needed} of {replicas} replicas: a failover can promote another \
                 one, and lose what was confirmed; let them wait for replicas:{replicas}"
            )),
            DurabilityLevel::None | DurabilityLevel::Fsync => Some(format!(
                "{} asynchronously: a failover can lose the last writes; nodes at the durability \
                 replicas:{replicas} lose none that was confirmed",
                match replicas {
                    1 => "1 replica follows".to_owned(),
                    replicas => format!("{replicas} replicas follow"),
                }
            )),
        }
    }

    /// How many replicas follow; those that are copying the data for the first time do not yet.
    fn online_replicas(&self) -> u64 {
        let online = self
            .replication
            .iter()
            .filter(|replica| replica.is_online());
        online.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with so many replicas that follow, and so many that do not yet.
    fn server(online: usize, copying: usize) -> ServerInfo {
        let mut info = format!("connected_slaves:{}\r\n", online + copying);
        for n in 0..online + copying {
            let state = if n < online { "online" } else { "send_bulk" };
            info += &format!("slave{n}:ip=::1,port={n},state={state},offset=0,lag=0\r\n");
        }
        ServerInfo::parse(&info)
    }

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for level in [
            "none",
            "fsync",
            "replicas:1",
            "replicas:18446744073709551615",
        ] {
            assert_eq!(DurabilityLevel::parse(level).to_string(), level);
        }
        for unknown in [
            "",
            "replicas",
            "replicas:0",
            "replicas:-1",
            "replicas:x",
            "quorum",
        ] {
            assert_eq!(DurabilityLevel::parse(unknown), DurabilityLevel::None);
        }
        let parse = DurabilityLevel::parse;
        let rising = ["none", "fsync", "replicas:1", "replicas:2"].map(parse);
        assert!(rising.is_sorted());
    }

    #[test]
    fn a_failover_loses_nothing_confirmed_only_if_every_replica_confirms() {
        use DurabilityLevel::{Fsync, None, Replicas};
        let can_lose = |level, replicas| {
            let warning = server(replicas, 0).failover_warning(level);
            warning.is_some()
        };
        for (level, replicas, expected) in [
            (None, 0, false),
            (None, 1, true),
            (Fsync, 2, true),
            (Replicas(1), 2, true),
            (Replicas(2), 2, false),
            (Replicas(3), 2, false),
        ] {
            assert_eq!(can_lose(level, replicas), expected, "{level} of {replicas}");
        }
        let one = server(1, 0).failover_warning(None).unwrap_or_default();
        assert!(
            one.starts_with("1 replica follows asynchronously: "),
            "{one}"
        );
        let two = server(2, 0).failover_warning(Replicas(1));
        assert!(two.is_some_and(|two| two.contains("1 of 2 replicas")));
    }

    #[test]
    fn a_level_promises_what_the_server_can_keep() {
        let says = |server: &ServerInfo, level, words: &str| {
            let promise = server.promise(level);
            assert!(promise.contains(words), "{promise}");
        };
        let replicas = DurabilityLevel::Replicas;
        says(
            &server(2, 0),
            replicas(2),
            "any of the 2 replicas loses nothing",
        );
        says(&server(1, 0), replicas(1), "to the replica loses nothing");
        says(
            &server(1, 1),
            replicas(2),
            "1 of 2 replicas follow, so nothing",
        );
        says(
            &server(0, 0),
            replicas(1),
            "0 of 1 replicas follow, so nothing",
        );
        says(&server(2, 0), replicas(1), "one of the 1 of 2 replicas");
        let mut server = ServerInfo::default();
        says(
            &server,
            DurabilityLevel::Fsync,
            "can lose what was confirmed",
        );
        server.aof = true;
        says(&server, DurabilityLevel::Fsync, "which it does not tell");
        server.appendfsync = Some("everysec".to_owned());
        says(
            &server,
            DurabilityLevel::Fsync,
            "can lose what was confirmed",
        );
        server.appendfsync = Some("always".to_owned());
        says(
            &server,
            DurabilityLevel::Fsync,
            "loses nothing confirmed; a failover",
        );
        says(&server, DurabilityLevel::None, "void");
    }
}
