//! Sidekiq for Rust.
//!
//! `enqueue`: there is no bulk call, so 50 tasks call `perform_async` side by side, each with a
//! connection of the pool to itself.
//! `count`: 25 worker tasks (of 10, 25, 50 and 100) and a pool of 100 connections: a task that
//! waits for a job keeps its connection, and those that have one need further ones.
//! `hold`: the README as it is. A job is taken with BRPOP, so a killed worker takes it along:
//! nothing in this crate brings it back.

use async_trait::async_trait;
use contract::{Command, Result};
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker};
use tokio::task::JoinSet;

const QUEUE: &str = "bench";
const CLASS: &str = "Text";
const LANES: usize = 50;

struct Count;

#[async_trait]
impl Worker<String> for Count {
    fn class_name() -> String {
        CLASS.into()
    }

    async fn perform(&self, _text: String) -> sidekiq::Result<()> {
        contract::done();
        Ok(())
    }
}

struct Hold;

#[async_trait]
impl Worker<String> for Hold {
    fn class_name() -> String {
        CLASS.into()
    }

    async fn perform(&self, _text: String) -> sidekiq::Result<()> {
        contract::hold().await;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result {
    match contract::command()? {
        Command::Enqueue { url, count, size } => {
            let redis = pool(url, LANES as u32).await?;
            let mut lanes = JoinSet::new();
            for texts in contract::bulks(count, size, count.div_ceil(LANES).max(1)) {
                lanes.spawn(enqueue(redis.clone(), texts));
            }
            while let Some(lane) = lanes.join_next().await {
                lane??;
            }
            Ok(())
        }
        Command::Count { url } => {
            let config = ProcessorConfig::default().num_workers(25);
            let mut processor =
                Processor::new(pool(url, 100).await?, vec![QUEUE.into()]).with_config(config);
            processor.register(Count);
            run(processor).await
        }
        Command::Hold { url } => {
            let manager = RedisConnectionManager::new(url)?;
            let redis = bb8::Pool::builder().build(manager).await?;
            let mut processor = Processor::new(redis, vec![QUEUE.into()]);
            processor.register(Hold);
            run(processor).await
        }
    }
}

async fn enqueue(redis: RedisPool, texts: Vec<String>) -> sidekiq::Result<()> {
    for text in texts {
        sidekiq::perform_async(&redis, CLASS.into(), QUEUE.into(), text).await?;
    }
    Ok(())
}

async fn run(processor: Processor) -> Result {
    contract::ready();
    processor.run().await;
    Ok(())
}

async fn pool(url: String, size: u32) -> Result<RedisPool> {
    let manager = RedisConnectionManager::new(url)?;
    Ok(bb8::Pool::builder().max_size(size).build(manager).await?)
}
