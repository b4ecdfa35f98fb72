//! A master, replicas and Sentinels, or a cluster: the group says when it is whole, and heals.

#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use baton::FleetName;
use baton_chaos::group::{Group, Member, Rejoin};
use baton_chaos::rng::Rng;
use baton_processes::Info;
use baton_server::{Fsync, find_program};

const TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match found() {
            Ok(found) => return found,
            Err(why) => assert!(Instant::now() < deadline, "waited for {what}: {why}"),
        }
        std::thread::sleep(POLL);
    }
}

/// The masters of the partitions, when the group is whole.
fn all_whole(group: &Group) -> Vec<usize> {
    wait_for("a whole group", || {
        group.check_whole().map_err(|error| format!("{error:#}"))
    })
}

/// The same for a fleet of one partition.
fn whole(group: &Group) -> usize {
    all_whole(group)[0]
}

/// Waits until the group is not whole, for a reason with these words.
fn not_whole(group: &Group, words: &str) {
    wait_for(words, || match group.check_whole() {
        Err(error) if format!("{error:#}").contains(words) => Ok(()),
        Err(error) => Err(format!("{error:#}")),
        Ok(_) => Err("it is whole".to_owned()),
    });
}

/// Waits until the group has another master than this one.
fn another_master(group: &Group, old: usize) -> usize {
    wait_for("another master", || match group.masters().as_deref() {
        Ok([master]) if *master != old => Ok(*master),
        other => Err(format!("{other:?}")),
    })
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn start() -> Group {
    let program = find_program().unwrap();
    Group::start_sentinels(&program, Fsync::EverySec, LOOPBACK, None).unwrap()
}

fn start_cluster(partitions: u32) -> Group {
    let (program, fleet) = (find_program().unwrap(), FleetName::new("chaos").unwrap());
    Group::start_cluster(&program, Fsync::EverySec, LOOPBACK, &fleet, partitions).unwrap()
}

#[test]
fn a_group_without_one_of_its_members_is_not_whole() {
    let mut group = start();
    let master = whole(&group);
    let replica = group.replicas(master).unwrap()[0];
    for (member, words) in [
        (Member::Server(replica), "as \"s_down,slave\""),
        (Member::Sentinel(2), "as \"s_down,sentinel\""),
    ] {
        group.process(member).unwrap().pause().unwrap();
        not_whole(&group, words);
        group.process(member).unwrap().resume().unwrap();
        assert_eq!(whole(&group), master, "{member}");
    }
    let mut astray = redis::cmd("REPLICAOF");
    astray.arg("127.0.0.1").arg(1);
    astray.exec(&mut group.connect(replica).unwrap()).unwrap();
    not_whole(&group, "1 of 2 replicas are in step");
    // The Sentinels bring it back.
    assert_eq!(whole(&group), master);
}

#[test]
fn a_master_comes_back_as_it_was_and_is_demoted_or_comes_back_as_a_replica() {
    let mut group = start();
    for how in [Rejoin::AsItWas, Rejoin::AsReplica] {
        let old = whole(&group);
        group.process(Member::Server(old)).unwrap().kill9();
        let new = another_master(&group, old);
        group.restart(Member::Server(old), how).unwrap();
        let role = Info::read(&mut group.connect(old).unwrap(), "replication").unwrap();
        let expected = match how {
            Rejoin::AsItWas => "master",
            Rejoin::AsReplica => "slave",
        };
        assert_eq!(role.text("role").unwrap(), expected);
        assert_eq!(whole(&group), new);
    }
}

#[test]
fn a_cluster_is_whole_again_after_a_death_a_failover_and_a_slot_that_moved() {
    let mut group = start_cluster(1);
    let old = whole(&group);
    let others = group.cluster().unwrap().unused_masters().unwrap();
    assert_eq!((others.len(), others.contains(&old)), (2, false));
    group.process(Member::Server(old)).unwrap().kill9();
    assert!(group.check_whole().is_err());
    let new = another_master(&group, old);
    let how = group.restart(Member::Server(old), Rejoin::AsReplica);
    assert_eq!(how.unwrap(), Rejoin::AsItWas);
    assert_eq!(whole(&group), new);
    assert_eq!(group.replicas(new).unwrap(), [old]);
    group.fail_over(new, &mut Rng::new(1)).unwrap();
    assert_eq!(another_master(&group, new), old);
    assert_eq!(whole(&group), old);
    for to in [others[0], new] {
        let cluster = group.cluster().unwrap();
        cluster.move_slot(cluster.slots()[0], to).unwrap();
        // What was asked to take the slot back is a replica, so its master has it.
        let owner = if to == new { old } else { to };
        assert_eq!(whole(&group), owner);
    }
}

#[test]
fn the_masters_of_a_cluster_share_the_partitions_of_a_fleet() {
    let mut group = start_cluster(6);
    let masters = all_whole(&group);
    assert_eq!(masters, [0, 0, 1, 1, 2, 2]);
    assert_eq!(group.partitions_of(1).unwrap(), [2, 3]);
    let cluster = group.cluster().unwrap();
    assert!(cluster.unused_masters().unwrap().is_empty());
    assert_eq!(cluster.masters_beside(1).unwrap().len(), 2);
    let (slots, all) = (cluster.slots().to_vec(), cluster.all_slots());
    assert_eq!(all[..6], slots, "that of the lease is the last");
    assert_eq!(all.len(), 7);
    cluster.move_slot(slots[0], 2).unwrap();
    assert_eq!(all_whole(&group), [2, 0, 1, 1, 2, 2]);
    group.process(Member::Server(2)).unwrap().kill9();
    let new = wait_for("another master", || match group.masters() {
        Ok(masters) if masters[0] != 2 => Ok(masters[0]),
        other => Err(format!("{other:?}")),
    });
    assert_eq!(group.partitions_of(new).unwrap(), [0, 4, 5]);
    group.restart(Member::Server(2), Rejoin::AsItWas).unwrap();
    assert_eq!(all_whole(&group), [new, 0, 1, 1, new, new]);
}
