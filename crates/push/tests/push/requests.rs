//! What a service gets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::Message;
use baton_push::Push;

use crate::service::{Service, handle, handle_one};

const DONE: &str = "HTTP/1.1 204 No Content\r\n\r\n";

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis() as u64
}

#[tokio::test]
async fn the_service_gets_the_exact_bytes_and_every_header() {
    let service = Service::always(DONE);
    let push = service.builder().timeout(Duration::from_secs(7));
    let push = push.build().unwrap();
    let mut message = Message::new(42, b"\0 \xff\r\n\r\n");
    message.attempt = 3;
    message.partition = 5;
    let before = now_ms();
    assert_eq!(handle(&push, message).await.0, "done");
    let [seen] = &service.seen()[..] else {
        panic!("{:?}", service.seen());
    };
    assert_eq!(seen.body, message.text);
    let deadline: u64 = seen.header("baton-deadline-ms").unwrap().parse().unwrap();
    assert!((before + 7000..=now_ms() + 7000).contains(&deadline));
    let version = env!("CARGO_PKG_VERSION");
    let mut lines: Vec<&str> = seen.head.lines().collect();
    lines[1..].sort_unstable();
    let port = service.port;
    assert_eq!(
        lines,
        [
            "POST /job?x=1 HTTP/1.1",
            "",
            "baton-attempt: 3",
            &format!("baton-deadline-ms: {deadline}"),
            "baton-partition: 5",
            "baton-seq: 42",
            "content-length: 7",
            "content-type: application/octet-stream",
            &format!("host: 127.0.0.1:{port}"),
            "idempotency-key: test-42",
            &format!("user-agent: baton/{version}"),
        ]
    );
}

#[tokio::test]
async fn an_empty_message_and_a_large_one_arrive_whole() {
    let service = Service::always(DONE);
    let push = service.push();
    let large: Vec<u8> = (0..3 << 20).map(|at: u32| (at % 251) as u8).collect();
    for text in [&b""[..], &large] {
        assert_eq!(handle(&push, Message::new(1, text)).await.0, "done");
        assert!(service.seen().last().unwrap().body == text);
    }
    assert_eq!(service.connections(), [1, 1]);
}

#[tokio::test]
async fn headers_of_the_user_are_sent_and_replace_ours() {
    let service = Service::always(DONE);
    let lines = b"Authorization: Bearer s3cret\nContent-Type: application/json\n\
                  X-Two: a\nX-Two: b\n";
    let push = service.builder().header_lines(lines).unwrap();
    assert!(!format!("{push:?}").contains("s3cret"));
    assert_eq!(handle_one(&push.build().unwrap()).await, "done");
    let seen = &service.seen()[0];
    assert_eq!(seen.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(seen.head.matches("content-type").count(), 1);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert!(seen.head.contains("x-two: a\r\nx-two: b\r\n"), "{seen:?}");
}

#[tokio::test]
async fn a_service_that_is_away_costs_no_attempt() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    for (url, words) in [
        (
            format!("http://127.0.0.1:{port}/"),
            format!("unavailable: cannot connect to 127.0.0.1:{port}: Connection refused"),
        ),
        (
            "http://no-such-host.invalid:81/".to_owned(),
            "unavailable: cannot connect to no-such-host.invalid:81: failed to lookup".to_owned(),
        ),
    ] {
        let push = Push::to(&url).unwrap().build().unwrap();
        let outcome = handle_one(&push).await;
        assert!(outcome.starts_with(&words), "{outcome}");
    }
}
