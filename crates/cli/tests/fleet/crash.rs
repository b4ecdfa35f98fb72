//! Every message ends exactly once, whatever crashes.

use baton::inspect::NodeRole;
use baton_log::LogEvent;
use baton_processes::{Fleet, History};
use baton_server::PrivateServer;

use crate::support::{
    TIMEOUT, assert_each_once, durable_server, fleet_of, redis, server, status, wait_for,
    wait_status, workers,
};

/// A small deterministic random source: a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// The copy that holds messages at this moment.
fn wait_holder(fleet: &Fleet, server: &PrivateServer) -> usize {
    let holds = |status: &baton::inspect::Snapshot| {
        status
            .nodes
            .iter()
            .find(|node| node.claimed > 0)
            .map(|node| node.node.clone())
    };
    let status = wait_status(server, "a worker that holds a message", |status| {
        holds(status).is_some()
    });
    let node = holds(&status).unwrap();
    let told = fleet.told();
    told.iter()
        .find(|told| told.node() == node)
        .map(|told| told.copy)
        .unwrap()
}

#[test]
fn generators_and_workers_killed_at_random_under_load_lose_and_repeat_nothing() {
    const MESSAGES: u64 = 60_000;
    const KILLS: usize = 20;
    let server = server();
    let args = "--interval 0 --messages 60000 --max-pending 3000 --work-per-char 1us";
    let mut fleet = fleet_of(5, &server, args);
    let mut dice = Dice(0xba70);
    for kill in 1..=KILLS {
        // Spread over the messages, so that every kill hits a fleet at work.
        let done = MESSAGES * kill as u64 / (KILLS as u64 + 2);
        wait_status(&server, "progress", |status| {
            status.done + status.failed >= done
        });
        let alive = fleet.alive();
        let victim = match dice.roll(3) {
            0 => fleet
                .generator()
                .filter(|copy| alive.contains(copy))
                .unwrap_or(alive[0]),
            _ => alive[dice.roll(alive.len())],
        };
        fleet.kill9(victim).unwrap();
        fleet.start().unwrap();
    }
    assert_each_once(&fleet, &server, MESSAGES);
}

#[test]
fn a_killed_worker_s_message_is_processed_by_another_long_before_its_claim_ends() {
    let server = server();
    let args = "--interval 100ms --work 200ms --claim-ttl 10m --messages 10 --error-rate 0";
    let mut fleet = fleet_of(4, &server, args);
    let holder = wait_holder(&fleet, &server);
    let mark = fleet.mark();
    fleet.kill9(holder).unwrap();
    let back = wait_for(&fleet, mark, "messages taken back", |told| {
        matches!(told.event(), LogEvent::Reclaimed { .. })
    });
    assert!(
        matches!(back.event(), LogEvent::Reclaimed { count: 1, .. }),
        "{back:?}"
    );
    wait_for(&fleet, mark, "a second attempt", |told| {
        matches!(told.event(), LogEvent::Processed { attempt: 2, .. })
    });
    assert_each_once(&fleet, &server, 10);
}

#[test]
fn a_message_whose_workers_lose_it_and_live_is_not_blamed_for_it() {
    let server = server();
    let args = "--interval 10ms --work 2s --claim-ttl 300ms --messages 1 --error-rate 0";
    let fleet = fleet_of(4, &server, args);
    for _ in 0..4 {
        let holder = wait_holder(&fleet, &server);
        let mark = fleet.mark();
        fleet.pause(holder).unwrap();
        wait_for(&fleet, mark, "the message taken back", |told| {
            matches!(told.event(), LogEvent::Reclaimed { .. })
        });
        fleet.resume(holder).unwrap();
    }
    assert_each_once(&fleet, &server, 1);
    let status = status(&server);
    assert_eq!((status.done, status.failed), (1, 0), "{status:?}");
}

