//! A master, replicas and Sentinels: the group says when it is whole, and heals.

#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use baton_chaos::group::{Group, Member, Rejoin};
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

fn whole(group: &Group) -> usize {
    wait_for("a whole group", || {
        group.check_whole().map_err(|error| format!("{error:#}"))
    })
}

/// Waits until the group is not whole, for a reason with these words.
fn not_whole(group: &Group, words: &str) {
    wait_for(words, || match group.check_whole() {
        Err(error) if format!("{error:#}").contains(words) => Ok(()),
        Err(error) => Err(format!("{error:#}")),
        Ok(_) => Err("it is whole".to_owned()),
    });
}

fn start() -> Group {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Group::start(&find_program().unwrap(), Fsync::EverySec, loopback, None).unwrap()
}

#[test]
fn a_group_without_one_of_its_members_is_not_whole() {
    let mut group = start();
    let master = whole(&group);
    let replica = group.replicas().unwrap()[0];
    for (member, words) in [
        (Member::Server(replica), "as \"s_down,slave\""),
        (Member::Sentinel(2), "as \"s_down,sentinel\""),
    ] {
        group.process(member).pause().unwrap();
        not_whole(&group, words);
        group.process(member).resume().unwrap();
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
        group.process(Member::Server(old)).kill9();
        let new = wait_for("another master", || match group.master() {
            Ok(master) if master != old => Ok(master),
            other => Err(format!("{other:?}")),
        });
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
