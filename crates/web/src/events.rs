//! Telling browsers of every reading, as server-sent events.

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
use crate::answer::Refusal;
use crate::page::Page;

/// Streams at a time.
pub(crate) const STREAMS: usize = 64;
/// After so long without a reading, a line says that the stream lives.
const QUIET: Duration = Duration::from_secs(15);

/// What a browser is told.
#[derive(Serialize)]
struct Event<'a> {
    snapshot: Option<&'a Snapshot>,
    age_ms: Option<u64>,
    trouble: Option<&'a str>,
    health: &'a Health,
    /// Messages per second of each node.
    rates: BTreeMap<&'a str, f64>,
    /// What came to the charts with this reading.
    point: Option<&'a Point>,
}

/// The streams, and the latest event.
pub(crate) struct Events {
    permits: Arc<Semaphore>,
    /// The reading and what it reads like: written once, however many streams send it.
    latest: Mutex<Option<(Arc<View>, Bytes)>>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(STREAMS)),
            latest: Mutex::default(),
        }
    }
}

impl Events {
    /// A reading as an event.
    fn event(&self, seen: &Arc<View>) -> Bytes {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((known, event)) if Arc::ptr_eq(known, seen) => event.clone(),
            _ => {
                let event = write(seen);
                *latest = Some((Arc::clone(seen), event.clone()));
                event
            }
        }
    }
}

fn write(seen: &View) -> Bytes {
    let snapshot = seen.snapshot.as_deref();
    let nodes = snapshot.map_or(&[][..], |snapshot| &snapshot.nodes);
    let at_ms = snapshot.map(|snapshot| snapshot.now_ms);
    let event = Event {
        snapshot,
        age_ms: seen.at.map(|at| at.elapsed().as_millis() as u64),
        trouble: seen.trouble.as_deref(),
        health: &seen.health,
        rates: nodes
            .iter()
            .map(|node| (node.node.as_str(), seen.trend.per_s(&node.node)))
            .collect(),
        // Not once more while Redis is away.
        point: seen
            .trend
            .points()
            .next_back()
            .filter(|point| Some(point.at_ms) == at_ms && seen.trouble.is_none()),
    };
    // Neither numbers nor texts can fail to become JSON, and it has no line breaks of its own.
    let json = serde_json::to_string(&event).unwrap_or_else(|_| "{}".to_owned());
    format!("event: seen\ndata: {json}\n\n").into()
}

/// One browser's stream.
struct Stream {
    page: Arc<Page>,
    caller: Caller,
    views: Views,
    _permit: OwnedSemaphorePermit,
}

impl Stream {
    /// What to send next; none when it is over.
    async fn next(&mut self) -> Option<Bytes> {
        match timeout(QUIET, self.views.next()).await {
            Err(_) => Some(Bytes::from_static(b":\n\n")),
            // Who has logged out hears no more.
            Ok(Some(view)) if self.page.access.still_knows(&self.caller) => {
                Some(self.page.events.event(&view))
            }
            Ok(_) => None,
        }
    }
}

/// Sends an event at once and one with every reading.
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
    let stream = Stream {
        page,
        caller,
        views,
        _permit: permit,
    };
    let body = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    // The second is for nginx, which would collect events before it passes them on.
    let kind = [
        (CONTENT_TYPE, "text/event-stream"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (kind, Body::from_stream(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(trouble: Option<&str>) -> Arc<View> {
        Arc::new({
            let mut made = View::default();
            made.fleet = "fleet".to_owned();
            made.snapshot = None;
            made.at = None;
            made.trouble = trouble.map(str::to_owned);
            made.trend = Arc::default();
            made.health = Health::default();
            made
        })
    }

    #[test]
    fn a_reading_is_written_once_however_many_hear_of_it() {
        let events = Events::default();
        let first = seen(None);
        let (one, other) = (events.event(&first), events.event(&first));
        assert_eq!(one.as_ptr(), other.as_ptr());
        let next = events.event(&seen(Some("two\nlines")));
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
