//! Pictures of the page for the documents.

use std::path::PathBuf;
use std::time::Duration;

use baton_server::{Fsync, PrivateServer};
use serde_json::json;

use crate::devtools::Browser;
use crate::support::{Page, PlantedNode, Replicated, failure, fleet_of, lose, push, status};
use crate::tab::Tab;

/// Reasons beside the one that the program pretends.
const REASONS: &[(&str, &str)] = &[
    ("the amount is negative", "order 7141: -12.50 EUR"),
    ("nobody has this number", "notify customer 20417"),
    ("the amount is negative", "order 7156: -3.00 EUR"),
];

#[test]
#[ignore = "makes pictures; BATON_SHOTS is the whole path of their folder"]
fn pictures_of_a_take() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let folder = folder();
    let server = PrivateServer::builder().start().unwrap();
    for (seq, (reason, text)) in (1_u64..).zip(REASONS) {
        push(&server, &[failure(seq, reason, text)]);
    }
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    tab.save_nothing();
    tab.wait_until(
        "the failed messages",
        "document.querySelectorAll('#failed [data-id]').length === 3",
    );
    tab.click("#take-all");
    tab.wait_until("the question", "document.querySelector('#taken').open");
    for (name, width, height, scheme) in [
        ("take-light.png", 1000, 700, "light"),
        ("take-dark.png", 1000, 700, "dark"),
        ("take-narrow.png", 320, 640, "light"),
    ] {
        tab.resize(width, height, width < 800);
        tab.prefer(scheme);
        tab.screenshot(&folder.join(name));
    }
}

#[test]
#[ignore = "makes pictures; BATON_SHOTS is the whole path of their folder"]
fn pictures_of_a_fleet_whose_handlers_fail() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let folder = folder();
    let server = PrivateServer::builder().start().unwrap();
    let failing = "--interval 100ms --attempts 3 --backoff 3s..20s -- false";
    let mut fleet = fleet_of(3, &server, failing);
    let _broken = fleet_of(1, &server, "-- ./handle.sh");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    // The charts get a point every second.
    fleet.watch_for(Duration::from_secs(30)).unwrap();
    fleet.kill9(fleet.generator().unwrap()).unwrap();
    fleet.watch_for(Duration::from_secs(5)).unwrap();
    tab.click("[data-minutes='1']");
    tab.call("Emulation.setScrollbarsHidden", json!({"hidden": true}));
    for (name, width, height, scheme) in [
        ("delayed-light.png", 1280, 1500, "light"),
        ("delayed-dark.png", 1280, 1500, "dark"),
        ("delayed-wide.png", 1840, 1500, "light"),
        ("delayed-phone.png", 360, 1700, "light"),
    ] {
        tab.resize(width, height, width < 800);
        tab.prefer(scheme);
        tab.wait_until(
            "the charts to fit",
            "[...document.querySelectorAll('.charts canvas')]
                .every((chart) => chart.getBoundingClientRect().right <= innerWidth)",
        );
        tab.screenshot(&folder.join(name));
    }
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
#[ignore = "makes pictures; BATON_SHOTS is the whole path of their folder"]
fn pictures_of_a_fleet_that_lost_messages() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let folder = folder();
    let group = Replicated::start(2);
    lose(&group.server, 12);
    let reason = "1 of 3 replicas have the writes";
    let _node = PlantedNode::start(&group.server, "planted", "replicas:3", Some(reason));
    let fleet = fleet_of(3, &group.server, "--interval 20ms --error-rate 0");
    let page = Page::start(&group.server, &[]);
    let tab = Tab::open(&browser, &page.url);
    // The charts get a point every second.
    fleet.watch_for(Duration::from_secs(10)).unwrap();
    for (name, width, height, scheme) in [
        ("lost-light.png", 1280, 900, "light"),
        ("lost-dark.png", 1280, 900, "dark"),
        ("lost-phone.png", 360, 1500, "light"),
    ] {
        tab.resize(width, height, width < 800);
        tab.prefer(scheme);
        tab.screenshot(&folder.join(name));
    }
}

/// Where pictures go.
fn folder() -> PathBuf {
    let folder = std::env::var_os("BATON_SHOTS").unwrap_or(env!("CARGO_TARGET_TMPDIR").into());
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
#[ignore = "makes pictures, in a minute; BATON_SHOTS is the whole path of their folder"]
fn pictures_of_a_lively_fleet() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let folder = folder();
    let server = PrivateServer::builder()
        .appendonly(Fsync::Always)
        .start()
        .unwrap();
    let mut fleet = fleet_of(5, &server, "--interval 20ms --work 30ms --error-rate 0.004");
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    let now_ms = status(&server).now_ms;
    for (seq, (reason, text)) in (1_u64..).zip(REASONS) {
        let mut failed = failure(seq, reason, text);
        failed.at_ms = now_ms;
        push(&server, &[failed]);
    }
    // The charts get a point every second.
    fleet.watch_for(Duration::from_secs(20)).unwrap();
    fleet.kill9(fleet.generator().unwrap()).unwrap();
    fleet.start().unwrap();
    fleet.watch_for(Duration::from_secs(15)).unwrap();
    fleet.terminate(fleet.generator().unwrap()).unwrap();
    fleet.start().unwrap();
    fleet.watch_for(Duration::from_secs(20)).unwrap();
    tab.click("[data-minutes='1']");
    tab.click("#look-again");
    tab.wait_until(
        "failed messages for more than one reason",
        "document.querySelectorAll('#reasons button[data-reason]').length > 2",
    );
    tab.call("Emulation.setScrollbarsHidden", json!({"hidden": true}));
    for (name, width, height, scheme) in [
        ("page-light.png", 1280, 1500, "light"),
        ("page-dark.png", 1280, 1500, "dark"),
        ("page-phone.png", 390, 844, "light"),
    ] {
        tab.resize(width, height, width < 800);
        tab.prefer(scheme);
        tab.wait_until(
            "the charts to fit",
            "[...document.querySelectorAll('.charts canvas')]
                .every((chart) => chart.getBoundingClientRect().right <= innerWidth)",
        );
        tab.screenshot(&folder.join(name));
    }
    assert_eq!(tab.errors(), Vec::<String>::new());
}
