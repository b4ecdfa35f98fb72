//! A consumer group on a Redis stream, by hand, as the Redis documentation teaches it.
//!
//! `enqueue`: pipelines of 1,000 XADDs.
//! `count`: XREADGROUP COUNT 1000 (of 100, 500 and 1,000), then XACK and XDEL of all of them in one
//! pipeline: XDEL, because an acknowledged entry would stay in the stream for ever.
//! `hold`: reads of at most 10 entries that block for 2 s, as in the tutorial's consumer, each
//! after an XAUTOCLAIM of what has been idle for 60 s, the tutorial's figure too.
//! <https://redis.io/docs/latest/develop/data-types/streams/>

use contract::{Command, Result};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, AsyncConnectionConfig, RedisResult};

const STREAM: &str = "bench";
const GROUP: &str = "workers";

#[tokio::main]
async fn main() -> Result {
    match contract::command()? {
        Command::Enqueue { url, count, size } => {
            let mut redis = connect(&url).await?;
            for texts in contract::bulks(count, size, 1000) {
                let mut pipeline = redis::pipe();
                for text in texts {
                    pipeline.xadd(STREAM, "*", &[("text", text)]).ignore();
                }
                pipeline.exec_async(&mut redis).await?;
            }
            Ok(())
        }
        Command::Count { url } => {
            let mut redis = join(&url).await?;
            loop {
                let entries = read(&mut redis, 1000).await?;
                entries.iter().for_each(|_| contract::done());
                finish(&mut redis, &entries).await?;
            }
        }
        Command::Hold { url } => {
            let mut redis = join(&url).await?;
            loop {
                let mut entries = claim(&mut redis).await?;
                entries.extend(read(&mut redis, 10).await?);
                for entry in entries {
                    contract::hold().await;
                    finish(&mut redis, &[entry]).await?;
                }
            }
        }
    }
}

async fn connect(url: &str) -> Result<MultiplexedConnection> {
    // The default of 500 ms would end a read that blocks.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let client = redis::Client::open(url)?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

async fn join(url: &str) -> Result<MultiplexedConnection> {
    let mut redis = connect(url).await?;
    let created: RedisResult<()> = redis.xgroup_create_mkstream(STREAM, GROUP, "0").await;
    match created {
        // Another worker was here first.
        Err(error) if error.code() == Some("BUSYGROUP") => {}
        created => created?,
    }
    contract::ready();
    Ok(redis)
}

fn consumer() -> String {
    std::process::id().to_string()
}

async fn read(redis: &mut MultiplexedConnection, count: usize) -> Result<Vec<StreamId>> {
    let options = StreamReadOptions::default()
        .group(GROUP, consumer())
        .count(count)
        .block(2000);
    let reply: Option<StreamReadReply> = redis.xread_options(&[STREAM], &[">"], &options).await?;
    let streams = reply.map(|reply| reply.keys).unwrap_or_default();
    Ok(streams.into_iter().flat_map(|stream| stream.ids).collect())
}

async fn claim(redis: &mut MultiplexedConnection) -> Result<Vec<StreamId>> {
    let min_idle_ms = 60_000;
    let options = Default::default();
    let reply: StreamAutoClaimReply = redis
        .xautoclaim_options(STREAM, GROUP, consumer(), min_idle_ms, "0-0", options)
        .await?;
    Ok(reply.claimed)
}

async fn finish(redis: &mut MultiplexedConnection, entries: &[StreamId]) -> Result {
    if entries.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    redis::pipe()
        .xack(STREAM, GROUP, &ids)
        .xdel(STREAM, &ids)
        .exec_async(redis)
        .await?;
    Ok(())
}
