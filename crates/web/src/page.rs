//! The page: its routes, and what its requests share.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router};
use baton::inspect::Watch;
use serde_json::{Value, json};

use crate::access::hosts::Hosts;
use crate::access::origin::PublicUrl;
use crate::access::{Access, Caller, guard, login};
use crate::event_stream::{self, EventStreams};
use crate::failed::{self, FailedMessages};
use crate::http::layers;
use crate::{Options, assets, monitoring};

/// What all requests of the page share.
pub(crate) struct Page {
    pub(crate) watch: Watch,
    pub(crate) access: Access,
    pub(crate) hosts: Hosts,
    pub(crate) public_urls: Vec<PublicUrl>,
    pub(crate) allow_actions: bool,
    pub(crate) events: EventStreams,
    pub(crate) failed: FailedMessages,
}

impl Page {
    /// Whether browsers reach the page over TLS, according to its public URLs.
    pub(crate) fn is_tls(&self) -> bool {
        !self.public_urls.is_empty() && self.public_urls.iter().all(PublicUrl::is_tls)
    }
}

/// The routes of the page.
pub(crate) fn router(watch: Watch, options: Options, addr: SocketAddr) -> io::Result<Router> {
    let Options {
        token,
        allow_actions,
        hosts,
        public_urls,
    } = options;
    if token.is_none() && !addr.ip().is_loopback() {
        let why = "serving other machines needs a token";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let page = Arc::new(Page {
        watch,
        access: Access::new(token.as_deref())?,
        hosts: Hosts::new(addr, &hosts, &public_urls, token.is_some()),
        public_urls,
        allow_actions,
        events: EventStreams::default(),
        failed: FailedMessages::default(),
    });
    let actions_allowed = from_fn_with_state(Arc::clone(&page), guard::require_actions);
    let own_page = from_fn_with_state(Arc::clone(&page), guard::require_own_page);
    // A layer that is added later runs first.
    let action = |route: MethodRouter<Arc<Page>>| {
        route
            .route_layer(own_page.clone())
            .route_layer(actions_allowed.clone())
    };
    let protected = Router::new()
        .route("/", get(assets::index))
        .route("/api/session", get(session))
        .route("/api/events", get(event_stream::events))
        .route("/api/trend", get(trend))
        .route("/api/errors", get(failed::search))
        .route("/api/errors/{id}", get(failed::message))
        .route("/metrics", get(metrics))
        .route("/api/errors/take", action(post(failed::take)))
        .route("/api/errors/take/{take}", action(post(failed::end_take)))
        .route("/api/errors/take/{take}/file", get(failed::take_file))
        .route("/api/errors/settle", action(post(failed::settle)))
        .route(
            "/logout",
            post(login::log_out).route_layer(own_page.clone()),
        )
        .route_layer(from_fn_with_state(Arc::clone(&page), guard::require_caller));
    let form = get(login::form).post(login::log_in);
    let under_allowed_host = Router::new()
        .route("/assets/{name}", get(assets::asset))
        .route(
            "/login",
            form.layer(DefaultBodyLimit::max(login::MAX_FORM_BYTES)),
        )
        .merge(protected)
        .fallback(layers::not_found)
        .layer(from_fn_with_state(Arc::clone(&page), guard::require_host));
    // Probes use any address they find, and their answers are not secret.
    Ok(Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(under_allowed_host)
        .layer(DefaultBodyLimit::max(layers::MAX_BODY_BYTES))
        .layer(from_fn(layers::deadline))
        .layer(from_fn(layers::whole_body))
        .layer(from_fn(layers::security_headers))
        .with_state(page))
}

/// What the page needs to know before all else.
async fn session(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
) -> Json<Value> {
    Json(json!({
        "actions": page.allow_actions,
        "csrf": page.access.csrf(&caller).unwrap_or_default(),
        "login": page.access.needs_token(),
        "fleet": page.watch.view().fleet,
        "place": page.watch.place(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

async fn trend(State(page): State<Arc<Page>>) -> Response {
    let view = page.watch.view();
    let points: Vec<_> = view.trend.points().collect();
    Json(json!({ "points": points })).into_response()
}

async fn metrics(State(page): State<Arc<Page>>) -> Response {
    monitoring::metrics(&page.watch.view(), None)
}

async fn healthz(State(page): State<Arc<Page>>) -> Response {
    monitoring::health(&page.watch.view())
}

async fn readyz(State(page): State<Arc<Page>>) -> Response {
    monitoring::readiness(&page.watch.view())
}
