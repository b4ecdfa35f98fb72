//! Lost messages, and what can be lost, on the page.

use serde_json::json;

use crate::devtools::Browser;
use crate::support::{Page, PlantedNode, Replicated, fleet_of, lose, server, wait_status};
use crate::tab::Tab;

#[test]
fn lost_messages_are_red_in_the_books_and_the_fleet_is_well() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    lose(&server, 12);
    let _fleet = fleet_of(2, &server, "--interval 20ms --error-rate 0");
    wait_status(&server, "work", |status| status.done > 0);
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the loss, and good health",
        "document.querySelector('#books').dataset.state === 'lost'
            && document.querySelector('#health').dataset.state === 'well'",
    );
    assert_eq!(
        tab.text("#lost"),
        "12 messages that Redis acknowledged are lost: a failover, restart or flush forgot them"
    );
    assert_eq!(tab.text("#void"), "12");
    assert_eq!(tab.text("#equals"), "=");
    let colours = tab.eval(
        "['#lost', '#void', '#books .verdict']
            .map((name) => getComputedStyle(document.querySelector(name)).color)",
    );
    let red = "rgb(185, 28, 28)";
    assert_eq!(colours, json!([red, red, red]));
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn a_fleet_that_lost_nothing_has_no_word_of_it() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let _fleet = fleet_of(2, &server, "--interval 20ms --error-rate 0");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the books",
        "document.querySelector('#books').dataset.state === 'balanced'",
    );
    let seen = tab.eval(
        "['#lost', '#void-part', '#replicas li']
            .map((name) => document.querySelector(name)?.checkVisibility() ?? false)",
    );
    assert_eq!(seen, json!([false, false, false]));
}

#[test]
fn the_page_says_what_the_nodes_wait_for_and_how_each_replica_follows() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let group = Replicated::start(2);
    let reason = "<img src=x onerror=window.pwned=1>";
    let _node = PlantedNode::start(&group.server, "a", "replicas:2", Some(reason));
    let page = Page::start(&group.server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the durability",
        "!document.querySelector('#durability').hidden
            && document.querySelectorAll('#replicas li').length === 2",
    );
    assert_eq!(
        tab.text("#durability"),
        "Durability replicas:2: a failover to any of the 2 replicas loses nothing confirmed"
    );
    assert_eq!(
        tab.eval(
            "[...document.querySelectorAll('#replicas li')].every(({ textContent }) =>
                /^replica 127.0.0.1:\\d+: \\d+ bytes unacknowledged, last heard \\d s ago$/.test(textContent))"
        ),
        json!(true)
    );
    assert_eq!(
        tab.text("#troubles li"),
        format!("the writes of a are not confirmed: {reason}")
    );
    assert_eq!(tab.eval("typeof window.pwned"), json!("undefined"));
    assert_eq!(tab.errors(), Vec::<String>::new());
}