#[test]
fn a_worker_paused_past_its_claim_wakes_up_and_its_commit_is_refused() {
    let server = server();
    let args = "--interval 50ms --work 150ms --claim-ttl 600ms --messages 20 --error-rate 0";
    let fleet = fleet_of(4, &server, args);
    let holder = wait_holder(&fleet, &server);
    let mark = fleet.mark();
    fleet.pause(holder).unwrap();
    wait_for(&fleet, mark, "another to process it", |told| {
        matches!(told.event(), LogEvent::Processed { attempt: 2, .. })
    });
    let mark = fleet.mark();
    fleet.resume(holder).unwrap();
    wait_for(&fleet, mark, "its commit to be refused", |told| {
        matches!(told.event(), LogEvent::Lost { .. }) && told.copy == holder
    });
    assert_each_once(&fleet, &server, 20);
}

#[test]
fn all_nodes_killed_and_started_again_go_on_where_they_were() {
    let server = server();
    let args = "--interval 0 --messages 30000 --max-pending 2000";
    let mut fleet = fleet_of(4, &server, args);
    for done in [5_000, 15_000] {
        wait_status(&server, "progress", |status| {
            status.done + status.failed >= done
        });
        for copy in fleet.alive() {
            fleet.pause(copy).unwrap();
        }
        for copy in fleet.alive() {
            fleet.kill9(copy).unwrap();
        }
        let status = status(&server);
        assert!(status.balanced, "{status:?}");
        assert!(
            status.nodes.iter().all(|node| node.role == NodeRole::Dead),
            "{status:?}"
        );
        for _ in 0..4 {
            fleet.start().unwrap();
        }
    }
    assert_each_once(&fleet, &server, 30_000);
}

#[test]
fn the_whole_machine_may_stop_and_nothing_is_lost() {
    let mut server = durable_server();
    let args = "--interval 0 --messages 10000 --max-pending 1000";
    let mut fleet = fleet_of(3, &server, args);
    wait_status(&server, "progress", |status| {
        status.done + status.failed >= 3_000
    });
    for copy in fleet.alive() {
        fleet.pause(copy).unwrap();
    }
    server.kill9();
    for copy in fleet.alive() {
        fleet.kill9(copy).unwrap();
    }
    server.restart().unwrap();
    for _ in 0..3 {
        fleet.start().unwrap();
    }
    assert_each_once(&fleet, &server, 10_000);
}

#[test]
fn two_fleets_side_by_side_never_touch_each_other() {
    let server = server();
    let one = "--fleet one --interval 0 --messages 20000 --error-rate 0";
    let two = "--fleet two --interval 0 --messages 30000 --error-rate 1";
    let mut fleets = [one, two].map(|args| fleet_of(3, &server, args));
    let generator = fleets[0].generator().unwrap();
    fleets[0].kill9(generator).unwrap();
    for ((name, messages, failed), fleet) in [("one", 20_000, 0), ("two", 30_000, 30_000)]
        .into_iter()
        .zip(&fleets)
    {
        let status =
            baton_processes::wait_status(&server.url(), name, TIMEOUT, "all to end", |status| {
                status.done + status.failed == messages
            })
            .unwrap();
        assert!(status.balanced);
        assert_eq!(
            (status.published, status.failed, status.errors),
            (messages, failed, failed)
        );
        let history = History::new(&fleet.told());
        assert_eq!(history.duplicated(), Vec::<u64>::new());
        assert_eq!(history.phantoms(messages), Vec::<u64>::new());
    }
    let mut connection = redis(&server);
    let all: Vec<String> = ::redis::cmd("KEYS")
        .arg("*")
        .query(&mut connection)
        .unwrap();
    let strangers: Vec<_> = all
        .iter()
        .filter(|key| {
            ![
                "baton:{one}:",
                "baton:{one:0}:",
                "baton:{two}:",
                "baton:{two:0}:",
            ]
            .iter()
            .any(|prefix| key.starts_with(prefix))
        })
        .collect();
    assert_eq!(strangers, Vec::<&String>::new());
    assert_eq!(workers(&fleets[1]).len(), 2);
}
