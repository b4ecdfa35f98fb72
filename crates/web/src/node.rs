//! The routes of a node: metrics and health, no page.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn;
use axum::routing::get;
use baton::inspect::{View, Watch};

use crate::http::layers;
use crate::{OwnNode, monitoring};

struct Node {
    watch: Watch,
    own: OwnNode,
}

/// The routes of a node. Its answers are not secret, so any caller may ask, under any host name.
pub(crate) fn router(watch: Watch, own: OwnNode) -> Router {
    let metrics = async |State(node): State<Arc<Node>>| {
        let counters = node.own.meter.counters();
        monitoring::metrics(&node.watch.view(), Some((&node.own.node, &counters)))
    };
    let healthz = async |State(node): State<Arc<Node>>| monitoring::health(&node.watch.view());
    let readyz = async |State(node): State<Arc<Node>>| {
        let view = node.watch.view();
        match trouble(&node.own).or_else(|| unconfirmed(&node.own, &view)) {
            Some(trouble) => monitoring::unavailable(&[trouble]),
            None => monitoring::readiness(&view),
        }
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(layers::not_found)
        .layer(from_fn(layers::whole_body))
        .layer(from_fn(layers::security_headers))
        .with_state(Arc::new(Node { watch, own }))
}

/// Why this node cannot work, although its watch may see the fleet: it may read Redis but not write,
/// Redis's memory is full, or the program or service of its handler is missing.
fn trouble(own: &OwnNode) -> Option<String> {
    let redis = own.meter.redis_trouble();
    let redis = redis.map(|trouble| format!("this node cannot use Redis: {trouble}"));
    let publish = || {
        let refused = own.meter.publish_trouble();
        refused.map(|trouble| format!("the server refuses the messages of this node: {trouble}"))
    };
    redis.or_else(publish).or_else(|| {
        let handler = own.meter.handler_trouble();
        handler.map(|trouble| format!("the handler of this node cannot work: {trouble}"))
    })
}

/// Why writes of this node are not confirmed, as its last beat says.
fn unconfirmed(own: &OwnNode, view: &View) -> Option<String> {
    let mut nodes = view.snapshot.as_ref()?.nodes.iter();
    let node = nodes.find(|node| node.node == own.node)?;
    let trouble = node.durability_trouble.as_ref()?;
    Some(format!(
        "the writes of this node are not confirmed: {trouble}"
    ))
}

#[cfg(test)]
mod tests {
    use baton::inspect::{Meter, NodeStatus, Snapshot};

    use super::*;

    #[test]
    fn a_node_whose_writes_are_not_confirmed_is_not_ready_and_the_others_are() {
        let mut own = OwnNode {
            node: "own".to_owned(),
            meter: Arc::new(Meter::default()),
        };
        let mut node = NodeStatus::default();
        node.node = "own".to_owned();
        node.durability_trouble = Some("1 of 2 replicas have the writes".to_owned());
        let mut snapshot = Snapshot::default();
        snapshot.nodes = vec![node];
        let mut view = View::default();
        assert_eq!(unconfirmed(&own, &view), None);
        view.snapshot = Some(Arc::new(snapshot));
        assert_eq!(
            unconfirmed(&own, &view).as_deref(),
            Some("the writes of this node are not confirmed: 1 of 2 replicas have the writes")
        );
        own.node = "other".to_owned();
        assert_eq!(unconfirmed(&own, &view), None);
    }
}
