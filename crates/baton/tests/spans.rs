//! The feature `tracing`: each attempt at a message has a span, and what its handler does is in it.
//! `cargo test -p baton-fleet --features testing,tracing --test spans`

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Mutex;
use std::time::Duration;

use baton::testing::{Result, TestFleet};
use baton::{OwnedMessage, Rejected, Source, handler, interval};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The fields of each span by name, in the order of their ids.
static SPANS: Mutex<Vec<BTreeMap<String, String>>> = Mutex::new(Vec::new());

thread_local! {
    static ENTERED: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Collects the spans of messages. A field `said` has what a handler said in its span.
struct Collector;

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "baton" || metadata.target() == "spans"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut spans = SPANS.lock().unwrap();
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = SPANS.lock().unwrap();
        values.record(&mut Fields(&mut spans[span.into_u64() as usize - 1]));
    }

    fn event(&self, event: &Event<'_>) {
        let entered = ENTERED.with_borrow(|entered| entered.last().copied());
        let mut spans = SPANS.lock().unwrap();
        event.record(&mut Fields(&mut spans[entered.unwrap() as usize - 1]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, span: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, _: &Id) {
        ENTERED.with_borrow_mut(Vec::pop);
    }
}

fn numbers() -> impl Source {
    interval(Duration::ZERO, |seq, text| {
        text.extend_from_slice(seq.to_string().as_bytes());
    })
}

#[tokio::test]
async fn each_message_has_a_span_with_its_outcome_and_its_handler_runs_in_it() -> Result<()> {
    tracing::subscriber::set_global_default(Collector)?;
    let mut fleet = TestFleet::start(
        2,
        |settings| settings.messages(3),
        || {
            let handler = handler(|message: OwnedMessage| async move {
                // Another thread or task may run in between.
                tokio::task::yield_now().await;
                tracing::info!(target: "spans", said = message.seq);
                match message.seq {
                    2 => Err(Rejected::new("two").into()),
                    _ => Ok(()),
                }
            });
            (numbers(), handler)
        },
    )?;
    fleet.all_ended(3).await?;
    drop(fleet);
    let mut spans = SPANS.lock().unwrap().clone();
    spans.sort_by_key(|span| span["seq"].clone());
    assert_eq!(spans.len(), 3, "{spans:?}");
    for (span, seq) in spans.iter().zip(1u64..) {
        let seq = seq.to_string();
        assert_eq!(
            (span["fleet"].as_str(), span["attempt"].as_str()),
            ("test", "1")
        );
        assert_eq!((&span["seq"], &span["said"]), (&seq, &seq));
        assert!(span["key"].ends_with(&format!("-{seq}")) && !span["node"].is_empty());
    }
    let outcomes = spans
        .iter()
        .map(|span| (span["outcome"].as_str(), span.get("reason")));
    let two = "two".to_owned();
    let expected = [("done", None), ("rejected", Some(&two)), ("done", None)];
    assert_eq!(outcomes.collect::<Vec<_>>(), expected);
    Ok(())
}
