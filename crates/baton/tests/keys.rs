//! A message's key: the one that its source gave it in every attempt, or else never that of another
//! message, also when Redis loses its data.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::inspect::FailedCursor;
use baton::{
    Backoff, Batch, Effects, Event, FleetName, Flow, Handler, HandlerError, Inspector, Message,
    Node, Position, Rejected, Source, SourceError, Target, Warning, interval,
};
use baton_server::PrivateServer;
use tokio::sync::oneshot;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A generator keeps 8 MiB of what it published, and publishes that again. What comes before is lost.
const TEXT_BYTES: usize = 64 << 10;
const MESSAGES: usize = 400;

/// Makes texts that no other message has.
fn unique(made: Arc<AtomicU64>) -> impl Source {
    interval(Duration::ZERO, move |_, text| {
        let number = made.fetch_add(1, Ordering::Relaxed);
        text.extend_from_slice(format!("{number:08}").as_bytes());
        text.resize(TEXT_BYTES, b'x');
    })
}

/// What the handlers got: the texts of each key and of each number.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(Texts<String>, Texts<u64>)>>);

type Texts<K> = BTreeMap<K, BTreeSet<Vec<u8>>>;

impl Handler for Seen {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let (of_keys, of_numbers) = &mut *self.0.lock().unwrap();
        let text = || message.text[..8].to_vec();
        let key = message.key().to_string();
        of_keys.entry(key).or_default().insert(text());
        of_numbers.entry(message.seq).or_default().insert(text());
        Ok(())
    }
}

/// How many messages were handled, and how often a number had another text than before.
#[derive(Clone, Copy)]
struct Counts {
    handled: usize,
    renumbered: usize,
}

impl Seen {
    fn counts(&self) -> Counts {
        let (of_keys, of_numbers) = &*self.0.lock().unwrap();
        let texts: usize = of_numbers.values().map(BTreeSet::len).sum();
        Counts {
            handled: of_keys.len(),
            renumbered: texts - of_numbers.len(),
        }
    }

