//! The rules that every request is held against: which name it asked for, who sent it, whether
//! our own page made it; and the headers that every answer carries.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use tokio::time::timeout;

use crate::access::{Caller, same};
use crate::answer::Refusal;
use crate::connections::Place;
use crate::hosts::host_of;
use crate::origin;
use crate::page::Page;

/// Most bytes of a request's body.
pub(crate) const BODY_BYTES: usize = 64 << 10;
/// A request's body must be complete within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time that an answer may take to begin.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Only what this server sends is run, shown, asked or framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// Puts the headers on every answer.
pub(crate) async fn dress(request: Request, next: Next) -> Response {
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

/// Reads a request's whole body before anything is done about it. Until then, the connection may
/// have to make room for others.
pub(crate) async fn whole(request: Request, next: Next) -> Response {
    let place = request.extensions().get::<Arc<Place>>().cloned();
    let (head, body) = request.into_parts();
    let body = match timeout(BODY_TIMEOUT, to_bytes(body, BODY_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => {
            // Too long; or cut off, and then the client does not hear of it.
            let words = error.to_string();
            return close(Refusal(StatusCode::PAYLOAD_TOO_LARGE, words));
        }
        Err(_) => {
            let why = "the request did not arrive in time";
            return close(Refusal::new(StatusCode::REQUEST_TIMEOUT, why));
        }
    };
    if place.is_some_and(|place| !place.at_work()) {
        let why = "too many connections";
        return close(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    next.run(Request::from_parts(head, body.into())).await
}

/// A refusal after which the rest of a request is not waited for.
fn close(refusal: Refusal) -> Response {
    ([(CONNECTION, "close")], refusal).into_response()
}

/// Gives up on what takes too long.
pub(crate) async fn deadline(request: Request, next: Next) -> Response {
    match timeout(ANSWER_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let why = "this took too long and was given up";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

/// Refuses names by which nobody was to ask.
pub(crate) async fn host(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let asked = host_of(request.headers()).filter(|host| page.hosts.allow(host));
    // A client may name the host in its first line too, and that counts more.
    let line = request.uri().authority();
    if asked.is_none() || line.is_some_and(|line| !page.hosts.allow(line.as_str())) {
        let why = "this page is not served by that name; --allow-host and --public-url add one";
        return Refusal::new(StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    next.run(request).await
}

/// Lets only those through who may see the fleet.
pub(crate) async fn known(
    State(page): State<Arc<Page>>,
    mut request: Request,
    next: Next,
) -> Response {
    match page.access.recognise(request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(StatusCode::UNAUTHORIZED) if request.uri().path() == "/" => {
            Redirect::to("/login").into_response()
        }
        Err(status) => {
            let why = "show the token: log in at /login, or send Authorization: Bearer";
            let challenge = [(WWW_AUTHENTICATE, "Bearer")];
            (challenge, Refusal::new(status, why)).into_response()
        }
    }
}

/// Lets actions through only where they are allowed.
pub(crate) async fn acting(
    State(page): State<Arc<Page>>,
    request: Request,
    next: Next,
) -> Response {
    if !page.allow_actions {
        let why = "this page only shows; it acts if it is started with --allow-actions";
        return Refusal::new(StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

/// Lets only those requests through that our own page, or a program with the token, has sent.
pub(crate) async fn ours(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match is_ours(&page, &caller, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn is_ours(page: &Page, caller: &Caller, headers: &HeaderMap) -> Result<(), Refusal> {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        let why = "what changes something is sent as application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    origin::check(&page.public_urls, headers, *caller == Caller::Bearer)
        .map_err(|why| Refusal(StatusCode::FORBIDDEN, why))?;
    if let Some(csrf) = page.access.csrf(caller) {
        let shown = headers
            .get("x-csrf-token")
            .and_then(|csrf| csrf.to_str().ok());
        if !shown.is_some_and(|shown| same(shown, &csrf)) {
            let why = "the header x-csrf-token is not the one of /api/session";
            return Err(Refusal::new(StatusCode::FORBIDDEN, why));
        }
    } else if *caller != Caller::Bearer {
        let why = "this session has ended";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, why));
    }
    Ok(())
}

/// What is not here.
pub(crate) async fn nothing() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing here\n").into_response()
}
