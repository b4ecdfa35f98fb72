//! Closures as handlers.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{
    Effects, Handler, HandlerError, Json, Message, OwnedMessage, Rejected, Source, blocking,
    handler,
};

/// Handles one message; returns how it ended and what it staged.
async fn handle(handler: &impl Handler, text: &[u8]) -> (Result<(), HandlerError>, Effects) {
    let mut effects = Effects::default();
    let ended = handler.handle(Message::new(7, text), &mut effects).await;
    (ended, effects)
}

#[derive(serde::Deserialize)]
struct Order {
    customer: String,
    amount: i64,
}

const ORDER: &[u8] = br#"{"customer": "Ada", "amount": 3}"#;

#[tokio::test]
async fn what_a_closure_returns_is_staged_and_what_it_captures_stays_with_it() {
    let calls = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&calls);
    let orders = handler(move |Json(order): Json<Order>| {
        seen.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut effects = Effects::default();
            effects.hincr_by("totals", order.customer, order.amount);
            Ok(effects)
        }
    });
    let mut expected = Effects::default();
    expected.hincr_by("totals", "Ada", 3);
    for _ in 0..2 {
        let (ended, effects) = handle(&orders, ORDER).await;
        ended.unwrap();
        assert_eq!(effects, expected);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_function_is_a_handler_and_may_take_the_message_beside_its_value() {
    async fn receive(
        (Json(order), message): (Json<Order>, OwnedMessage),
    ) -> Result<(), HandlerError> {
        assert_eq!((order.amount, message.seq, message.attempt), (3, 7, 1));
        assert_eq!(
            (message.text.as_slice(), message.key().to_string()),
            (ORDER, "test-7".into())
        );
        Ok(())
    }
    let (ended, effects) = handle(&handler(receive), ORDER).await;
    ended.unwrap();
    assert_eq!(effects, Effects::default());
}

#[tokio::test]
async fn a_text_that_is_not_the_json_is_rejected_with_the_reason_before_the_closure_runs() {
    let called = Arc::new(AtomicBool::new(false));
    let [a, b] = [Arc::clone(&called), Arc::clone(&called)];
    let waits = handler(move |_: Json<Order>| {
        a.store(true, Ordering::Relaxed);
        async { Ok(()) }
    });
    let blocks = blocking(move |_: Json<Order>| {
        b.store(true, Ordering::Relaxed);
        Ok(())
    });
    for (text, reason) in [
        (&b"{}"[..], "missing field `customer` at line 1 column 2"),
        (b"hello", "expected value at line 1 column 1"),
        (b"", "EOF while parsing a value at line 1 column 0"),
        (b"\xff", "expected value at line 1 column 1"),
    ] {
        for ended in [handle(&waits, text).await.0, handle(&blocks, text).await.0] {
            let error = ended.unwrap_err();
            assert!(error.is_final());
            let expected = format!("not the JSON that the handler takes: {reason}");
            assert_eq!(error.reason(), expected);
        }
    }
    assert!(!called.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_error_of_a_closure_means_later_and_a_rejection_is_final() {
    let number = handler(|message: OwnedMessage| async move {
        let number: u64 = std::str::from_utf8(&message.text)?.parse()?;
        match number {
            0 => Err(Rejected::new("zero").into()),
            _ => Ok(()),
        }
    });
    let number = &number;
    let ended = |text: &'static [u8]| async move {
        handle(number, text)
            .await
            .0
            .map_err(|error| error.is_final())
    };
    assert_eq!(ended(b"x").await, Err(false));
    assert_eq!(ended(b"0").await, Err(true));
    assert_eq!(ended(b"1").await, Ok(()));
}

#[tokio::test]
async fn a_blocking_closure_does_not_hold_up_the_thread_of_its_node() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Mutex::new(receiver);
    let waits = blocking(move |_: OwnedMessage| {
        receiver
            .lock()
            .unwrap()
            .recv_timeout(Duration::from_secs(20))?;
        let mut effects = Effects::default();
        effects.incr_by("waited", 1);
        Ok(effects)
    });
    // This task has the only thread of the runtime, so the closure must have another one.
    let (ended, ()) = tokio::join!(handle(&waits, b""), async { sender.send(()).unwrap() });
    ended.0.unwrap();
    assert_ne!(ended.1, Effects::default());
}

#[tokio::test]
async fn a_panic_of_a_blocking_closure_is_a_panic_of_its_handler() {
    let panics = Arc::new(blocking(|_: OwnedMessage| -> Result<(), HandlerError> {
        panic!("out of ink")
    }));
    let task = tokio::spawn(async move { drop(handle(&*panics, b"").await) });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"out of ink"));
}

/// Not a measure of speed: a copy of the text and no more is what a closure may cost.
#[test]
fn a_closure_costs_the_copy_of_its_message_and_no_more() {
    struct InPlace;
    impl Handler for InPlace {
        async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
            assert_eq!(message.text.len(), 5);
            Ok(())
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let allocations = |handler: &dyn Fn()| allocation_counter::measure(handler).count_total;
    let closure = handler(|message: OwnedMessage| async move {
        assert_eq!(message.text.len(), 5);
        Ok(())
    });
    let in_place = allocations(&|| drop(runtime.block_on(handle(&InPlace, b"hello"))));
    let copied = allocations(&|| drop(runtime.block_on(handle(&closure, b"hello"))));
    assert_eq!(copied - in_place, 2, "the text and the key");
}

#[allow(dead_code, reason = "it must compile")]
fn a_closure_builds_a_node(target: baton::Target, source: impl Source) -> Result<(), baton::Error> {
    let started = Instant::now();
    let fleet = baton::FleetName::new("closures")?;
    let node = baton::Node::builder(fleet).build(
        target,
        source,
        handler(move |_: OwnedMessage| async move {
            if started.elapsed() > Duration::from_secs(3600) {
                return Err("too old".into());
            }
            Ok(())
        }),
    )?;
    drop(node.run(async {}));
    Ok(())
}
