//! A failover that loses writes: the master acknowledged them while no replica could have them.

use std::collections::BTreeSet;

use baton_log::LogEvent;
use baton_processes::{Fleet, History, Told};
use baton_server::{PrivateServer, SentinelGroup};

use crate::support::{fleet_at, keys, messages, redis, wait_for, wait_until, warns};

struct Lossy {
    group: SentinelGroup,
    fleet: Fleet,
    /// The master at the beginning.
    old: usize,
}

impl Lossy {
    /// A fleet of three on a master with two replicas.
    fn start(args: &str) -> Self {
        let group = SentinelGroup::start(&PrivateServer::builder(), 2).unwrap();
        let fleet = fleet_at(3, &group.url(), args);
        let old = group.agreed_master().unwrap();
        Self { group, fleet, old }
    }

    /// The replicas hang, and the master loses them: they get nothing more from it. Returns the last number
    /// that one of them may have. What nodes tell from here on may be older: they tell it late.
    fn pause_replicas(&mut self) -> u64 {
        self.each_replica(|replica| replica.pause().unwrap());
        let mut kill = ::redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("replica");
        let mut master = redis(&self.group.servers[self.old]);
        let lost: u64 = kill.query(&mut master).unwrap();
        assert_eq!(lost, 2);
        let mut last = ::redis::cmd("HGET");
        last.arg(keys().fence).arg("last");
        last.query(&mut master).unwrap()
    }

    fn resume_replicas(&mut self) {
        self.each_replica(|replica| replica.resume().unwrap());
    }

    fn each_replica(&mut self, change: impl Fn(&mut PrivateServer)) {
        let servers = self.group.servers.iter_mut().enumerate();
        for (_, replica) in servers.filter(|(server, _)| *server != self.old) {
            change(replica);
        }
    }

    /// The master dies, and one of the replicas takes its place without what it missed. Returns where the
    /// log was then.
    fn fail_over(&mut self) -> usize {
        self.group.servers[self.old].kill9();
        let mark = self.fleet.mark();
        self.resume_replicas();
        wait_until("another master", || {
            let master = self.group.master();
            master.is_some() && master != Some(self.old)
        });
        mark
    }

    /// What nodes of this fleet said since `mark` that Redis forgot.
    fn regressed(&self, mark: usize) -> BTreeSet<u64> {
        let told = self.fleet.told_since(mark);
        let ranges = told.iter().filter_map(|told| match *told.event() {
            LogEvent::Regressed { first, last } => Some(first..=last),
            _ => None,
        });
        ranges.flatten().collect()
    }
}

fn is_void(told: &Told) -> bool {
    matches!(told.event(), LogEvent::Void { .. })
}

/// The numbers that an event is about.
fn numbers(told: &Told) -> std::ops::RangeInclusive<u64> {
    match *told.event() {
        LogEvent::Void { first, last } => first..=last,
        _ => messages(told).0..=messages(told).1,
    }
}

fn published(told: &[Told]) -> BTreeSet<u64> {
    let published = told.iter().filter(|told| told.is_published());
    published.flat_map(numbers).collect()
}

#[test]
fn what_a_failover_forgot_is_named_and_comes_again_under_its_number_or_is_void() {
    let mut lossy = Lossy::start("--interval 5ms");
    wait_for(&lossy.fleet, 0, "messages", |told| told.covers(50));
    let last = lossy.pause_replicas();
    let lost = last + 1..=last + 20;
    wait_for(&lossy.fleet, 0, "messages that are lost", |told| {
        told.is_published() && told.covers(*lost.end())
    });
    let mark = lossy.fail_over();
    let behind = |told: &Told| told.is_processed() && messages(told).0 > *lost.end();
    wait_for(&lossy.fleet, mark, "an end behind them", behind);
    let forgotten = lossy.regressed(0);
    assert!(lost.clone().all(|seq| forgotten.contains(&seq)));
    let told = lossy.fleet.told();
    let history = History::new(&told);
    assert_eq!(history.published_twice(), Vec::<u64>::new());
    // The generator sends them again, unless it came back too late to keep its lease.
    let again = lossy.fleet.told_since(mark);
    let again = again
        .iter()
        .filter(|told| told.is_processed() || is_void(told));
    let settled: BTreeSet<u64> = again.flat_map(numbers).collect();
    assert!(lost.clone().all(|seq| settled.contains(&seq)));
}

#[test]
fn a_number_that_died_with_its_generator_and_the_master_gets_no_other_text() {
    let mut lossy = Lossy::start("--interval 5ms");
    wait_for(&lossy.fleet, 0, "messages", |told| told.covers(50));
    let lost = lossy.pause_replicas();
    wait_for(&lossy.fleet, 0, "messages that are lost to end", |told| {
        told.is_processed() && told.covers(lost + 20)
    });
    let generator = lossy.fleet.generator().unwrap();
    lossy.fleet.kill9(generator).unwrap();
    let _ = lossy.fail_over();
    let before = lossy.fleet.told();
    let mark = lossy.fleet.mark();
    let next = wait_for(&lossy.fleet, mark, "a message", Told::is_published);
    assert!(messages(&next).0 > lost + 20);
    assert!(lossy.fleet.told().iter().any(is_void));
    let forgotten = lossy.regressed(0);
    assert!((lost + 1..=lost + 20).all(|seq| forgotten.contains(&seq)));
    // The dead generator alone may have known of its last number.
    let twice = published(&before)
        .intersection(&published(&lossy.fleet.told_since(mark)))
        .count();
    assert!(twice <= 1, "{twice} numbers have two texts");
}

#[test]
fn nothing_that_two_replicas_have_confirmed_is_lost() {
    let mut lossy = Lossy::start("--interval 5ms --durability replicas:2");
    wait_for(&lossy.fleet, 0, "messages", |told| told.covers(50));
    let _ = lossy.pause_replicas();
    // The fleet says so, and tells nothing that the replicas do not have.
    let mark = lossy.fleet.mark();
    wait_for(&lossy.fleet, mark, "a warning", |told| {
        warns(told, "of 2 replicas have the last writes")
    });
    let mark = lossy.fleet.mark();
    wait_for(&lossy.fleet, mark, "another node's", |told| {
        warns(told, "of 2 replicas have the last writes")
    });
    let told = lossy.fleet.told_since(mark);
    assert_eq!(published(&told), BTreeSet::new());
    let failover = lossy.fail_over();
    let old = lossy.old;
    lossy.group.servers[old].restart().unwrap();
    let mark = lossy.fleet.mark();
    let next = wait_for(&lossy.fleet, mark, "a message", Told::is_published);
    let next = messages(&next).1;
    // A worker may say that a message ended before the generator says that it is published.
    wait_for(&lossy.fleet, failover, "its end", |told| {
        told.is_processed() && told.covers(next)
    });
    assert_eq!(lossy.regressed(0), BTreeSet::new());
    let told = lossy.fleet.told();
    assert!(!told.iter().any(is_void));
    let history = History::new(&told);
    assert_eq!(history.published_twice(), Vec::<u64>::new());
    assert_eq!(history.duplicated(), Vec::<u64>::new());
}
