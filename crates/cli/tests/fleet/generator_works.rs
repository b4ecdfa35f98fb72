//! A fleet of one or two processes.

use baton::inspect::{NodeRole, Snapshot};
use baton_log::LogEvent;

use crate::support::{assert_each_once, fleet_of, server, status, wait_for, wait_status};

const NO_WORKER: &str =
    "no worker: messages wait; start another copy or use --generator-works alone";

#[test]
fn a_fleet_of_one_handles_its_messages_though_it_is_killed_and_started_again() {
    let server = server();
    let args = "--generator-works alone --interval 5ms --work 20ms --concurrency 2 --messages 600";
    let mut fleet = fleet_of(1, &server, args);
    let mut mark = 0;
    for copy in 0..4 {
        wait_for(&fleet, mark, "work", |told| told.is_processed());
        fleet.kill9(copy).unwrap();
        mark = fleet.mark();
        assert_eq!(fleet.start().unwrap(), copy + 1);
    }
    assert_each_once(&fleet, &server, 600);
}

#[test]
fn copies_that_all_may_work_end_each_message_once_while_generators_are_killed() {
    for works in ["alone", "always"] {
        let server = server();
        let args = format!("--generator-works {works} --interval 2ms --messages 1000");
        let mut fleet = fleet_of(2, &server, &args);
        for _ in 0..3 {
            let mark = fleet.mark();
            let generator = fleet.wait_generator(crate::support::TIMEOUT).unwrap();
            fleet.kill9(generator).unwrap();
            fleet.start().unwrap();
            wait_for(&fleet, mark, "a new generator", |told| {
                matches!(told.event(), LogEvent::Generator { .. })
            });
        }
        assert_each_once(&fleet, &server, 1000);
    }
}

#[test]
fn a_generator_without_a_worker_names_the_flag_that_helps_and_does_so_once() {
    let server = server();
    let mut fleet = fleet_of(1, &server, "--interval 50ms");
    let is_said = |told: &baton_processes::Told| matches!(told.event(), LogEvent::Warning { text } if text == NO_WORKER);
    wait_for(&fleet, 0, "the warning", is_said);
    // A worker that comes, stays until the generator has beaten beside it, and goes.
    let (mark, worker) = (fleet.mark(), fleet.start().unwrap());
    wait_for(&fleet, mark, "work", |told| told.is_processed());
    let generator_seen = |at: &Snapshot| {
        let mut nodes = at.nodes.iter();
        nodes
            .find(|node| node.role == NodeRole::Generator)
            .map(|node| node.seen_ms)
    };
    let beaten = generator_seen(&status(&server));
    wait_status(&server, "a beat", |at| generator_seen(at) > beaten);
    fleet.terminate(worker).unwrap();
    wait_for(&fleet, mark, "the warning again", is_said);
    let said = fleet.told().iter().filter(|told| is_said(told)).count();
    assert_eq!(said, 2);
}
