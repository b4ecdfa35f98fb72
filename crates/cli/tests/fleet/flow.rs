//! How messages flow: bounds, backpressure, the errors store, what nodes tell.

use baton::FailedMessage;
use baton_log::LogEvent;
use baton_processes::Told;

use crate::support::{
    TIMEOUT, assert_each_once, fleet_of, messages, replace_generator, server, status, wait_for,
    wait_status, warns,
};

#[test]
fn generating_stops_after_the_given_number_in_total() {
    let server = server();
    let mut fleet = fleet_of(3, &server, "--interval 0 --messages 1234");
    assert_each_once(&fleet, &server, 1234);
    // A successor does not begin anew.
    replace_generator(&mut fleet);
    assert_eq!(status(&server).published, 1234);
}

#[test]
fn a_full_queue_holds_the_generator_back_and_drops_nothing() {
    let server = server();
    let mut fleet = fleet_of(
        1,
        &server,
        "--interval 0 --max-pending 1000 --messages 20000",
    );
    let full = wait_status(&server, "a full queue", |status| status.pending == 1000);
    assert_eq!(full.published, 1000);
    fleet.start_many(2, TIMEOUT).unwrap();
    assert_each_once(&fleet, &server, 20_000);
}

#[test]
fn a_generator_at_full_speed_says_so_when_no_worker_makes_room() {
    let server = server();
    let fleet = fleet_of(1, &server, "--interval 0 --max-pending 3");
    wait_for(&fleet, 0, "the warning", |told| {
        warns(told, "the queue is full (3")
    });
}

#[test]
fn a_generator_that_a_full_queue_keeps_from_its_schedule_says_so() {
    let server = server();
    let fleet = fleet_of(1, &server, "--interval 5ms --max-pending 3");
    wait_for(&fleet, 0, "a warning", |told| {
        warns(told, "the queue is full (")
    });
    // A generator that is late sends several messages at once, for which there may be no room.
    let published = status(&server).published;
    assert!((1..=3).contains(&published), "{published}");
}

#[test]
fn a_full_errors_store_is_an_error_and_no_failed_message_is_dropped() {
    let server = server();
    let args = "--interval 0 --error-rate 1 --max-errors 100 --messages 250 --max-pending 60";
    let fleet = fleet_of(3, &server, args);
    wait_for(&fleet, 0, "a warning", |told| warns(told, "getErrors"));
    let mut taken = 0;
    while taken < 250 {
        let status = status(&server);
        assert!(status.errors <= 100 && status.balanced, "{status:?}");
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_baton"))
            .args(["getErrors", "--redis", &server.url()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        taken += output.stdout.iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(taken, 250);
    let status = status(&server);
    assert_eq!((status.failed, status.done, status.errors), (250, 0, 0));
}

#[test]
fn about_five_percent_fail_and_all_of_them_are_in_the_errors_store() {
    const MESSAGES: u64 = 20_000;
    let server = server();
    let fleet = fleet_of(3, &server, "--interval 0 --messages 20000");
    assert_each_once(&fleet, &server, MESSAGES);
    let status = status(&server);
    // Six standard deviations of the binomial around 1000.
    assert!(status.failed.abs_diff(1000) < 185, "{}", status.failed);
    let history = baton_processes::History::new(&fleet.told());
    assert_eq!(history.failed().len() as u64, status.failed);
    assert_eq!(history.processed(), MESSAGES);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["getErrors", "--json", "--redis", &server.url()])
        .output()
        .unwrap();
    let mut printed: Vec<u64> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let failed: FailedMessage = serde_json::from_str(line).unwrap();
            failed.seq
        })
        .collect();
    printed.sort_unstable();
    assert_eq!(printed, history.failed());
}

#[test]
fn workers_share_slow_work_and_none_sits_on_more_than_it_can_do() {
    let server = server();
    let args = "--interval 0 --messages 400 --work 10ms --concurrency 4 --error-rate 0";
    let fleet = fleet_of(4, &server, args);
    assert_each_once(&fleet, &server, 400);
    let mut per_copy = std::collections::BTreeMap::new();
    for told in fleet.told().iter().filter(|told| told.is_processed()) {
        let (first, last) = messages(told);
        let size = last - first + 1;
        // 40 ms of work at a time, once a lane knows its handler; a little more on a busy machine.
        assert!(size <= 10, "{size} messages of 10 ms in one claim");
        *per_copy.entry(told.copy).or_insert(0) += size;
    }
    assert_eq!(per_copy.len(), 3);
    assert!(per_copy.values().all(|count| *count >= 60), "{per_copy:?}");
}

#[test]
fn a_slow_handler_keeps_its_claim_for_as_long_as_it_lives() {
    let server = server();
    // Each message takes three times the claim's time to live, which is long enough for a busy
    // machine to say in time that the handler lives.
    let args = "--interval 20ms --messages 6 --work 4500ms --claim-ttl 1500ms";
    let fleet = fleet_of(4, &server, args);
    assert_each_once(&fleet, &server, 6);
    let told = fleet.told();
    let first_attempts = told
        .iter()
        .filter(|told| matches!(told.event(), LogEvent::Processed { attempt: 1, .. }));
    assert_eq!(first_attempts.count(), 6);
    assert!(told.iter().all(|told| !matches!(
        told.event(),
        LogEvent::Lost { .. } | LogEvent::Reclaimed { .. }
    )));
}

#[test]
fn handling_takes_time_in_proportion_to_the_text() {
    let server = server();
    let args = "--interval 0 --messages 10 --work-per-char 5ms --error-rate 0";
    let mut fleet = fleet_of(1, &server, args);
    wait_for(&fleet, 0, "all published", Told::is_published);
    let mut connection = crate::support::redis(&server);
    let pack: Vec<u8> =
        redis::Commands::get(&mut connection, crate::support::keys().pack_key(1)).unwrap();
    let chars: usize = baton_protocol::Pack::parse(&pack)
        .unwrap()
        .texts
        .iter()
        .map(|text| text.len())
        .sum();
    let began = std::time::Instant::now();
    fleet.start_many(1, TIMEOUT).unwrap();
    assert_each_once(&fleet, &server, 10);
    let least = std::time::Duration::from_millis(5) * chars as u32;
    assert!(
        began.elapsed() >= least,
        "{:?} for {chars} characters",
        began.elapsed()
    );
}

#[test]
fn a_worker_that_becomes_the_generator_begins_no_further_message() {
    let server = server();
    let mut fleet = fleet_of(4, &server, "--interval 0 --messages 400 --work 5ms");
    wait_status(&server, "work", |status| status.done > 20);
    let first = fleet.generator().unwrap();
    fleet.kill9(first).unwrap();
    assert_each_once(&fleet, &server, 400);
    let told = fleet.told();
    let of = |copy| told.iter().filter(move |told| told.copy == copy);
    assert_eq!(of(first).filter(|told| told.is_processed()).count(), 0);
    // What it had begun when it was elected, it may finish: one claim.
    let second = fleet.generator().unwrap();
    assert_ne!(first, second);
    let after = of(second).skip_while(|told| !told.is_generator());
    assert!(after.filter(|told| told.is_processed()).count() <= 1);
}
