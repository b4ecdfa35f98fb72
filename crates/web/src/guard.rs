//! The rules that every request is held against: which name it asked for, who sent it, whether
//! our own page made it; and the headers that every answer carries.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use tokio::time::timeout;

use crate::access::{Caller, same};
use crate::answer::Refusal;
use crate::page::Page;

/// Longest time that an answer may take to begin.
const PATIENCE: Duration = Duration::from_secs(30);

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

/// Gives up on what takes too long.
pub(crate) async fn patience(request: Request, next: Next) -> Response {
    match timeout(PATIENCE, next.run(request)).await {
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
        let why = "this page is not served by that name; --allow-host adds one";
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

/// Lets only actions through that are allowed here and that our own page, or a program with
/// the token, has sent.
pub(crate) async fn acting(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match may_act(&page, &caller, request.headers()) {
        Ok(()) => next.run(request).await,
        Err((status, why)) => Refusal::new(status, why).into_response(),
    }
}

fn may_act(
    page: &Page,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<(), (StatusCode, &'static str)> {
    if !page.allow_actions {
        let why = "this page only shows; it acts if it is started with --allow-actions";
        return Err((StatusCode::FORBIDDEN, why));
    }
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        let why = "an action is sent as application/json";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    if !from_here(headers, *caller == Caller::Bearer) {
        return Err((StatusCode::FORBIDDEN, "another site has sent this"));
    }
    if let Some(csrf) = page.access.csrf(caller) {
        let shown = headers
            .get("x-csrf-token")
            .and_then(|csrf| csrf.to_str().ok());
        if !shown.is_some_and(|shown| same(shown, &csrf)) {
            let why = "the header x-csrf-token is not the one of /api/session";
            return Err((StatusCode::FORBIDDEN, why));
        }
    } else if *caller != Caller::Bearer {
        return Err((StatusCode::UNAUTHORIZED, "this session has ended"));
    }
    Ok(())
}

/// Whether a page of this very server has sent a request, as far as the browser tells. A
/// client that tells nothing is believed only if it has the token itself.
fn from_here(headers: &HeaderMap, has_token: bool) -> bool {
    if let Some(origin) = headers.get(ORIGIN) {
        let origin: Option<Uri> = origin.to_str().ok().and_then(|uri| uri.parse().ok());
        let authority = origin.as_ref().and_then(Uri::authority);
        let (Some(authority), Some(host)) = (authority, host_of(headers)) else {
            return false;
        };
        return authority.as_str().eq_ignore_ascii_case(host);
    }
    match site(headers) {
        Some("same-origin" | "none") => true,
        Some(_) => false,
        None => has_token,
    }
}

/// Whether a browser says that a page of another site has sent a form. Our own login page
/// cannot be told by its origin: under its policy, browsers call that `null`.
pub(crate) fn from_elsewhere(headers: &HeaderMap) -> bool {
    matches!(site(headers), Some("cross-site" | "same-site"))
}

fn site(headers: &HeaderMap) -> Option<&str> {
    headers
        .get("sec-fetch-site")
        .map(|site| site.to_str().unwrap_or_default())
}

/// The host that was asked for; none if there is not exactly one.
fn host_of(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).into_iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

/// What is not here.
pub(crate) async fn nothing() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing here\n").into_response()
}
