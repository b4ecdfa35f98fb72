//! Logging in with the token, and out again.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::FormRejection;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::{Extension, Form};
use serde::Deserialize;

use super::origin::is_cross_site;
use super::{COOKIE_NAME, Caller, SESSION_TTL};
use crate::page::Page;

/// The longest body of the form.
pub(crate) const MAX_FORM_BYTES: usize = 1 << 10;

const PAGE: &str = include_str!("login.html");
/// Where the form says why a login failed.
const WHY: &str = "<!-- why -->";

/// The fields of the form.
#[derive(Deserialize)]
pub(crate) struct LoginForm {
    token: String,
}

/// Sends the form, or the page to a caller that does not need it.
pub(crate) async fn form(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    let has_access = !page.access.needs_token() || page.access.authenticate(&headers).await.is_ok();
    match has_access {
        true => Redirect::to("/").into_response(),
        false => Html(PAGE).into_response(),
    }
}

/// Begins a session for a caller that sends the token.
pub(crate) async fn log_in(
    State(page): State<Arc<Page>>,
    headers: HeaderMap,
    form: Result<Form<LoginForm>, FormRejection>,
) -> Response {
    if !page.access.needs_token() {
        return Redirect::to("/").into_response();
    }
    if is_cross_site(&headers) {
        return again(StatusCode::FORBIDDEN, "Another site has sent this.");
    }
    let form = match form {
        Ok(Form(form)) => form,
        Err(rejection) => return again(rejection.status(), "That is not the form."),
    };
    match page.access.check_token(form.token.trim().as_bytes()).await {
        Ok(()) => {
            let seconds = SESSION_TTL.as_secs();
            let cookie = cookie(&page, &page.access.begin_session(), seconds);
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(StatusCode::TOO_MANY_REQUESTS) => again(
            StatusCode::TOO_MANY_REQUESTS,
            "Too many wrong tokens. Wait a moment.",
        ),
        Err(status) => again(status, "That is not the token."),
    }
}

/// Ends the caller's session.
pub(crate) async fn log_out(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
) -> Response {
    page.access.end_session(&caller);
    let cookie = cookie(&page, "", 0);
    (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response()
}

/// The form again, with the reason of the failure.
fn again(status: StatusCode, why: &str) -> Response {
    let why = format!("<p role=\"alert\">{why}</p>");
    let page = Html(PAGE.replace(WHY, &why));
    (status, page).into_response()
}

/// The session's cookie. Scripts cannot read it, and browsers do not send it for another site. It is
/// `Secure` only if browsers reach the page over TLS, because otherwise they would not keep it.
fn cookie(page: &Page, id: &str, seconds: u64) -> String {
    let secure = if page.is_tls() { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}")
}
