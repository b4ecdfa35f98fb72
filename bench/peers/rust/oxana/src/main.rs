//! Oxana.
//!
//! `enqueue`: `enqueue_list`, 1,000 jobs a call.
//! `count`: a batch worker (100 jobs, or what has come within 10 ms), which was faster than one job
//! a call, a concurrency of 400 (of 10, 50, 200, 400 and 1,000), and a poll every 10 ms when idle
//! instead of every 10 s. Built without the Sentry and tracing features: nothing here uses them.
//! `hold`: the quick start: one job a call, a concurrency of 2, all timings at their defaults.
//! Every worker looks every 2 s for processes without a heartbeat for 5 s.

use contract::Command;
use oxana::{BatchItem, JobContext, Storage};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
enum Never {}

#[derive(Clone)]
struct Context;

#[derive(Serialize, Deserialize, oxana::Job)]
struct TextJob {
    text: String,
}

#[derive(oxana::Queue)]
#[oxana(key = "bench", concurrency = 2)]
struct Texts;

#[derive(oxana::Worker)]
#[oxana(job = TextJob, context = Context, error = Never, registry = None)]
#[oxana(batch_size = 100, batch_timeout_ms = 10)]
struct Count;

impl Count {
    async fn process_batch(&self, jobs: Vec<BatchItem<TextJob>>) -> Result<(), Never> {
        jobs.iter().for_each(|_| contract::done());
        Ok(())
    }
}

#[derive(oxana::Worker)]
#[oxana(job = TextJob, context = Context, error = Never, registry = None)]
struct Hold;

impl Hold {
    async fn process(&self, _job: TextJob, _context: &JobContext) -> Result<(), Never> {
        contract::hold().await;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> contract::Result {
    match contract::command()? {
        Command::Enqueue { url, count, size } => {
            let storage = Storage::from_url(url)?;
            for texts in contract::bulks(count, size, 1000) {
                let jobs = texts.into_iter().map(|text| TextJob { text });
                storage.enqueue_list(Texts, jobs).await?;
            }
        }
        Command::Count { url } => {
            let runtime = Storage::from_url(url)?
                .runtime(Context)
                .queue_with_concurrency::<Texts>(400)
                .dequeue_timeout(Duration::from_millis(10))
                .worker::<Count, TextJob>();
            contract::ready();
            runtime.run().await?;
        }
        Command::Hold { url } => {
            let runtime = Storage::from_url(url)?
                .runtime(Context)
                .queue::<Texts>()
                .worker::<Hold, TextJob>();
            contract::ready();
            runtime.run().await?;
        }
    }
    Ok(())
}
