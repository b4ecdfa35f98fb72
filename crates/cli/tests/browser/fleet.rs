//! What the page shows of a fleet, and how soon.

use std::path::Path;
use std::time::{Duration, Instant};

use baton_processes::{Fleet, Told};
use baton_server::{Fsync, PrivateServer};
use serde_json::json;

use crate::devtools::Browser;
use crate::support::{Page, fleet_of, server, status, wait_for, wait_status};
use crate::tab::Tab;

/// The longest time from a kill to the new name on the page.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// The name of the node that generates, as it told.
fn generator(fleet: &Fleet) -> String {
    let told = fleet.told();
    let last = told.iter().rev().find(|told| told.is_generator());
    last.unwrap().node().to_owned()
}

#[test]
fn the_page_shows_the_fleet_without_an_error() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let fleet = fleet_of(3, &server, "--interval 20ms --error-rate 0");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);

    tab.wait_until(
        "the generator",
        "document.querySelector('#generator').textContent !== 'none'",
    );
    assert_eq!(tab.text("#generator"), generator(&fleet));
    tab.wait_until(
        "all nodes, balanced books and good health",
        "document.querySelectorAll('#nodes tr[data-node]').length === 3
            && document.querySelector('#books').dataset.state === 'balanced'
            && document.querySelector('#health').dataset.state === 'well'",
    );
    let books = status(&server);
    assert_eq!(tab.text("#epoch"), books.generator.epoch.to_string());
    let names: Vec<_> = books.nodes.iter().map(|node| node.node.as_str()).collect();
    let rows =
        "[...document.querySelectorAll('#nodes tr[data-node]')].map((row) => row.dataset.node)";
    assert_eq!(tab.eval(&format!("{rows}.sort()")), json!(names));
    let versions =
        "[...document.querySelectorAll('#nodes td.version')].map((cell) => cell.textContent)";
    assert_eq!(
        tab.eval(versions),
        json!(vec![env!("CARGO_PKG_VERSION"); 3])
    );
    // This server keeps nothing on disk, which the page has to say.
    assert!(!books.warnings.is_empty());
    assert_eq!(
        tab.eval("document.querySelectorAll('#warnings li').length"),
        json!(books.warnings.len())
    );
    assert_eq!(
        tab.eval("document.querySelector('#stale').hidden"),
        json!(true)
    );
    tab.wait_until(
        "a picture in each chart",
        "document.querySelectorAll('.charts canvas').length === 3",
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn a_pause_is_on_the_page_until_it_ends_and_the_fleet_stays_well() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let _fleet = fleet_of(3, &server, "--interval 20ms --error-rate 0");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "good health",
        "document.querySelector('#health').dataset.state === 'well'",
    );
    assert_eq!(
        tab.eval("document.querySelector('#paused').hidden"),
        json!(true)
    );
    let baton = |args: &str| {
        let mut command = baton_processes::command(Path::new(env!("CARGO_BIN_EXE_baton")));
        command.args(["--redis", &server.url()]);
        let output = command.args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    baton("pause workers");
    tab.wait_until(
        "the pause of the workers",
        "document.querySelector('#paused').textContent.startsWith('The workers are paused since ')",
    );
    baton("pause generator");
    tab.wait_until(
        "both pauses",
        "/^The generator is paused since .*, the workers are paused since .* To go on: baton resume$/
            .test(document.querySelector('#paused').textContent)",
    );
    assert_eq!(
        tab.eval("document.querySelector('#health').dataset.state"),
        json!("well")
    );
    baton("resume");
    tab.wait_until(
        "the end of the pause",
        "document.querySelector('#paused').hidden",
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn delayed_messages_are_in_the_books_with_the_time_of_the_next_attempt() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let args = "--interval 20ms --messages 20 --backoff 40m..50m -- false";
    let _fleet = fleet_of(2, &server, args);
    wait_status(&server, "all to wait", |status| status.delayed == 20);
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the books",
        "document.querySelector('#books').dataset.state === 'balanced'",
    );
    let counters = tab.eval(
        "['published', 'retried', 'done', 'failed-count', 'pending', 'claimed', 'delayed']
            .map((id) => document.getElementById(id).textContent)",
    );
    assert_eq!(counters, json!(["20", "0", "0", "0", "0", "0", "20"]));
    let words = tab.text("#next-due");
    let begin = "20 wait for their next attempts, the first in ";
    assert!(
        words.starts_with(begin) && words.contains(" min"),
        "{words}"
    );
    tab.wait_until(
        "them in the chart",
        "/delayed 20/.test(document.querySelector('#chart-backlog').textContent)",
    );
    assert_eq!(
        tab.eval("document.querySelector('#next-due').checkVisibility()"),
        json!(true)
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn a_handler_that_cannot_work_is_named_with_its_reason_as_text() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let program = "/missing/<img/src=x/onerror=window.pwned=1>";
    let fleet = fleet_of(2, &server, &format!("--interval 20ms -- {program}"));
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the handler",
        "document.querySelectorAll('#troubles li').length === 1",
    );
    let mut names = fleet.told();
    names.retain(|told| told.node() != generator(&fleet));
    let worker = names[0].node();
    assert_eq!(
        tab.text("#troubles li"),
        format!(
            "the handler of {worker} cannot work: cannot start {program}: No such file or \
             directory (os error 2)"
        )
    );
    tab.wait_until(
        "the fleet to be unhealthy",
        "document.querySelector('#health').dataset.state === 'unhealthy'
            && /no worker's handler could work/.test(document.querySelector('#health').textContent)",
    );
    assert_eq!(tab.eval("typeof window.pwned"), json!("undefined"));
    assert_eq!(
        tab.eval("document.querySelectorAll('#troubles img').length"),
        json!(0)
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn a_killed_generator_is_seen_within_two_seconds() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let mut fleet = fleet_of(3, &server, "--interval 20ms");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    let dead = generator(&fleet);
    let shown = json!(dead);
    tab.wait_until(
        "the first generator",
        &format!("document.querySelector('#generator').textContent === {shown}"),
    );
    assert_eq!(epochs(&tab), ["1"]);

    let copy = fleet.generator().unwrap();
    let mark = fleet.mark();
    let killed = Instant::now();
    fleet.kill9(copy).unwrap();
    let seen = tab.wait_until(
        "another generator",
        &format!("!['none', {shown}].includes(document.querySelector('#generator').textContent)"),
    );
    let took = seen - killed;
    assert!(took <= SEEN_WITHIN, "{took:?}");

    wait_for(&fleet, mark, "its word", Told::is_generator);
    assert_eq!(tab.text("#generator"), generator(&fleet));
    assert_eq!(tab.text("#epoch"), "2");
    assert_eq!(epochs(&tab), ["1", "2"]);
    let words = tab.text("#takeovers li");
    let tale = format!("{} took over from {dead}", generator(&fleet));
    assert!(words.contains(&tale), "{words}");

    // The next one stops in good order.
    let last = generator(&fleet);
    let copy = fleet.generator().unwrap();
    let mark = fleet.mark();
    fleet.terminate(copy).unwrap();
    wait_for(&fleet, mark, "its heir", Told::is_generator);
    tab.wait_until(
        "the third",
        "document.querySelector('#epoch').textContent === '3'",
    );
    let words = tab.text("#takeovers li");
    let tale = format!("{} took over from {last}", generator(&fleet));
    assert!(
        words.contains(&tale) && words.contains("resigned"),
        "{words}"
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

/// The epochs of the timeline's segments, in order.
#[track_caller]
fn epochs(tab: &Tab) -> Vec<String> {
    let segments = tab.eval(
        "[...document.querySelectorAll('#timeline [data-epoch]')]
            .map((segment) => segment.dataset.epoch).sort((a, b) => a - b)",
    );
    serde_json::from_value(segments).unwrap()
}

#[test]
fn without_redis_the_page_keeps_what_it_knows_and_says_that_it_is_old() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let mut server = PrivateServer::builder()
        .appendonly(Fsync::Always)
        .start()
        .unwrap();
    let fleet = fleet_of(2, &server, "--interval 20ms");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    let shown = json!(generator(&fleet));
    let fresh = format!(
        "document.querySelector('#generator').textContent === {shown}
            && document.querySelector('#books').dataset.state === 'balanced'
            && document.querySelector('#stale').hidden"
    );
    tab.wait_until("the fleet", &fresh);
    // Until it has read the failed messages once, the page asks for them also without Redis.
    tab.wait_until(
        "the failed messages",
        "/looked at/.test(document.querySelector('#look').textContent)",
    );

    server.kill9();
    tab.wait_until(
        "the page to be stale",
        "document.querySelector('#stale').checkVisibility()
            && document.querySelector('#stale').textContent.trim() !== ''",
    );
    assert_eq!(json!(tab.text("#generator")), shown);
    assert_eq!(
        tab.eval("document.querySelectorAll('#nodes tr[data-node]').length"),
        json!(2)
    );

    server.restart().unwrap();
    tab.wait_until(
        "the page to be fresh again",
        "document.querySelector('#stale').hidden
            && document.querySelector('#generator').textContent !== 'none'
            && document.querySelector('#books').dataset.state === 'balanced'",
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}
