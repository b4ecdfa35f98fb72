//! The commands on a fleet of three partitions of which one is away: each of them reads and changes the others,
//! and says what it left out.

use baton_protocol::{Census, FleetName, Keys};
use baton_server::{ClusterGroup, PrivateServer};

use crate::partitions::{FAILED, json_lines, numbers, seed};
use crate::seeder::Seeder;
use crate::support::{Ended, baton, run, send};

struct Fleet {
    cluster: ClusterGroup,
    /// Of the partitions in reach.
    seeders: Vec<Seeder>,
    /// The partition that is away. Its server has no control keys.
    away: usize,
}

impl Fleet {
    /// Each server of a cluster has a partition, and one server is dead.
    fn new() -> Self {
        let mut cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
        let mut seeders = seed(&cluster.url());
        let owner = |keys: &Keys| {
            let slot = cluster.slot(&keys.fence).unwrap();
            cluster.owner(slot).unwrap()
        };
        let control = owner(&Keys::new(&FleetName::new("default").unwrap()));
        let owners = seeders.iter().map(|seeder| owner(seeder.store.keys()));
        let owners: Vec<usize> = owners.collect();
        assert_eq!(owners, [0, 1, 2], "each server has a partition");
        let away = (control + 1) % 3;
        cluster.servers[away].kill9();
        seeders.remove(away);
        Self {
            cluster,
            seeders,
            away,
        }
    }

    /// Runs a command, which must say what it left out.
    fn run(&self, args: &[&str]) -> Ended {
        let ended = run(baton(&[&["--redis", &self.cluster.url()], args].concat()));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let port = self.cluster.servers[self.away].port().unwrap();
        ended.complains(&format!("partition {} is out of reach (", self.away));
        ended.complains(&format!(":{port}"));
        ended
    }

    fn doctor(&self) -> Ended {
        let doctor = run(baton(&["doctor", "--redis", &self.cluster.url()]));
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        doctor
    }

    /// What has failed in the partitions in reach.
    fn failed(&self) -> Vec<&'static str> {
        let away = self.away.to_string();
        let failed = FAILED.into_iter();
        failed.filter(|one| !one.starts_with(&away)).collect()
    }

    fn census(&self) -> Vec<Census> {
        self.seeders.iter().map(Seeder::census).collect()
    }
}

#[test]
fn a_partition_whose_slot_its_own_server_does_not_serve_is_left_out() {
    let cluster = ClusterGroup::start(&PrivateServer::builder(), 3, 0).unwrap();
    let seeders = seed(&cluster.url());
    let slot = cluster.slot(&seeders[1].store.keys().fence).unwrap();
    let owner = cluster.owner(slot).unwrap();
    let slot = slot.to_string();
    // The other servers go on naming it.
    send(&cluster.servers[owner], &["CLUSTER", "DELSLOTS", &slot]);
    let ended = run(baton(&["errors", "--redis", &cluster.url()]));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(numbers(&ended), ["0.1", "2.1", "2.2", "2.3"]);
    ended.complains("partition 1 is out of reach (");
}

#[test]
fn failed_messages_of_the_partitions_in_reach_are_read_and_taken() {
    let fleet = Fleet::new();
    assert_eq!(numbers(&fleet.run(&["errors"])), fleet.failed());
    let taken = fleet.run(&["getErrors"]);
    assert_eq!(numbers(&taken), fleet.failed());
    taken.complains(&format!("{} failed messages printed", fleet.failed().len()));
    fleet.run(&["getErrors"]).complains("no failed messages");
}

#[test]
fn failed_messages_of_the_partitions_in_reach_are_dropped_and_retried() {
    let fleet = Fleet::new();
    let dropped = fleet.run(&["drop", "--seq", "1", "--yes", "--json"]);
    assert_eq!(json_lines(&dropped)[0]["dropped"], 2);
    let retried = fleet.run(&["retry", "--all", "--yes", "--json"]);
    let left = fleet.failed().len() - 2;
    assert_eq!(json_lines(&retried)[0]["retried"], left);
    assert!(fleet.census().iter().all(|census| census.errors == 0));
}

#[test]
fn the_partitions_in_reach_are_paused_and_resumed() {
    let fleet = Fleet::new();
    let paused = || -> Vec<bool> {
        let census = fleet.census().into_iter();
        census
            .map(|census| census.paused.workers_since_ms.is_some())
            .collect()
    };
    fleet.run(&["pause", "workers"]).says("paused the workers");
    assert_eq!(paused(), [true; 2]);
    fleet.run(&["resume"]).says("resumed the workers");
    assert_eq!(paused(), [false; 2]);
}

#[test]
fn doctor_names_the_partition_that_is_out_of_reach_and_tries_the_others() {
    let fleet = Fleet::new();
    let doctor = fleet.doctor();
    let away = fleet.away;
    doctor.says(&format!("partition {away} is out of reach ("));
    doctor.says("this user may do all that a node does");
    doctor.says("no key of the fleet is used by another program");
}

#[test]
fn what_dead_nodes_held_in_the_partitions_in_reach_is_put_back() {
    let mut fleet = Fleet::new();
    fleet.seeders.clear();
    let url = fleet.cluster.url();
    let status = || run(baton(&["--redis", &url, "status", "--json"]));
    let json = || json_lines(&status()).remove(0);
    crate::shared::wait_until("the seeder is absent", || {
        json()["nodes"][0]["role"] == "dead"
    });
    let clean = fleet.run(&["clean"]);
    clean.says("put back 2 messages and 0 failed messages that seeder held");
}
