//! Applies the rules of access to a request: its host name, its sender, and whether our own page
//! sent it.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use super::hosts::host_of;
use super::{Caller, equal, origin};
use crate::http::Refusal;
use crate::page::Page;

/// Refuses a request for a host name that is not allowed.
pub(crate) async fn require_host(
    State(page): State<Arc<Page>>,
    request: Request,
    next: Next,
) -> Response {
    let asked = host_of(request.headers()).filter(|host| page.hosts.allow(host));
    // A client may also name the host in the request line, which then takes precedence.
    let line = request.uri().authority();
    if asked.is_none() || line.is_some_and(|line| !page.hosts.allow(line.as_str())) {
        let why = "this page is not served by that name; --allow-host and --public-url add one";
        return Refusal::new(StatusCode::MISDIRECTED_REQUEST, why).into_response();
    }
    next.run(request).await
}

/// Refuses a caller that may not see the fleet, and tells the handler who the caller is.
pub(crate) async fn require_caller(
    State(page): State<Arc<Page>>,
    mut request: Request,
    next: Next,
) -> Response {
    match page.access.authenticate(request.headers()).await {
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

/// Refuses an action on a page that was started without actions.
pub(crate) async fn require_actions(
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

/// Refuses a request unless our own page, or a program with the token, has sent it.
pub(crate) async fn require_own_page(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    match check_own_page(&page, &caller, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn check_own_page(page: &Page, caller: &Caller, headers: &HeaderMap) -> Result<(), Refusal> {
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
        let sent = headers
            .get("x-csrf-token")
            .and_then(|csrf| csrf.to_str().ok());
        if !sent.is_some_and(|sent| equal(sent, &csrf)) {
            let why = "the header x-csrf-token is not the one of /api/session";
            return Err(Refusal::new(StatusCode::FORBIDDEN, why));
        }
    } else if *caller != Caller::Bearer {
        let why = "this session has ended";
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, why));
    }
    Ok(())
}
