//! Failed messages, retried and dropped through the page.

use baton_server::PrivateServer;

use crate::devtools::Browser;
use crate::support::{
    Page, Visit, failure, fleet_of, push, server, status, stored, wait_items, wait_status,
};
use crate::tab::Tab;

#[test]
fn a_message_that_is_retried_through_the_page_is_handled_again() {
    let Some(visit) = Visit::start(with_three_failures, 3) else {
        return;
    };
    let (tab, server) = (&visit.tab, &visit.server);

    let before = stored(server);
    tab.click("#failed [data-id] button.retry");
    tab.wait_until("the question", "document.querySelector('#confirm').open");
    assert_eq!(status(server).retried, 0);
    tab.click("#confirm-yes");
    let books = wait_status(server, "the retry", |books| books.retried == 1);
    assert_eq!((books.errors, books.pending, books.done), (2, 1, 0));
    // The newest comes first on the page.
    assert_eq!(stored(server), before[..2]);
    tab.wait_until(
        "the page to say so",
        "/retried 1/.test(document.querySelector('#toast').textContent)
            && document.querySelector('#toast').checkVisibility()",
    );
    wait_items(tab, 2);

    let _fleet = fleet_of(2, server, "--messages 3 --error-rate 0");
    let books = wait_status(server, "the message to end", |books| books.done == 1);
    assert!(books.balanced && books.counted, "{books:?}");
    assert_eq!((books.published, books.retried, books.failed), (3, 1, 3));
    tab.wait_until(
        "the page to count it",
        "document.querySelector('#books').dataset.state === 'balanced'
            && document.querySelector('#done').textContent.trim() === '1'",
    );
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn drop_all_leaves_what_failed_after_the_look() {
    let Some(visit) = Visit::start(with_three_failures, 3) else {
        return;
    };
    let (tab, server) = (&visit.tab, &visit.server);
    tab.wait_until(
        "the page to know the books",
        "document.querySelector('#books').dataset.state === 'balanced'",
    );

    // One more, for the same reason.
    fail_until(server, 4);
    tab.wait_until(
        "the page to know of a newer failure",
        "/\\b1 newer/.test(document.querySelector('#look-again').textContent)",
    );
    tab.click("#drop-all");
    tab.wait_until("the question", "document.querySelector('#confirm').open");
    let question = tab.text("#confirm-text");
    assert!(question.contains("all 3 messages"), "{question}");
    // First thought better of, then done.
    tab.click("#confirm-no");
    tab.wait_until("no question", "!document.querySelector('#confirm').open");
    assert_eq!(numbers(server), [1, 2, 3, 4]);
    tab.click("#drop-all");
    tab.click("#confirm-yes");
    wait_status(server, "three to be gone", |books| books.errors <= 1);
    assert_eq!(numbers(server), [4]);
    wait_items(tab, 1);
    assert_eq!(tab.errors(), Vec::<String>::new());
}

#[test]
fn a_search_and_a_reason_narrow_what_is_shown_and_what_is_dropped() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    push(
        &server,
        &[
            failure(1, "too long", "apple"),
            failure(2, "too short", "pear"),
            failure(3, "too long", "plum"),
        ],
    );
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    wait_items(&tab, 3);
    tab.eval("document.querySelector('#search').focus()");
    tab.type_text("PEAR");
    wait_items(&tab, 1);
    assert!(tab.text("#failed").contains("pear"));
    tab.eval("document.querySelector('#search').select()");
    tab.press("Backspace");
    wait_items(&tab, 3);

    tab.click("#reasons button[data-reason='too long']");
    wait_items(&tab, 2);
    tab.click("#drop-all");
    tab.click("#confirm-yes");
    wait_status(&server, "two to be gone", |books| books.errors <= 1);
    assert_eq!(stored(&server), [failure(2, "too short", "pear")]);
    assert_eq!(tab.errors(), Vec::<String>::new());
}

/// A server whose fleet has rejected three messages.
fn with_three_failures() -> PrivateServer {
    let server = server();
    fail_until(&server, 3);
    server
}

/// Lets a fleet reject all its messages until so many have failed.
#[track_caller]
fn fail_until(server: &PrivateServer, count: u64) {
    let flags = format!("--messages {count} --interval 10ms --error-rate 1");
    let _fleet = fleet_of(2, server, &flags);
    wait_status(server, "the failures", |books| books.failed == count);
}

/// The sequence numbers in the errors store.
fn numbers(server: &PrivateServer) -> Vec<u64> {
    let mut numbers: Vec<u64> = stored(server).iter().map(|failed| failed.seq).collect();
    numbers.sort_unstable();
    numbers
}
