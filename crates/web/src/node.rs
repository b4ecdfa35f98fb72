//! Metrics and health, for programs; beside the page, or alone with a node.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use baton::inspect::{Counters, View, Watch};

use crate::{Own, guard};

struct Node {
    watch: Watch,
    own: Own,
}

/// The routes of a node. It has no secrets to tell, so everybody may ask, by any name.
pub(crate) fn router(watch: Watch, own: Own) -> Router {
    let metrics = async |State(node): State<Arc<Node>>| {
        let counters = node.own.meter.counters();
        exposition(&node.watch.view(), Some((&node.own.node, &counters)))
    };
    let healthz = async |State(node): State<Arc<Node>>| health(&node.watch.view());
    // A node that may read and not write is no use, though its watch sees all.
    let readyz = async |State(node): State<Arc<Node>>| match node.own.meter.redis_trouble() {
        Some(trouble) => unwell(&[format!("this node cannot use Redis: {trouble}")]),
        None => readiness(&node.watch.view()),
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(guard::nothing)
        .layer(from_fn(guard::whole))
        .layer(from_fn(guard::dress))
        .with_state(Arc::new(Node { watch, own }))
}

/// All metrics, as Prometheus reads them.
pub(crate) fn exposition(seen: &View, own: Option<(&str, &Counters)>) -> Response {
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, crate::prometheus::exposition(seen, own)).into_response()
}

/// Whether the fleet is well; if not, why, line by line.
pub(crate) fn health(seen: &View) -> Response {
    match seen.health.is_well() {
        true => "ok\n".into_response(),
        false => unwell(&seen.health.troubles),
    }
}

/// Whether the fleet is being read.
pub(crate) fn readiness(seen: &View) -> Response {
    match (&seen.trouble, &seen.snapshot) {
        (None, Some(_)) => "ok\n".into_response(),
        (Some(trouble), _) => unwell(std::slice::from_ref(trouble)),
        (None, None) => unwell(&["the fleet has not been read yet".to_owned()]),
    }
}

fn unwell(why: &[String]) -> Response {
    let lines: String = why
        .iter()
        .map(|line| format!("{}\n", line.replace(['\r', '\n'], " ")))
        .collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines).into_response()
}
