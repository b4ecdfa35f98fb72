//! Logging in with the token, and out again.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::FormRejection;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use serde::Deserialize;

use crate::access::{COOKIE_NAME, Caller, SESSION_TTL};
use crate::origin::from_elsewhere;
use crate::page::Page;

/// Most bytes of the form.
pub(crate) const FORM_BYTES: usize = 1 << 10;

const PAGE: &str = include_str!("login.html");
/// Where the page says what was wrong.
const WHY: &str = "<!-- why -->";

/// What the form sends.
#[derive(Deserialize)]
pub(crate) struct Shown {
    token: String,
}

/// Shows the form.
pub(crate) async fn form(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    let no_need = !page.access.needs_token() || page.access.recognise(&headers).await.is_ok();
    match no_need {
        true => Redirect::to("/").into_response(),
        false => Html(PAGE).into_response(),
    }
}

/// Begins a session for who shows the token.
pub(crate) async fn enter(
    State(page): State<Arc<Page>>,
    headers: HeaderMap,
    form: Result<Form<Shown>, FormRejection>,
) -> Response {
    if !page.access.needs_token() {
        return Redirect::to("/").into_response();
    }
    if from_elsewhere(&headers) {
        return again(StatusCode::FORBIDDEN, "Another site has sent this.");
    }
    let shown = match form {
        Ok(Form(shown)) => shown,
        Err(rejection) => return again(rejection.status(), "That is not the form."),
    };
    match page.access.try_token(shown.token.trim().as_bytes()).await {
        Ok(()) => {
            let seconds = SESSION_TTL.as_secs();
            let cookie = cookie(&page, &page.access.begin(), seconds);
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(StatusCode::TOO_MANY_REQUESTS) => again(
            StatusCode::TOO_MANY_REQUESTS,
            "Too many wrong tokens. Wait a moment.",
        ),
        Err(status) => again(status, "That is not the token."),
    }
}

/// Ends a session.
pub(crate) async fn leave(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
) -> Response {
    page.access.end(&caller);
    let cookie = cookie(&page, "", 0);
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response()
}

/// The form once more, with what was wrong.
fn again(status: StatusCode, why: &str) -> Response {
    let why = format!("<p role=\"alert\">{why}</p>");
    let page = Html(PAGE.replace(WHY, &why));
    (status, page).into_response()
}

/// Scripts do not see it, and no other site can have it sent. It is `Secure` where people come
/// over TLS; without TLS the browser would not keep it then.
fn cookie(page: &Page, id: &str, seconds: u64) -> String {
    let secure = if page.is_tls() { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}")
}
