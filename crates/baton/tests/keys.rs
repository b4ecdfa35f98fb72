//! A message's key is never that of another message, also when Redis loses its data.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Source, Target, interval};
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
    let mut redis = redis::Client::open(server.url())
        .and_then(|client| client.get_connection())
        .unwrap();
    // Redis loses everything, and then the last writes as with a failover: a new reign, and a gap.
    for loss in ["FLUSHALL", "HSET baton:{keys:0}:fence last 1"] {
        let before = seen.counts();
        let enough = |now: Counts| now.handled >= before.handled + MESSAGES;
        seen.until("messages are handled", enough).await;
        let mut words = loss.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        let _: redis::Value = command
            .arg(words.collect::<Vec<_>>())
            .query(&mut redis)
            .unwrap();
        let before = seen.counts();
        let twice = |now: Counts| now.renumbered >= before.renumbered + 20;
        seen.until("numbers get other texts", twice).await;
    }
    for (stop, task) in nodes {
        stop.send(()).unwrap();
        task.await.unwrap();
    }
    let (of_keys, _) = &*seen.0.lock().unwrap();
    let shared: Vec<_> = of_keys
        .iter()
        .filter(|(_, texts)| texts.len() > 1)
        .collect();
    assert!(shared.is_empty(), "{shared:?}");
}
