//! Services that hang, die, or answer without end.

use std::time::{Duration, Instant};

use crate::service::{Answer, Service, handle_one, response};

const SHORT: Duration = Duration::from_millis(200);
const TOO_LARGE: &str = "later: no answer: its head has more than 100 headers or 64 KiB";
const ENDLESS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n";

/// How the first message ends if the service answers so and an attempt takes at most 200 ms. Checks
/// that the connection is closed then.
async fn outcome_of(answer: impl Fn() -> Answer + Send + Sync + 'static) -> String {
    let service = Service::start(move |_| answer());
    let push = service.builder().timeout(SHORT).build().unwrap();
    let outcome = handle_one(&push).await;
    let closed = tokio::task::spawn_blocking(move || service.wait_closed());
    assert_eq!(closed.await.unwrap(), 1);
    outcome
}

fn chunk(bytes: usize) -> Vec<u8> {
    let text = "x".repeat(bytes);
    format!("{bytes:x}\r\n{text}\r\n").into_bytes()
}

#[tokio::test]
async fn a_service_that_hangs_ends_the_attempt_and_counts() {
    let began = Instant::now();
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-"] {
        let hang = || Answer::SendAndHang(answer.as_bytes().to_vec());
        assert_eq!(outcome_of(hang).await, "later: no answer within 200ms");
    }
    assert!(began.elapsed() >= 2 * SHORT);
    let hang = || Answer::SendAndHang(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec());
    let expected = "later: HTTP 200 OK: its body did not end in time";
    assert_eq!(outcome_of(hang).await, expected);
    // This status says already what becomes of the message.
    let hang = || Answer::SendAndHang(b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nhalf".to_vec());
    let expected = "rejected: HTTP 404 Not Found: half";
    assert_eq!(outcome_of(hang).await, expected);
}

#[tokio::test]
async fn a_service_that_dies_leaves_an_unknown_outcome() {
    let die = || Answer::SendAndClose(Vec::new());
    let outcome = outcome_of(die).await;
    assert!(outcome.starts_with("later: no answer: "), "{outcome}");
    let die = || Answer::SendAndClose(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_vec());
    let outcome = outcome_of(die).await;
    assert!(
        outcome.starts_with("later: HTTP 200 OK: its body broke off: "),
        "{outcome}"
    );
}

#[tokio::test]
async fn what_is_no_http_is_no_answer() {
    let answer = || Answer::SendAndClose(b"SSH-2.0-OpenSSH_9.6\r\n\r\n".to_vec());
    let outcome = outcome_of(answer).await;
    assert!(outcome.starts_with("later: no answer: "), "{outcome}");
}

#[tokio::test]
async fn a_fast_body_without_end_is_cut_off_at_the_bound() {
    let endless = |head: &str| {
        let head = head.as_bytes().to_vec();
        move || Answer::SendForEver(head.clone(), chunk(64 << 10), Duration::ZERO)
    };
    assert_eq!(outcome_of(endless(&format!("{ENDLESS}\r\n"))).await, "done");
    let kind = "Content-Type: application/x-baton-effects";
    assert_eq!(
        outcome_of(endless(&format!("{ENDLESS}{kind}\r\n\r\n"))).await,
        "rejected: HTTP 200 OK: its effects have more than 1048576 bytes"
    );
    let busy = "HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n";
    let outcome = outcome_of(endless(busy)).await;
    assert!(
        outcome.starts_with("later: HTTP 503 Service Unavailable: xxx"),
        "{outcome}"
    );
}

#[tokio::test]
async fn a_slow_body_without_end_ends_with_the_attempt() {
    let drip = || {
        let head = format!("{ENDLESS}\r\n").into_bytes();
        Answer::SendForEver(head, chunk(1), Duration::from_millis(10))
    };
    let expected = "later: HTTP 200 OK: its body did not end in time";
    assert_eq!(outcome_of(drip).await, expected);
}

#[tokio::test]
async fn headers_of_10_mb_are_refused() {
    let endless = || {
        let header = format!("X-Long: {}\r\n", "x".repeat(1000)).into_bytes();
        Answer::SendForEver(b"HTTP/1.1 200 OK\r\n".to_vec(), header, Duration::ZERO)
    };
    assert_eq!(outcome_of(endless).await, TOO_LARGE);
    let one = || {
        let header = format!(
            "HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n",
            "x".repeat(10 << 20)
        );
        Answer::SendAndClose(header.into_bytes())
    };
    assert_eq!(outcome_of(one).await, TOO_LARGE);
}

#[tokio::test]
async fn a_response_may_have_100_headers() {
    // The length of the body is one more.
    for (headers, expected) in [(99, "done"), (100, TOO_LARGE)] {
        let answer = response("200 OK", &"X-Many: 1\r\n".repeat(headers), "");
        let answer = move || Answer::SendAndClose(answer.clone().into_bytes());
        assert_eq!(outcome_of(answer).await, expected);
    }
}

#[tokio::test]
async fn a_service_that_sends_hints_for_ever_ends_the_attempt() {
    let hints = || {
        let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_vec();
        Answer::SendForEver(hint.clone(), hint, Duration::from_millis(1))
    };
    assert_eq!(outcome_of(hints).await, "later: no answer within 200ms");
}
