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
fn streams_are_limited_and_become_free_again() {
    let site = Site::open();
    let open = || Events::of(site.request("GET", "/api/events"));
    let mut streams: Vec<Events> = (0..64).map(|_| open()).collect();
    assert!(streams.iter().all(|stream| stream.status == 200));
    assert_eq!(open().status, 503);
    // Other requests are served as before.
    assert_eq!(site.get("/api/session").status, 200);
    assert!(streams.iter_mut().all(|stream| stream.next().is_some()));
    streams.pop();
    wait_until("a stream is free", || open().status == 200);
}

#[test]
fn slow_clients_make_room_for_others_and_are_cut_off() {
    let site = Site::locked();
    let slow = |bytes: &'static [u8]| {
        move |_| {
            let mut stream = connect(site.addr);
            stream.write_all(bytes).unwrap();
            stream
        }
    };
    let before = Instant::now();
    // Twice as many as the server serves at a time: half of them send half of a head, the others a
    // head and half of a body.
    let heads = (0..256).map(slow(b"GET / HTTP/1.1\r\nHost: lo"));
    let mut streams: Vec<_> = heads.collect();
    streams.extend((0..256).map(slow(
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\
            Content-Type: application/x-www-form-urlencoded\r\n\r\ntok",
    )));
    for path in ["/readyz", "/healthz", "/login"] {
        assert_ne!(site.get(path).status, 0, "{path}");
    }
    let took = before.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    for mut stream in streams {
        let mut answer = Vec::new();
        // The server closes or resets the connection.
        let cut = stream.read_to_end(&mut answer);
        let kind = cut.as_ref().err().map(std::io::Error::kind);
        assert_ne!(kind, Some(std::io::ErrorKind::WouldBlock), "{cut:?}");
    }
    let took = before.elapsed();
    assert!(took < Duration::from_secs(25), "{took:?}");
}

#[test]
fn the_server_does_not_wait_for_a_body_that_comes_too_slowly() {
    let site = Site::locked();
    let mut stream = site
        .request("POST", "/login")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Content-Length", "9")
        .start();
    let before = Instant::now();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\r\ncontent-security-policy: "), "{answer}");
    let took = before.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn clients_that_do_not_read_their_answers_make_room_for_others() {
    let site = Site::open();
    // Every connection asks for more than the buffers on the way can take.
    let greedy: Vec<_> = (0..300)
        .map(|_| {
            let mut stream = connect(site.addr);
            let ask = b"GET /assets/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
            // A server that cannot send stops reading, so the write would block.
            stream.set_nonblocking(true).unwrap();
            for _ in 0..500 {
                if stream.write_all(ask).is_err() {
                    break;
                }
            }
            stream
        })
        .collect();
    let before = Instant::now();
    // Any status will do: the answer itself is what counts.
    site.get("/healthz");
    let took = before.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?}");
    drop(greedy);
}

#[test]
fn an_idle_connection_is_cut_off() {
    let site = Site::open();
    let mut stream = site.request("GET", "/readyz").start();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}
