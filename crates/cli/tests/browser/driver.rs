//! What the other tests believe of the browser: that it notices.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::json;

use crate::devtools::Browser;
use crate::tab::Tab;

/// A page that forbids inline script and has some, throws, and logs an error.
const FAULTY: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\
    Content-Security-Policy: default-src 'none'; script-src 'self'\r\n\r\n\
    <!doctype html><title>faulty</title><link rel=icon href=data:,><p id=here>here</p>\
    <script>window.ran = true</script><script src=/script></script>";
const SCRIPT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nConnection: close\r\n\r\n\
    console.error('told'); nothing.here";

#[test]
fn errors_of_a_page_are_noticed() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let tab = Tab::open(&browser, &serve(FAULTY, SCRIPT));
    assert_eq!(tab.text("#here"), "here");
    assert_eq!(tab.eval("typeof window.ran"), json!("undefined"));
    for part in ["told", "nothing is not defined", "Content Security Policy"] {
        assert!(
            tab.errors().iter().any(|error| error.contains(part)),
            "{part}: {:#?}",
            tab.errors()
        );
    }
}

#[test]
fn a_page_without_faults_has_no_errors_and_keeps_its_cookies_to_itself() {
    const PLAIN: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\
        Set-Cookie: seen=1; Path=/\r\n\r\n<!doctype html><link rel=icon href=data:,><p>here</p>";
    let Some(browser) = Browser::shared() else {
        return;
    };
    let url = serve(PLAIN, "");
    let tab = Tab::open(&browser, &url);
    assert_eq!(tab.errors(), Vec::<String>::new());
    assert_eq!(
        tab.eval("Promise.resolve(document.cookie)"),
        json!("seen=1")
    );
    let blank = Tab::open(&browser, "about:blank");
    blank.call("Network.enable", json!({}));
    let cookies = blank.call("Network.getCookies", json!({"urls": [url]}));
    assert_eq!(cookies["cookies"], json!([]));
}

#[test]
fn a_picture_has_the_size_that_was_asked_for() {
    let Some(browser) = Browser::shared() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.png");
    let tab = Tab::open(&browser, "data:text/html,<body>here");
    tab.resize(390, 844, true);
    tab.prefer("dark");
    tab.screenshot(&file);
    let png = std::fs::read(file).unwrap();
    assert_eq!(png[1..4], *b"PNG");
    // Two pixels of a phone to one of a page.
    assert_eq!(png[16..20], (2 * 390_u32).to_be_bytes());
    assert_eq!(png[20..24], (2 * 844_u32).to_be_bytes());
    assert_eq!(
        tab.eval("matchMedia('(prefers-color-scheme: dark)').matches"),
        json!(true)
    );
}

/// Answers with a page and its script for as long as the test runs.
fn serve(page: &'static str, script: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            let wants_script = request[..length].starts_with(b"GET /script");
            let answer = if wants_script { script } else { page };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}
