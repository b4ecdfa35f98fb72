//! Stopping in good order.

use baton_log::LogEvent;

use crate::support::{
    assert_each_once, fleet_of, server, status, wait_claimed, wait_for, wait_status, workers,
};

#[test]
fn a_stopping_worker_finishes_its_message() {
    let server = server();
    let args = "--interval 50ms --work 400ms --messages 6 --error-rate 0 --claim-ttl 10m";
    let mut fleet = fleet_of(3, &server, args);
    let busy = workers(&fleet);
    wait_status(&server, "both to be busy", |status| status.claimed >= 2);
    let mark = fleet.mark();
    fleet.terminate(busy[0]).unwrap();
    assert_eq!(fleet.wait(busy[0]).unwrap(), Some(0));
    let told = fleet.told();
    let finished = told[mark..]
        .iter()
        .filter(|told| told.copy == busy[0] && told.is_processed())
        .count();
    assert!(finished >= 1, "{:?}", &told[mark..]);
    assert_eq!(
        told.iter()
            .rev()
            .find(|told| told.copy == busy[0])
            .unwrap()
            .event(),
        &LogEvent::Stopped
    );
    assert_each_once(&fleet, &server, 6);
}

#[test]
fn a_stopping_worker_gives_back_what_it_cannot_finish_without_blame() {
    let server = server();
    let args = "--interval 50ms --work 10m --messages 1 --claim-ttl 10m";
    let mut fleet = fleet_of(2, &server, args);
    let worker = workers(&fleet)[0];
    wait_claimed(&server, 1);
    fleet.terminate(worker).unwrap();
    assert_eq!(fleet.wait(worker).unwrap(), Some(0));
    let status = status(&server);
    assert_eq!(
        (status.pending, status.claimed, status.done, status.failed),
        (1, 0, 0, 0)
    );
    let queue: Vec<String> = redis::Commands::lrange(
        &mut crate::support::redis(&server),
        crate::support::keys().queue,
        0,
        -1,
    )
    .unwrap();
    assert_eq!(queue, ["1 1 1 1 0"]);
}

#[test]
fn a_second_signal_ends_a_node_at_once() {
    let server = server();
    let mut fleet = fleet_of(2, &server, "--interval 50ms --work 10m --messages 1");
    let worker = workers(&fleet)[0];
    wait_claimed(&server, 1);
    let began = std::time::Instant::now();
    // Two signals of one kind at the same moment would count as one.
    fleet.terminate(worker).unwrap();
    fleet.interrupt_copy(worker).unwrap();
    let code = fleet.wait(worker).unwrap();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    // Long before the five seconds that a handler is given.
    assert!(began.elapsed() < std::time::Duration::from_secs(4));
}

#[test]
fn a_node_that_is_stopped_while_redis_is_away_ends_within_its_grace() {
    let mut server = server();
    let mut fleet = fleet_of(2, &server, "--interval 10ms --concurrency 16");
    let mark = fleet.mark();
    server.kill9();
    for copy in fleet.alive() {
        wait_for(&fleet, mark, "it to miss Redis", |told| {
            told.copy == copy && matches!(told.event(), LogEvent::Redis { .. })
        });
    }
    let began = std::time::Instant::now();
    for copy in fleet.alive() {
        fleet.terminate(copy).unwrap();
    }
    for copy in fleet.alive() {
        assert_eq!(fleet.wait(copy).unwrap(), Some(0));
    }
    // Five seconds for what is held, two to say goodbye; not once per lane or per try.
    let took = began.elapsed();
    assert!(took < std::time::Duration::from_millis(9500), "{took:?}");
}
