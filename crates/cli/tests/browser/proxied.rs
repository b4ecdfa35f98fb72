//! The page behind nginx, in a browser: TLS, the proxy's password, the token, an action, the end of
//! the session.

use serde_json::json;

use crate::devtools::Browser;
use crate::shared::nginx::{DOCUMENTED, LEAST, NAME, Nginx};
use crate::shared::page::{Page, TOKEN};
use crate::support::{failure, push, server, stored, wait_items};
use crate::tab::Tab;

#[test]
fn a_person_logs_in_and_acts_through_a_proxy_with_a_password_of_its_own() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    for conf in [DOCUMENTED, LEAST] {
        let Some(prepared) = Nginx::prepare() else {
            return;
        };
        let server = server();
        push(&server, &[failure(1, "too long", "some text")]);
        // The only name that every machine knows.
        let url = format!("https://localhost:{}", prepared.addr.port());
        let page = Page::with_token(&server, &["--public-url", &url]);
        let names = format!("server_name {NAME};");
        let conf = conf.replace(&names, "server_name localhost;");
        let _nginx = prepared.start(&conf, page.addr);

        let tab = Tab::open(&browser, "about:blank");
        tab.call(
            "Security.setIgnoreCertificateErrors",
            json!({"ignore": true}),
        );
        let known = url.replace("//", "//visitor:open%20sesame@");
        tab.go(&known);
        assert_eq!(tab.eval("location.pathname"), json!("/login"));
        tab.eval("window.left = true; document.querySelector('input[name=token]').focus()");
        tab.type_text(TOKEN);
        tab.press("Enter");
        tab.wait_loaded();
        assert_eq!(tab.eval("location.pathname"), json!("/"), "no login again");
        wait_items(&tab, 1);
        tab.wait_until(
            "events",
            "/^Live/.test(document.querySelector('#live-text').textContent)",
        );
        tab.click("#drop-all");
        tab.click("#confirm-yes");
        wait_items(&tab, 0);
        assert_eq!(stored(&server), []);
        tab.eval("window.left = true");
        tab.click("#logout");
        tab.wait_loaded();
        assert_eq!(tab.eval("location.pathname"), json!("/login"));
        tab.go(&url);
        assert_eq!(tab.eval("location.pathname"), json!("/login"), "logged out");
    }
}
