//! BullMQ's own port to Rust, with the same Lua scripts as BullMQ for Node.
//!
//! `enqueue`: `add_bulk`, which sends all of its jobs at once over one connection; 100 a call was a
//! little faster than 1,000 and than 10,000.
//! `count`: a concurrency of 50 (of 2, 10, 20, 50, 100 and 1,000) and `remove_on_complete`, so that
//! the server does not keep what is done.
//! `hold`: `WorkerOptions::default()`: a lock of 30 s, renewed every 15 s, and a search for stalled
//! jobs every 30 s, which every worker runs by itself.

use bullmq::options::RedisConnectionOptions;
use bullmq::types::RemoveOnFinish;
use bullmq::{BulkJob, Job, Queue, QueueOptions, Worker, WorkerOptions};
use contract::{Command, Result};
use serde_json::{Value, json};

const QUEUE: &str = "bench";

#[tokio::main]
async fn main() -> Result {
    match contract::command()? {
        Command::Enqueue { url, count, size } => {
            let options = QueueOptions::new().connection(connection(url));
            let queue = Queue::with_options(QUEUE, options).await?;
            for texts in contract::bulks(count, size, 100) {
                let jobs = texts
                    .into_iter()
                    .map(|text| BulkJob::new("job", json!({ "text": text })))
                    .collect();
                queue.add_bulk(jobs).await?;
            }
            Ok(())
        }
        Command::Count { url } => {
            let options = WorkerOptions::new()
                .connection(connection(url))
                .concurrency(50)
                .remove_on_complete(RemoveOnFinish::Bool(true));
            let count = |_job: Job, _token| async {
                contract::done();
                Ok(Value::Null)
            };
            run(Worker::with_options(QUEUE, count, options).await?).await
        }
        Command::Hold { url } => {
            let options = WorkerOptions::new().connection(connection(url));
            let hold = |_job: Job, _token| async {
                contract::hold().await;
                Ok(Value::Null)
            };
            run(Worker::with_options(QUEUE, hold, options).await?).await
        }
    }
}

/// The worker runs in tasks of its own, for as long as it is not dropped.
async fn run(_worker: Worker) -> Result {
    contract::ready();
    std::future::pending().await
}

fn connection(url: String) -> RedisConnectionOptions {
    RedisConnectionOptions {
        url,
        ..Default::default()
    }
}
