//! What one client cannot do to the others.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Events, Site, connect, wait_until};

#[test]
fn a_body_has_a_limit() {
    let site = Site::acting();
    let body = json!({ "look": "x".repeat(70 << 10), "what": "all", "action": "drop" });
    let large = site
        .action("/api/errors/settle", &body, &site.csrf())
        .send();
    assert_eq!(large.status, 413);
    let body = json!({ "look": "x".repeat(60 << 10), "what": "all", "action": "drop" });
    let fits = site
        .action("/api/errors/settle", &body, &site.csrf())
        .send();
    assert_eq!(fits.status, 410);
    let site = Site::locked();
    assert_eq!(site.log_in_with(&"x".repeat(2000)).status, 413);
}

#[test]
fn a_head_has_a_limit() {
    let site = Site::open();
    let large = site.request("GET", "/").header("X", &"x".repeat(100 << 10));
    assert_eq!(large.send().status, 431);
}

#[test]
fn streams_are_counted_and_come_free_again() {
    let site = Site::open();
    let open = || Events::of(site.request("GET", "/api/events"));
    let mut streams: Vec<Events> = (0..64).map(|_| open()).collect();
    assert!(streams.iter().all(|stream| stream.status == 200));
    assert_eq!(open().status, 503);
    // The others are served as before.
    assert_eq!(site.get("/api/session").status, 200);
    assert!(streams.iter_mut().all(|stream| stream.next().is_some()));
    streams.pop();
    wait_until("a stream is free", || open().status == 200);
}

#[test]
fn who_is_slow_is_cut_off_and_meanwhile_the_others_wait() {
    let site = Site::open();
    let slow: Vec<_> = (0..256)
        .map(|_| {
            let mut stream = connect(site.addr);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: lo").unwrap();
            stream
        })
        .collect();
    let before = Instant::now();
    assert_eq!(site.get("/readyz").status, 200);
    assert!(
        before.elapsed() > Duration::from_secs(3),
        "all 256 are busy"
    );
    for mut stream in slow {
        let mut answer = Vec::new();
        // Closed or reset, but not left open.
        let cut = stream.read_to_end(&mut answer);
        let kind = cut.as_ref().err().map(std::io::Error::kind);
        assert_ne!(kind, Some(std::io::ErrorKind::WouldBlock), "{cut:?}");
    }
}

#[test]
fn an_idle_connection_is_cut_off() {
    let site = Site::open();
    let mut stream = site.request("GET", "/readyz").start();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}
