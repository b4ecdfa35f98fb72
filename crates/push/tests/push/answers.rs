//! What the answers of a service do to a message.

use baton::{Effects, Message};

use crate::service::{Service, handle, handle_one, response};

async fn outcome_of(answer: &str) -> (String, Effects) {
    let service = Service::always(answer);
    handle(&service.push(), Message::new(1, b"text")).await
}

#[tokio::test]
async fn a_status_decides() {
    for (answer, expected) in [
        (response("200 OK", "", "fine"), "done"),
        (response("201 Made", "", ""), "done"),
        (
            response("500 Oops", "", "out of\npaper "),
            "later: HTTP 500 Internal Server Error: out of\npaper",
        ),
        (
            response("429 Slow", "Retry-After: 7\r\n", ""),
            "later, at the service's time: HTTP 429 Too Many Requests",
        ),
        // No standard has these. A mistake of the service should not cost the message.
        (response("600 Odd", "", "?"), "later: HTTP 600: ?"),
        (
            response("999 Odd", "Retry-After: 7\r\n", ""),
            "later, at the service's time: HTTP 999",
        ),
        (
            response("422 No", "", "no such customer"),
            "rejected: HTTP 422 Unprocessable Entity: no such customer",
        ),
        (
            response("302 Found", "Location: http://127.0.0.1:1/\r\n", "moved"),
            "rejected: HTTP 302 Found: redirects are not followed, \
             this one leads to http://127.0.0.1:1/",
        ),
        (
            "HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_owned(),
            "rejected: HTTP 101 Switching Protocols",
        ),
        (
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n{}",
                response("200 OK", "", "")
            ),
            "done",
        ),
        ("HTTP/1.1 204 Done\r\n\r\n".to_owned(), "done"),
    ] {
        assert_eq!(outcome_of(&answer).await.0, expected);
    }
}

#[tokio::test]
async fn effects_of_a_body_are_staged() {
    let kind = "Content-Type: application/x-baton-effects\r\n";
    let lines = "[\"INCRBY\",\"counted\",1]\n[\"SADD\",\"who\",\"me\"]\n";
    let (outcome, effects) = outcome_of(&response("200 OK", kind, lines)).await;
    assert_eq!(outcome, "done");
    let mut expected = Effects::default();
    expected.incr_by("counted", 1);
    expected.sadd("who", "me");
    assert_eq!(effects, expected);
    let bad = format!("{lines}[\"DEL\",\"baton:{{other}}:nodes\"]");
    let (outcome, effects) = outcome_of(&response("200 OK", kind, &bad)).await;
    assert_eq!(
        outcome,
        "rejected: HTTP 200 OK: effects, line 3: \"baton:{other}:nodes\" belongs to a fleet"
    );
    assert_eq!(effects, Effects::default());
}

#[tokio::test]
async fn a_reason_has_the_first_4_kib_of_the_body() {
    let body = "ä".repeat(200 << 10);
    let service = Service::always(&response("400 Bad", "", &body));
    let push = service.push();
    let words = "ä".repeat(2048);
    let expected = format!("rejected: HTTP 400 Bad Request: {words}");
    assert_eq!(handle_one(&push).await, expected);
    // The rest was read and thrown away, so the connection lives on.
    assert_eq!(handle_one(&push).await, expected);
    assert_eq!(service.connections(), [1, 1]);
}
