//! apalis with its Redis storage, 1.0.0.
//!
//! `enqueue`: `push_bulk`, 100 tasks a call. A fetch moves all that has been pushed since the last
//! one with a single `unpack`, which Lua refuses above some 8,000 tasks and which then ends the
//! worker: larger bulks and batches bring that nearer, and were no faster.
//! `count`: batches of 100 with a concurrency of 100. No locks, as the documentation advises for
//! short tasks (a lock scans the whole queue), and no events. Results stay on: without them a task
//! is never acknowledged. Without polling an idle worker looks for tasks at its heartbeats only,
//! every 30 s, so it polls every 10 ms.
//! `hold`: the README as it is, but for the name, which has to differ between two processes. Every
//! heartbeat (30 s) looks for orphans by itself, and a worker counts as dead after 10 missed ones.

use apalis::prelude::*;
use apalis_redis::{Client, ConnectionManager, RedisStorage};
use contract::{Command, Result};
use futures::stream::{self, Stream};
use redis::aio::ConnectionManagerConfig;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result {
    match contract::command()? {
        Command::Enqueue { url, count, size } => {
            let mut storage = RedisStorage::new(patient(url).await?);
            for texts in contract::bulks(count, size, 100) {
                storage.push_bulk(texts).await?;
            }
            Ok(())
        }
        Command::Count { url } => {
            let storage = RedisStorage::new(patient(url).await?);
            let config = storage
                .get_config()
                .clone()
                .batch_size(100)
                .lock_tasks(false)
                .emit_events(false);
            let backend = storage.with_config(config).poll_with_stream(ticks());
            let worker = WorkerBuilder::new(name())
                .backend(backend)
                .concurrency(100)
                .on_event(ready_at_start)
                .build(count);
            Ok(worker.run().await?)
        }
        Command::Hold { url } => {
            let worker = WorkerBuilder::new(name())
                .backend(RedisStorage::new(apalis_redis::connect(url).await?))
                .on_event(ready_at_start)
                .build(hold);
            Ok(worker.run().await?)
        }
    }
}

async fn count(_text: String) {
    contract::done();
}

async fn hold(_text: String) {
    contract::hold().await;
}

/// `apalis_redis::connect` waits 500 ms for a reply, and a worker ends at the first reply that is
/// later. A benchmark keeps its server busier than that.
async fn patient(url: String) -> Result<ConnectionManager> {
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
    let client = Client::open(url)?;
    Ok(client.get_connection_manager_with_config(config).await?)
}

/// `poll_with_interval`, but without its fault: a worker whose fetch takes longer than the interval
/// does not set its next alarm, and sleeps until its heartbeat. Here each tick wakes it once more.
fn ticks() -> impl Stream<Item = ()> + Unpin {
    let mut interval = tokio::time::interval(Duration::from_millis(10));
    stream::poll_fn(move |context| {
        interval.poll_tick(context).map(|_| {
            context.waker().wake_by_ref();
            Some(())
        })
    })
}

fn name() -> String {
    format!("worker-{}", std::process::id())
}

fn ready_at_start(_worker: &WorkerContext, event: &Event) {
    if let Event::Start = event {
        contract::ready();
    }
}
