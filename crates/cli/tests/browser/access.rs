//! Who may see the page, and who may change something through it.

use baton_server::PrivateServer;
use serde_json::{Value, json};

use crate::devtools::Browser;
use crate::shared::page::{Page, TOKEN};
use crate::support::{failure, push, server, stored};
use crate::tab::Tab;

/// A server with one failed message.
fn with_a_failure() -> PrivateServer {
    let server = server();
    push(&server, &[failure(1, "too long", "some text")]);
    server
}

/// Asks to drop all from within the page, with or without the word that only the page knows;
/// returns the code of the answer.
#[track_caller]
fn drop_all(tab: &Tab, with_csrf: bool) -> Value {
    tab.eval(&format!(
        "(async () => {{
            const {{csrf}} = await (await fetch('/api/session')).json();
            const {{look}} = await (await fetch('/api/errors')).json();
            const headers = {{'content-type': 'application/json'}};
            if ({with_csrf}) headers['x-csrf-token'] = csrf;
            const body = JSON.stringify({{look, what: 'all', action: 'drop'}});
            return (await fetch('/api/errors/settle', {{method: 'POST', headers, body}})).status;
        }})()"
    ))
}

#[test]
fn unless_actions_are_allowed_there_are_none() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = with_a_failure();
    let page = Page::start(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the failed message",
        "document.querySelectorAll('#failed [data-id]').length === 1",
    );
    assert_eq!(
        tab.eval(
            "['take', 'retry', 'drop']
                .flatMap((word) => [...document.querySelectorAll(`#${word}-all, #failed .${word}`)])
                .filter((button) => button.checkVisibility()).length"
        ),
        json!(0)
    );
    assert!(tab.text("#no-actions").contains("--allow-actions"));
    assert_eq!(tab.errors(), Vec::<String>::new());
    assert_eq!(drop_all(&tab, true), json!(403));
    assert_eq!(stored(&server).len(), 1);
}

#[test]
fn an_action_without_the_word_that_only_the_page_knows_is_refused() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = with_a_failure();
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    assert_eq!(drop_all(&tab, false), json!(403));
    assert_eq!(stored(&server).len(), 1);
    // It was for nothing else.
    assert_eq!(drop_all(&tab, true), json!(200));
    assert_eq!(stored(&server), []);
}

#[test]
fn who_does_not_know_the_token_sees_only_the_login_page() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = with_a_failure();
    let page = Page::with_token(&server, &[]);
    let tab = Tab::open(&browser, &page.url);
    assert_at_login(&tab);
    assert_eq!(tab.errors(), Vec::<String>::new());
    // The login page itself may fetch nothing; an address says what it is typed in.
    tab.go(&format!("{}api/session", page.url));
    assert!(!tab.text("body").contains("csrf"));

    tab.go(&format!("{}login", page.url));
    log_in(&tab, "0123456789abcdef0123456789abcdee");
    assert_at_login(&tab);
    log_in(&tab, TOKEN);
    tab.wait_until(
        "the page",
        "location.pathname === '/' && document.querySelectorAll('#failed [data-id]').length === 1",
    );
    assert_eq!(tab.eval("document.cookie"), json!(""));
    assert_eq!(drop_all(&tab, false), json!(403));
    assert_eq!(stored(&server).len(), 1);
    assert_eq!(drop_all(&tab, true), json!(200));
    assert_eq!(stored(&server), []);
    // Another browser knows nothing of it.
    assert_at_login(&Tab::open(&browser, &page.url));
}

#[track_caller]
fn assert_at_login(tab: &Tab) {
    assert_eq!(tab.eval("location.pathname"), json!("/login"));
    assert_eq!(
        tab.eval("document.querySelectorAll('input[name=token]').length"),
        json!(1)
    );
    assert_eq!(
        tab.eval("document.querySelectorAll('#generator, #failed').length"),
        json!(0)
    );
}

/// Types a token and sends it, as people do.
#[track_caller]
fn log_in(tab: &Tab, token: &str) {
    tab.eval("window.left = true; document.querySelector('input[name=token]').focus()");
    tab.type_text(token);
    tab.press("Enter");
    tab.wait_loaded();
}
