//! Metrics and health, for programs.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::header::HeaderName;
use axum::response::{IntoResponse, Response};
use baton::inspect::{Counters, View};

use crate::prometheus;

/// All metrics, as Prometheus reads them.
pub(crate) fn metrics(view: &View, own: Option<(&str, &Counters)>) -> Response {
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, prometheus::exposition(view, own)).into_response()
}

/// The header by which `baton health` knows an answer of Baton: many a program answers `/healthz`.
pub const ANSWER_HEADER: &str = "baton-answer";

const ANSWER: HeaderName = HeaderName::from_static(ANSWER_HEADER);

/// Whether the fleet is well; if not, its troubles, one per line.
pub(crate) fn health(view: &View) -> Response {
    match view.health.is_well() {
        true => yes(),
        false => unavailable(&view.health.troubles),
    }
}

/// Whether the latest attempt to read the fleet succeeded.
pub(crate) fn readiness(view: &View) -> Response {
    match (&view.trouble, &view.snapshot) {
        (None, Some(_)) => yes(),
        (Some(trouble), _) => unavailable(std::slice::from_ref(trouble)),
        (None, None) => unavailable(&["the fleet has not been read yet".to_owned()]),
    }
}

/// An answer for probes that says yes.
fn yes() -> Response {
    ([(ANSWER, "yes")], "ok\n").into_response()
}

/// An answer for probes that says no, with one reason per line.
pub(crate) fn unavailable(reasons: &[String]) -> Response {
    let lines: String = reasons
        .iter()
        .map(|reason| format!("{}\n", reason.replace(['\r', '\n'], " ")))
        .collect();
    (StatusCode::SERVICE_UNAVAILABLE, [(ANSWER, "no")], lines).into_response()
}
