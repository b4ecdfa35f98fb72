//! Refusals: a status, and the reason in words.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why the server does not do what a request asks for.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) StatusCode, pub(crate) String);

impl Refusal {
    /// A refusal with this reason.
    pub(crate) fn new(status: StatusCode, why: &str) -> Self {
        Self(status, why.to_owned())
    }
}

impl From<baton::Error> for Refusal {
    fn from(error: baton::Error) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}
