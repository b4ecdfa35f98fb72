//! Messages, reasons and names that try to become part of the page.

use serde_json::json;

use crate::devtools::Browser;
use crate::support::{Page, failure, hostile_node, push, server};
use crate::tab::Tab;

const SCRIPT: &str = "<script>window.pwned=1</script>";
const IMAGE: &str = "<img src=x onerror=window.pwned=2>";
/// Colours a terminal, turns text round.
const OBEYED: &str = "\u{1b}[31mred\u{202e}dlo";

#[test]
fn hostile_text_is_shown_as_text() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let server = server();
    let text = format!("{SCRIPT}{IMAGE}{OBEYED}");
    let mut failed = failure(7, &format!("{IMAGE}{SCRIPT}{OBEYED}"), &text);
    failed.node = IMAGE.to_owned();
    push(&server, &[failed]);
    hostile_node(&server, IMAGE);
    let page = Page::start(&server, &["--allow-actions"]);
    let tab = Tab::open(&browser, &page.url);
    tab.wait_until(
        "the node with a hostile name",
        &format!(
            "[...document.querySelectorAll('#nodes tr[data-node]')]
                .some((row) => row.dataset.node === {})",
            json!(IMAGE)
        ),
    );
    tab.wait_until(
        "the failed message and its reason",
        "document.querySelectorAll('#failed [data-id]').length === 1
            && document.querySelectorAll('#reasons button[data-reason]').length === 1",
    );
    tab.eval("document.querySelector('#failed [data-id] .open').click()");
    tab.wait_until(
        "its text in full",
        "document.querySelector('#message').open
            && document.querySelector('#message-text').textContent !== ''",
    );
    let shown = tab.text("#message-text");
    assert!(shown.contains(SCRIPT) && shown.contains(IMAGE), "{shown}");
    assert!(tab.text("#failed").contains(SCRIPT));
    assert!(tab.text("#reasons").contains(IMAGE));
    // The button that does something with it says of what, and that is text as well.
    tab.press("Escape");
    tab.click("#failed [data-id] button.drop");
    tab.wait_until("the question", "document.querySelector('#confirm').open");

    // Nothing of it became a part of the page, and nothing that a viewer would obey is left.
    assert_eq!(
        tab.eval(
            "['#failed', '#reasons', '#nodes', '#message', '#confirm', '#takeovers']
                .flatMap((part) => [...document.querySelector(part).querySelectorAll('script, img')])
                .length"
        ),
        json!(0)
    );
    assert_eq!(
        tab.eval(r"/[\x1b\u202e]/.test(document.body.textContent)"),
        json!(false)
    );
    assert_eq!(tab.eval("typeof window.pwned"), json!("undefined"));
    assert_eq!(tab.errors(), Vec::<String>::new());
}
