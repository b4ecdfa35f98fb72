//! The page: its routes, and the short answers.

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

use crate::access::{Access, Caller};
use crate::answer::Turns;
use crate::events::{self, Events};
use crate::hosts::Hosts;
use crate::look::Looks;
use crate::origin::PublicUrl;
use crate::takes::Takes;
use crate::{Options, assets, errors, guard, login, node};

/// What all requests share.
pub(crate) struct Page {
    pub(crate) watch: Watch,
    pub(crate) access: Access,
    pub(crate) hosts: Hosts,
    pub(crate) public_urls: Vec<PublicUrl>,
    pub(crate) allow_actions: bool,
    pub(crate) events: Events,
    pub(crate) looks: Looks,
    pub(crate) takes: Arc<Takes>,
    /// Who looks through the errors store, who reads one of it, who changes it.
    pub(crate) looking: Turns,
    pub(crate) reading: Turns,
    pub(crate) settling: Turns,
}

impl Page {
    /// Whether browsers come over TLS, as far as the server can know.
    pub(crate) fn is_tls(&self) -> bool {
        !self.public_urls.is_empty() && self.public_urls.iter().all(PublicUrl::is_tls)
    }
}

/// The routes.
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
        events: Events::default(),
        looks: Looks::default(),
        takes: Arc::default(),
        looking: Turns::default(),
        reading: Turns::default(),
        settling: Turns::default(),
    });
    let acting = from_fn_with_state(Arc::clone(&page), guard::acting);
    let ours = from_fn_with_state(Arc::clone(&page), guard::ours);
    // Of the last two layers, the last is asked first.
    let act =
        |act: MethodRouter<Arc<Page>>| act.route_layer(ours.clone()).route_layer(acting.clone());
    let known = Router::new()
        .route("/", get(assets::index))
        .route("/api/session", get(session))
        .route("/api/events", get(events::events))
        .route("/api/trend", get(trend))
        .route("/api/errors", get(errors::look))
        .route("/api/errors/{id}", get(errors::one))
        .route("/metrics", get(metrics))
        .route("/api/errors/take", act(post(errors::take)))
        .route("/api/errors/take/{take}", act(post(errors::end_take)))
        .route("/api/errors/take/{take}/file", get(errors::file))
        .route("/api/errors/settle", act(post(errors::settle)))
        .route("/logout", post(login::leave).route_layer(ours.clone()))
        .route_layer(from_fn_with_state(Arc::clone(&page), guard::known));
    let form = get(login::form).post(login::enter);
    let named = Router::new()
        .route("/assets/{name}", get(assets::asset))
        .route(
            "/login",
            form.layer(DefaultBodyLimit::max(login::FORM_BYTES)),
        )
        .merge(known)
        .fallback(guard::nothing)
        .layer(from_fn_with_state(Arc::clone(&page), guard::host));
    // Probes ask by whatever address they find, and are told nothing secret.
    Ok(Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(named)
        .layer(DefaultBodyLimit::max(guard::BODY_BYTES))
        .layer(from_fn(guard::deadline))
        .layer(from_fn(guard::whole))
        .layer(from_fn(guard::dress))
        .with_state(page))
}

/// What the page must know before it can ask for more.
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
    let seen = page.watch.view();
    let points: Vec<_> = seen.trend.points().collect();
    Json(json!({ "points": points })).into_response()
}

async fn metrics(State(page): State<Arc<Page>>) -> Response {
    node::exposition(&page.watch.view(), None)
}

async fn healthz(State(page): State<Arc<Page>>) -> Response {
    node::health(&page.watch.view())
}

async fn readyz(State(page): State<Arc<Page>>) -> Response {
    node::readiness(&page.watch.view())
}
