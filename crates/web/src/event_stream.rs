//! Streams of server-sent events: each browser gets an event with every view of the fleet.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use baton::inspect::{Health, Point, Snapshot, View, Views};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::access::Caller;
use crate::http::Refusal;
use crate::page::Page;

/// At most this many streams at a time.
const MAX_STREAMS: usize = 64;
/// After this time without an event, the server sends a comment to keep the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The JSON of an event.
#[derive(Serialize)]
struct Event<'a> {
    snapshot: Option<&'a Snapshot>,
    age_ms: Option<u64>,
    trouble: Option<&'a str>,
    health: &'a Health,
    /// Messages per second, by node.
    rates: BTreeMap<&'a str, f64>,
    /// The new point of the charts; none if this event has no new snapshot.
    point: Option<&'a Point>,
}

/// What all streams share.
pub(crate) struct EventStreams {
    permits: Arc<Semaphore>,
    /// The latest view and its event, which is written once for all streams.
    latest: Mutex<Option<(Arc<View>, Bytes)>>,
}

impl Default for EventStreams {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_STREAMS)),
            latest: Mutex::default(),
        }
    }
}

impl EventStreams {
    /// The event of a view.
    fn event(&self, view: &Arc<View>) -> Bytes {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((known, event)) if Arc::ptr_eq(known, view) => event.clone(),
            _ => {
                let event = write(view);
                *latest = Some((Arc::clone(view), event.clone()));
                event
            }
        }
    }
}

fn write(view: &View) -> Bytes {
    let snapshot = view.snapshot.as_deref();
    let nodes = snapshot.map_or(&[][..], |snapshot| &snapshot.nodes);
    let at_ms = snapshot.map(|snapshot| snapshot.now_ms);
    let event = Event {
        snapshot,
        age_ms: view.at.map(|at| at.elapsed().as_millis() as u64),
        trouble: view.trouble.as_deref(),
        health: &view.health,
        rates: nodes
            .iter()
            .map(|node| (node.node.as_str(), view.trend.per_s(&node.node)))
            .collect(),
        // While Redis is away, the last point is not new.
        point: view
            .trend
            .points()
            .next_back()
            .filter(|point| Some(point.at_ms) == at_ms && view.trouble.is_none()),
    };
    // Numbers and texts always have a JSON form, and it has no line breaks.
    let json = serde_json::to_string(&event).unwrap_or_else(|_| "{}".to_owned());
    format!("event: seen\ndata: {json}\n\n").into()
}

/// One browser's stream.
struct EventStream {
    page: Arc<Page>,
    caller: Caller,
    views: Views,
    _permit: OwnedSemaphorePermit,
}

impl EventStream {
    /// The next bytes to send; none at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        match timeout(KEEP_ALIVE, self.views.next()).await {
            Err(_) => Some(Bytes::from_static(b":\n\n")),
            // The stream ends when the browser logs out.
            Ok(Some(view)) if self.page.access.is_valid(&self.caller) => {
                Some(self.page.events.event(&view))
            }
            Ok(_) => None,
        }
    }
}

/// Sends an event at once, and one with every view.
pub(crate) async fn events(
    State(page): State<Arc<Page>>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let Ok(permit) = Arc::clone(&page.events.permits).try_acquire_owned() else {
        let why = "too many pages are open";
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why);
        return ([(RETRY_AFTER, "5")], refusal).into_response();
    };
    let views = page.watch.views();
    let stream = EventStream {
        page,
        caller,
        views,
        _permit: permit,
    };
    let body = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    // The second header is for nginx, which would otherwise buffer the events.
    let kind = [
        (CONTENT_TYPE, "text/event-stream"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (kind, Body::from_stream(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(trouble: Option<&str>) -> Arc<View> {
        let mut view = View::default();
        view.trouble = trouble.map(str::to_owned);
        Arc::new(view)
    }

    #[test]
    fn a_view_is_written_once_for_all_streams() {
        let streams = EventStreams::default();
        let first = view(None);
        let (one, other) = (streams.event(&first), streams.event(&first));
        assert_eq!(one.as_ptr(), other.as_ptr());
        let next = streams.event(&view(Some("two\nlines")));
        assert_eq!(
            std::str::from_utf8(&next).unwrap(),
            concat!(
                "event: seen\ndata: ",
                r#"{"snapshot":null,"age_ms":null,"trouble":"two\nlines","#,
                r#""health":{"troubles":[]},"rates":{},"point":null}"#,
                "\n\n"
            )
        );
    }
}
