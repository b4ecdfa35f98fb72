//! A cluster of private servers.

use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use redis::{Connection, FromRedisValue};

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);
const SLOTS: u32 = 16384;

/// Masters that share the slots, and a replica of each if wanted.
pub(crate) struct Cluster {
    pub(crate) masters: Vec<PrivateServer>,
    pub(crate) replicas: Vec<PrivateServer>,
}

pub(crate) fn connect(server: &PrivateServer) -> Connection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_connection().unwrap()
}

/// Sends a line of words.
pub(crate) fn ask<T: FromRedisValue>(server: &PrivateServer, line: &str) -> redis::RedisResult<T> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.query(&mut connect(server))
}

fn wait(what: &str, fits: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !fits() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}

impl Cluster {
    pub(crate) fn start(masters: u32, with_replicas: bool) -> Self {
        let server = || {
            let settings = PrivateServer::builder().config("cluster-enabled", "yes");
            let settings = settings.config("cluster-node-timeout", "1000");
            settings
                .config("repl-diskless-sync-delay", "0")
                .start()
                .unwrap()
        };
        let cluster = Self {
            masters: (0..masters).map(|_| server()).collect(),
            replicas: (0..if with_replicas { masters } else { 0 })
                .map(|_| server())
                .collect(),
        };
        for (at, master) in (0..masters).zip(&cluster.masters) {
            let (first, last) = (SLOTS * at / masters, SLOTS * (at + 1) / masters - 1);
            let slots: Vec<String> = (first..=last).map(|slot| slot.to_string()).collect();
            let line = format!("CLUSTER ADDSLOTS {}", slots.join(" "));
            let () = ask(master, &line).unwrap();
            let () = ask(master, &format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1)).unwrap();
        }
        let port = cluster.masters[0].port().unwrap();
        for other in cluster.servers().skip(1) {
            let () = ask(other, &format!("CLUSTER MEET 127.0.0.1 {port}")).unwrap();
        }
        cluster.wait_complete();
        for (master, replica) in cluster.masters.iter().zip(&cluster.replicas) {
            let line = format!("CLUSTER REPLICATE {}", cluster.id(master));
            wait("a replica", || ask::<()>(replica, &line).is_ok());
        }
        for replica in &cluster.replicas {
            wait("a replica that follows", || {
                let info: String = ask(replica, "INFO replication").unwrap();
                info.contains("master_link_status:up")
            });
        }
        cluster
    }

    fn servers(&self) -> impl Iterator<Item = &PrivateServer> {
        self.masters.iter().chain(&self.replicas)
    }

    fn wait_complete(&self) {
        let count = self.servers().count();
        for server in self.servers() {
            wait("a complete cluster", || {
                let info: String = ask(server, "CLUSTER INFO").unwrap();
                info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{count}\r"))
            });
        }
    }

    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self
            .servers()
            .map(|server| format!("127.0.0.1:{}", server.port().unwrap()))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    pub(crate) fn id(&self, server: &PrivateServer) -> String {
        ask(server, "CLUSTER MYID").unwrap()
    }

    /// Which of the masters had the slot of a key at the beginning.
    pub(crate) fn first_owner(&self, key: &str) -> (usize, u32) {
        let slot: u32 = ask(&self.masters[0], &format!("CLUSTER KEYSLOT {key}")).unwrap();
        let masters = self.masters.len() as u32;
        let owner = (0..masters)
            .find(|at| slot < SLOTS * (at + 1) / masters)
            .unwrap();
        (owner as usize, slot)
    }

    /// Moves a slot with its keys, key by key, as an operator's tool does.
    pub(crate) fn move_slot(&self, slot: u32, from: usize, to: usize) {
        let (from_id, to_id) = (self.id(&self.masters[from]), self.id(&self.masters[to]));
        let (from, to) = (&self.masters[from], &self.masters[to]);
        let () = ask(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}")).unwrap();
        let () = ask(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}")).unwrap();
        loop {
            let keys: Vec<String> =
                ask(from, &format!("CLUSTER GETKEYSINSLOT {slot} 100")).unwrap();
            if keys.is_empty() {
                break;
            }
            let port = to.port().unwrap();
            let keys = keys.join(" ");
            let line = format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {keys}");
            let mut words = line.split(' ');
            let mut command = redis::cmd(words.next().unwrap());
            // The empty word says that keys follow.
            let () = command
                .arg(words.collect::<Vec<_>>())
                .query(&mut connect(from))
                .unwrap();
        }
        for server in [to, from] {
            let () = ask(server, &format!("CLUSTER SETSLOT {slot} NODE {to_id}")).unwrap();
        }
    }
}