    async fn until(&self, what: &str, fits: impl Fn(Counts) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !fits(self.counts()) {
            assert!(Instant::now() < deadline, "in vain: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_number_that_gets_another_text_gets_another_key() {
    let server = PrivateServer::builder().start().unwrap();
    let target = Target::parse(&server.url()).unwrap();
    let settings = Node::builder(FleetName::new("keys").unwrap()).max_pending(50);
    let (seen, made) = (Seen::default(), Arc::new(AtomicU64::new(0)));
    let mut redis = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .unwrap();
    for is_first in [true, false] {
        let mut nodes = Vec::new();
        for _ in 0..2 {
            let source = unique(Arc::clone(&made));
            let node = settings.clone().build(target.clone(), source, seen.clone());
            let node = node.unwrap();
            let (stop, stopped) = oneshot::channel();
            let stopped = async { stopped.await.unwrap_or_default() };
            let task = tokio::spawn(async move { node.run(stopped).await.unwrap() });
            nodes.push((stop, task));
        }
        let before = seen.counts();
        let enough = |now: Counts| now.handled >= before.handled + MESSAGES;
        seen.until("messages are handled", enough).await;
        for (stop, task) in nodes {
            stop.send(()).unwrap();
            task.await.unwrap();
        }
        let renumbered = seen.counts().renumbered;
        match is_first {
            true => assert_eq!(renumbered, 0),
            false => assert!(renumbered >= 20, "{renumbered}"),
        }
        // Redis loses everything, and no node lives that knows the numbers.
        let _: () = redis::cmd("FLUSHALL").query(&mut redis).unwrap();
    }
    let (of_keys, _) = &*seen.0.lock().unwrap();
    let shared: Vec<_> = of_keys
        .iter()
        .filter(|(_, texts)| texts.len() > 1)
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
}

/// Three messages in one pack. The middle one has no key of the source's.
struct Orders;

impl Source for Orders {
    async fn open(&mut self, _: Position<'_>) -> Result<(), SourceError> {
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        batch.push_keyed("order 1", b"one");
        batch.push(b"two");
        batch.push_keyed("заказ-3", b"three");
        Ok(Flow::End)
    }
}

/// Tries the third message twice, and then rejects it.
#[derive(Clone, Default)]
struct Tries(Arc<Mutex<Vec<(u64, u64, String)>>>);

impl Handler for Tries {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        let (seq, attempt) = (message.seq, message.attempt);
        let key = message.key().to_string();
        self.0.lock().unwrap().push((seq, attempt, key));
        match (seq, attempt) {
            (3, 1) => Err("later".into()),
            (3, _) => Err(Rejected::new("never").into()),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_message_has_the_key_of_its_source_in_every_attempt_and_when_it_failed() {
    let server = PrivateServer::builder().start().unwrap();
    let target = Target::parse(&server.url()).unwrap();
    let fleet = FleetName::new("keys").unwrap();
    let short = Duration::from_millis(1);
    let settings = Node::builder(fleet.clone()).backoff(Backoff::new(short, short));
    let tries = Tries::default();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let node = settings.clone();
        let node = node.build(target.clone(), Orders, tries.clone()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { stopped.await.unwrap_or_default() };
        let task = tokio::spawn(async move { node.run(stopped).await.unwrap() });
        nodes.push((stop, task));
    }
    let inspector = Inspector::connect(&target, &fleet).await.unwrap();
    for round in 0..2 {
        let deadline = Instant::now() + TIMEOUT;
        let failed = loop {
            let cursor = FailedCursor::OLDEST;
            let mut page = inspector.failed_messages(cursor, 10).await.unwrap();
            if let Some(failed) = page.messages.pop() {
                assert_eq!(page.messages, []);
                break failed;
            }
            assert!(Instant::now() < deadline, "in vain: round {round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let message = &failed.message;
        assert_eq!((message.seq, message.key.as_str()), (3, "заказ-3"));
        if round == 0 {
            assert_eq!(inspector.retry(&[failed.id]).await.retried, 1);
        }
    }
    for (stop, task) in nodes {
        stop.send(()).unwrap();
        task.await.unwrap();
    }
    let tries = tries.0.lock().unwrap();
    let of = |seq| -> Vec<(u64, &str)> {
        let mine = tries.iter().filter(move |(of, ..)| *of == seq);
        mine.map(|(_, attempt, key)| (*attempt, key.as_str()))
            .collect()
    };
    assert_eq!(of(1), [(1, "order 1")]);
    let [(1, made)] = of(2)[..] else {
        panic!("{:?}", of(2));
    };
    assert!(made.ends_with("-2") && made.len() == "k3v9x0a7qm-2".len());
    let key = "заказ-3";
    assert_eq!(of(3), [(1, key), (2, key), (1, key), (2, key)]);
}

#[tokio::test]
async fn a_key_that_no_handler_can_take_ends_the_source() {
    struct Wrong;
    impl Source for Wrong {
        async fn open(&mut self, _: Position<'_>) -> Result<(), SourceError> {
            Ok(())
        }

        async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
            batch.push(b"fine");
            batch.push_keyed("two\nlines", b"wrong");
            Ok(Flow::More)
        }
    }
    let server = PrivateServer::builder().start().unwrap();
    let target = Target::parse(&server.url()).unwrap();
    let (gave_up, mut reasons) = tokio::sync::mpsc::unbounded_channel();
    let settings = Node::builder(FleetName::new("keys").unwrap());
    let settings = settings.on_event(move |event| {
        if let Event::Warning(Warning::SourceGaveUp { reason }) = event {
            gave_up.send(reason.clone()).unwrap();
        }
    });
    let node = settings.build(target, Wrong, Seen::default()).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async { stopped.await.unwrap_or_default() };
    let task = tokio::spawn(async move { node.run(stopped).await.unwrap() });
    let reason = tokio::time::timeout(TIMEOUT, reasons.recv()).await.unwrap();
    assert_eq!(
        reason.unwrap(),
        "the source gave message #2 a wrong key: it has a control character"
    );
    stop.send(()).unwrap();
    task.await.unwrap();
}
