//! The copies of an unsafe queue: one produces, the others consume.
//!
//! Each reads the server's clock beside its first push and beside the end of each batch, as the
//! scripts of a fleet do. Only a copy that is asked to record its times sends them to the server,
//! and only when it has nothing else to do.

use std::time::Duration;

use anyhow::{Result, bail};
use baton::Target;
use futures_util::StreamExt;
use futures_util::future::Either;
use futures_util::stream::FuturesOrdered;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use super::{Queue, RecordedTime};

/// Concurrent calls of the producer, as many as a generator has.
const WINDOW: usize = 8;
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a consumer that found no message waits for one.
const EMPTY_WAIT_S: f64 = 0.05;

/// The answer to `TIME`: seconds and µs.
type Time = (u64, u64);

fn micros((seconds, us): Time) -> u64 {
    seconds * 1_000_000 + us
}

/// Opens a connection like those of a node.
async fn connect(target: &Target) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let masters = baton_protocol::masters(target).await?;
    let [master] = &masters[..] else {
        bail!("an unsafe queue needs one server, not {}", masters.len());
    };
    Ok(master
        .client()
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// Pushes messages, `batch` at a time. Records when the first push took effect if `times` says so.
pub async fn produce(
    target: &Target,
    queue: &Queue,
    messages: u64,
    batch: u64,
    times: bool,
    mut generate: impl FnMut(&mut Vec<u8>),
) -> Result<()> {
    let mut connection = connect(target).await?;
    let push = |command: redis::Cmd| {
        let mut connection = connection.clone();
        async move {
            let answer = connection.send_packed_command(&command).await;
            answer?.extract_error().map(|_| None)
        }
    };
    // In one transaction, so that the clock is read when the whole batch has arrived.
    let push_timed = |command: redis::Cmd| {
        let mut connection = connection.clone();
        async move {
            let mut calls = redis::pipe();
            calls.atomic().cmd("TIME").add_command(command).ignore();
            let (time,): (Time,) = calls.query_async(&mut connection).await?;
            redis::RedisResult::Ok(Some(micros(time)))
        }
    };
    let mut began_us = None;
    let mut under_way = FuturesOrdered::new();
    let mut text = Vec::new();
    let mut left = messages;
    while left > 0 {
        let count = left.min(batch);
        let mut command = redis::cmd("RPUSH");
        command.arg(&queue.messages);
        for _ in 0..count {
            text.clear();
            generate(&mut text);
            command.arg(&text);
        }
        under_way.push_back(match left == messages {
            true => Either::Left(push_timed(command)),
            false => Either::Right(push(command)),
        });
        left -= count;
        if under_way.len() == WINDOW
            && let Some(time) = under_way.next().await.transpose()?
        {
            began_us = began_us.or(time);
        }
    }
    while let Some(time) = under_way.next().await {
        began_us = began_us.or(time?);
    }
    if let (true, Some(at_us)) = (times, began_us) {
        let record = RecordedTime { ended: 0, at_us };
        let mut command = redis::cmd("RPUSH");
        command.arg(&queue.times).arg(record.line());
        command.exec_async(&mut connection).await?;
    }
    Ok(())
}

/// Pops messages, `batch` at a time, for ever. `handle` says whether a message is faulty. A
/// faulty message is kept, as a node keeps it. One call ends a batch and pops the next one.
/// Records when its messages ended if `times` says so.
pub async fn consume(
    target: &Target,
    queue: &Queue,
    batch: u64,
    times: bool,
    handle: impl Fn(&[u8]) -> bool,
) -> Result<()> {
    let mut connection = connect(target).await?;
    let mut popped: Vec<Vec<u8>> = Vec::new();
    let mut record = RecordedTime { ended: 0, at_us: 0 };
    loop {
        let mut calls = redis::pipe();
        calls.cmd("TIME");
        if !popped.is_empty() {
            let failed: Vec<&Vec<u8>> = popped.iter().filter(|text| handle(text)).collect();
            if !failed.is_empty() {
                calls.cmd("RPUSH").arg(&queue.errors).arg(failed).ignore();
            }
            calls.cmd("INCRBY").arg(&queue.ended).arg(popped.len());
            calls.ignore();
        }
        calls.cmd("LPOP").arg(&queue.messages).arg(batch);
        let (time, next): (Time, Option<Vec<Vec<u8>>>) = calls.query_async(&mut connection).await?;
        if !popped.is_empty() {
            record.ended += popped.len() as u64;
            record.at_us = micros(time);
        }
        popped = next.unwrap_or_default();
        if popped.is_empty() {
            let mut calls = redis::pipe();
            if times && record.ended > 0 {
                calls.cmd("RPUSH").arg(&queue.times).arg(record.line());
                calls.ignore();
                record.ended = 0;
            }
            calls.cmd("BLPOP").arg(&queue.messages).arg(EMPTY_WAIT_S);
            let (one,): (Option<(String, Vec<u8>)>,) = calls.query_async(&mut connection).await?;
            popped.extend(one.map(|(_, text)| text));
        }
    }
}
