//! What a fleet can lose: the level at which its nodes confirm, on the server that they have.

use super::ServerInfo;
use crate::Durability;

impl ServerInfo {
    /// What this level is worth on this server, in a sentence.
    pub fn promise(&self, level: Durability) -> String {
        match level {
            Durability::None => {
                "nodes take the server's answer as confirmed; what it forgets is counted as void"
                    .to_owned()
            }
            Durability::Fsync => match (self.aof, self.appendfsync.as_deref()) {
                (true, Some("always")) => "a restart of the server, or a loss of its power, \
                     loses nothing confirmed; a failover can"
                    .to_owned(),
                (true, None) => "the server does not tell whether its appendfsync is always; if \
                     not, nothing is confirmed"
                    .to_owned(),
                _ => "the server does not force each write to disk, so nothing is confirmed until \
                     it has appendonly yes and appendfsync always"
                    .to_owned(),
            },
            Durability::Replicas(needed) => self.promise_of_replicas(needed.get().into()),
        }
    }

    fn promise_of_replicas(&self, needed: u64) -> String {
        let online = self.online_replicas();
        match self.replicas {
            replicas if replicas > needed => format!(
                "a failover loses nothing confirmed if it promotes one of the {needed} of \
                 {replicas} replicas that confirmed it"
            ),
            _ if online < needed && needed == 1 => {
                "no replica follows, so nothing is confirmed until one does".to_owned()
            }
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
    pub(super) fn failover_warning(&self, level: Durability) -> Option<String> {
        let replicas = self.replicas;
        match level {
            _ if replicas == 0 => None,
            Durability::Replicas(needed) if u64::from(needed.get()) >= replicas => None,
            Durability::Replicas(needed) => Some(format!(
                "nodes wait for {needed} of {replicas} replicas: a failover can promote another \
                 one, and lose what was confirmed; let them wait for replicas:{replicas}"
            )),
            Durability::None | Durability::Fsync => Some(format!(
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
    use std::num::NonZeroU32;

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

    fn replicas(count: u32) -> Durability {
        Durability::Replicas(NonZeroU32::new(count).unwrap())
    }

    #[test]
    fn a_failover_loses_nothing_confirmed_only_if_every_replica_confirms() {
        use Durability::{Fsync, None};
        let can_lose = |level, count| {
            let warning = server(count, 0).failover_warning(level);
            warning.is_some()
        };
        for (level, count, expected) in [
            (None, 0, false),
            (None, 1, true),
            (Fsync, 2, true),
            (replicas(1), 2, true),
            (replicas(2), 2, false),
            (replicas(3), 2, false),
        ] {
            assert_eq!(can_lose(level, count), expected, "{level} of {count}");
        }
        let one = server(1, 0).failover_warning(None).unwrap_or_default();
        assert!(
            one.starts_with("1 replica follows asynchronously: "),
            "{one}"
        );
        let two = server(2, 0).failover_warning(replicas(1));
        assert!(two.is_some_and(|two| two.contains("1 of 2 replicas")));
    }

    #[test]
    fn a_level_promises_what_the_server_can_keep() {
        let says = |server: &ServerInfo, level, words: &str| {
            let promise = server.promise(level);
            assert!(promise.contains(words), "{promise}");
        };
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
        says(&server(0, 0), replicas(1), "no replica follows, so nothing");
        says(&server(2, 0), replicas(1), "one of the 1 of 2 replicas");
        let mut server = ServerInfo::default();
        says(&server, Durability::Fsync, "so nothing is confirmed until");
        server.aof = true;
        says(&server, Durability::Fsync, "does not tell whether");
        server.appendfsync = Some("everysec".to_owned());
        says(&server, Durability::Fsync, "so nothing is confirmed until");
        server.appendfsync = Some("always".to_owned());
        says(
            &server,
            Durability::Fsync,
            "loses nothing confirmed; a failover",
        );
        says(&server, Durability::None, "void");
    }
}
