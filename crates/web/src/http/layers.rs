//! What every request and every answer goes through: the headers of an answer, the whole body of
//! a request, a deadline.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

use super::Refusal;
use super::connections::Place;

/// The longest body of a request.
pub(crate) const MAX_BODY_BYTES: usize = 64 << 10;
/// The whole body of a request must arrive within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The server gives up on an answer that has not begun after this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A browser runs, shows and asks only what this server sends, and no other page frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// Adds the security headers to every answer.
pub(crate) async fn security_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let mut insert = |name: HeaderName, value: HeaderValue| headers.insert(name, value);
    insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        SAME_ORIGIN,
    );
    insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        SAME_ORIGIN,
    );
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Reads the whole body of a request before any work begins. Until then, the server may close the
/// connection to make room for others.
pub(crate) async fn whole_body(request: Request, next: Next) -> Response {
    let place = request.extensions().get::<Arc<Place>>().cloned();
    let (head, body) = request.into_parts();
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            // Too long; or the client went away, and then it does not read this.
            let words = error.to_string();
            return refuse_and_close(Refusal(StatusCode::PAYLOAD_TOO_LARGE, words));
        }
        Err(_) => {
            let why = "the request did not arrive in time";
            return refuse_and_close(Refusal::new(StatusCode::REQUEST_TIMEOUT, why));
        }
    };
    if place.is_some_and(|place| !place.at_work()) {
        let why = "too many connections";
        return refuse_and_close(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    next.run(Request::from_parts(head, body.into())).await
}

/// A refusal that does not wait for the rest of the request.
fn refuse_and_close(refusal: Refusal) -> Response {
    ([(CONNECTION, "close")], refusal).into_response()
}

/// Gives up on an answer that takes too long.
pub(crate) async fn deadline(request: Request, next: Next) -> Response {
    match timeout(ANSWER_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let why = "this took too long and was given up";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

/// The answer to a path that does not exist.
pub(crate) async fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing here\n").into_response()
}
