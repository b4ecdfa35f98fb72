//! A server with replicas, and nodes that say what a test wants.

use baton_server::{Fsync, PrivateServer};
use redis::Value;
use serde_json::json;

use super::{keys, redis, wait_status};

/// A server that keeps what it confirmed, with replicas that follow.
pub(crate) struct Replicated {
    pub(crate) server: PrivateServer,
    pub(crate) replicas: Vec<PrivateServer>,
}

impl Replicated {
    pub(crate) fn start(replicas: usize) -> Self {
        let settings = PrivateServer::builder()
            .appendonly(Fsync::Always)
            .config("repl-diskless-sync-delay", "0");
        let server = settings.clone().start().unwrap();
        let port = server.port().unwrap();
        let replicas: Vec<_> = (0..replicas)
            .map(|_| {
                let follows = format!("127.0.0.1 {port}");
                let replica = settings.clone().config("replicaof", follows);
                replica.start().unwrap()
            })
            .collect();
        wait_status(&server, "all replicas to follow", |status| {
            let listed = &status.server.replication;
            let follows = |port| {
                let address = format!("127.0.0.1:{port}");
                listed
                    .iter()
                    .any(|replica| replica.address == address && replica.is_online())
            };
            replicas
                .iter()
                .all(|replica| follows(replica.port().unwrap()))
        });
        Self { server, replicas }
    }
}

/// A node that is present as long as this value lives, does nothing, and said this once.
pub(crate) struct PlantedNode {
    _presence: redis::Connection,
}

impl PlantedNode {
    /// A node at that durability, whose writes are not confirmed for that reason.
    pub(crate) fn start(
        server: &PrivateServer,
        name: &str,
        durability: &str,
        trouble: Option<&str>,
    ) -> Self {
        let about = json!({"host": "planted", "pid": 1, "durability": durability,
            "durability_trouble": trouble});
        Self::saying(server, name, &about)
    }

    /// A node that says this of itself.
    pub(crate) fn saying(server: &PrivateServer, name: &str, about: &serde_json::Value) -> Self {
        let mut connection = redis(server);
        let (s, _us): (u64, u64) = redis::cmd("TIME").query(&mut connection).unwrap();
        redis::pipe()
            .hset(keys().nodes, name, format!("12345678 {about}"))
            .zadd(keys().seen, name, 1000 * s)
            .exec(&mut connection)
            .unwrap();
        let channel = format!("{}{name}", keys().presence);
        let _: Value = redis::cmd("SUBSCRIBE")
            .arg(channel)
            .query(&mut connection)
            .unwrap();
        Self {
            _presence: connection,
        }
    }
}

/// Makes the fleet one that has lost so many messages. It must not have begun.
pub(crate) fn lose(server: &PrivateServer, messages: u64) {
    redis::pipe()
        .hset(keys().fence, "last", messages)
        .hset(keys().stats, "void", messages)
        .exec(&mut redis(server))
        .unwrap();
}
