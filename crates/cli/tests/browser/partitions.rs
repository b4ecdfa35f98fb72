//! The page of a fleet of several partitions.

use serde_json::json;

use crate::devtools::Browser;
use crate::support::{Page, fleet_of, server, wait_status};
use crate::tab::Tab;

#[test]
fn the_page_lists_the_partitions_and_reads_a_message_of_one() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let args = "--partitions 3 --messages 30 --interval 1ms --error-rate 1";
    let fleet = fleet_of(3, &server, args);
    let ended = wait_status(&server, "30 failed messages", |books| books.errors == 30);
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "three partitions and failed messages",
        "document.querySelectorAll('#partitions tbody tr').length === 3
            && document.querySelectorAll('#failed [data-id]').length > 0",
    );
    let published = "[...document.querySelectorAll('#partitions tbody tr')]
        .map((row) => Number(row.cells[1].textContent))";
    let expected: Vec<u64> = ended.partitions.iter().map(|one| one.published).collect();
    assert_eq!(tab.eval(published), json!(expected));
    assert_eq!(tab.text("#partitions-count"), "3 of 3 read");

    // A message's number names its partition.
    let number = tab.text("#failed li:first-child .meta");
    let (place, _) = number[1..].split_once(' ').unwrap();
    let (partition, seq) = place.split_once('.').unwrap();
    let published = expected[partition.parse::<usize>().unwrap()];
    assert!((1..=published).contains(&seq.parse().unwrap()), "{number}");
    tab.eval("document.querySelector('#failed li:first-child .open').click()");
    tab.wait_until(
        "the whole message",
        "/characters?$/.test(document.querySelector('#message-note').textContent)",
    );
    let title = tab.text("#message-title");
    assert_eq!(title, format!("Message {place}"));
    assert_eq!(tab.errors(), Vec::<String>::new());
    drop(fleet);
}

#[test]
fn a_fleet_of_one_partition_has_no_table_of_them() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let _fleet = fleet_of(2, &server, "--interval 20ms --error-rate 0");
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "good health",
        "document.querySelector('#health').dataset.state === 'well'",
    );
    let hidden = "document.querySelector('#partitions-card').hidden";
    assert_eq!(tab.eval(hidden), json!(true));
}
