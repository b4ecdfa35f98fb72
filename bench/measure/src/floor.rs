//! The floor: the same messages through an unsafe queue, with variadic RPUSH and LPOP with a
//! count. Nothing is fenced, and the messages of a dead worker are lost.

use std::time::Duration;

use anyhow::{Context, Result};
use baton::Target;
use baton_processes::Fleet;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::timed_fleet::{Progress, TimedFleet, Usage};
use crate::{Plan, ServerProbe};

/// Concurrent calls of the producer, as many as a generator has.
const WINDOW: usize = 8;
/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a consumer that found no message waits for one.
const EMPTY_WAIT_S: f64 = 0.05;

/// The keys of an unsafe queue.
pub struct Queue {
    messages: String,
    errors: String,
    ended: String,
}

impl Queue {
    /// The keys of the queue with this name.
    pub fn new(name: &str) -> Self {
        let key = |what: &str| format!("{name}:{what}");
        Self {
            messages: key("messages"),
            errors: key("errors"),
            ended: key("ended"),
        }
    }

    fn all(&self) -> [&str; 3] {
        [&self.messages, &self.errors, &self.ended]
    }
}

/// Opens a connection like those of a node.
async fn connect(target: &Target) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(TIMEOUT));
    let client = baton_protocol::redis_client(target)?;
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// Pushes messages, `batch` at a time.
pub async fn produce(
    target: &Target,
    queue: &Queue,
    messages: u64,
    batch: u64,
    mut generate: impl FnMut(&mut Vec<u8>),
) -> Result<()> {
    let connection = connect(target).await?;
    let push = async |command: redis::Cmd| {
        let answer = connection.clone().send_packed_command(&command).await;
        answer?.extract_error().map(drop)
    };
    let mut under_way = FuturesOrdered::new();
    let mut text = Vec::new();
    let mut left = messages;
    while left > 0 {
        let count = left.min(batch);
        left -= count;
        let mut command = redis::cmd("RPUSH");
        command.arg(&queue.messages);
        for _ in 0..count {
            text.clear();
            generate(&mut text);
            command.arg(&text);
        }
        under_way.push_back(push(command));
        if under_way.len() == WINDOW {
            under_way.next().await.transpose()?;
        }
    }
    while let Some(pushed) = under_way.next().await {
        pushed?;
    }
    Ok(())
}

/// Pops messages, `batch` at a time, for ever. `handle` says whether a message is faulty. A
/// faulty message is kept, as a node keeps it. One call ends a batch and pops the next one.
pub async fn consume(
    target: &Target,
    queue: &Queue,
    batch: u64,
    handle: impl Fn(&[u8]) -> bool,
) -> Result<()> {
    let mut connection = connect(target).await?;
    let mut popped: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut calls = redis::pipe();
        if !popped.is_empty() {
            let failed: Vec<&Vec<u8>> = popped.iter().filter(|text| handle(text)).collect();
            if !failed.is_empty() {
                calls.cmd("RPUSH").arg(&queue.errors).arg(failed).ignore();
            }
            calls.cmd("INCRBY").arg(&queue.ended).arg(popped.len());
            calls.ignore();
        }
        calls.cmd("LPOP").arg(&queue.messages).arg(batch);
        let (next,): (Option<Vec<Vec<u8>>>,) = calls.query_async(&mut connection).await?;
        popped = next.unwrap_or_default();
        if popped.is_empty() {
            let one: Option<(String, Vec<u8>)> = redis::cmd("BLPOP")
                .arg(&queue.messages)
                .arg(EMPTY_WAIT_S)
                .query_async(&mut connection)
                .await?;
            popped.extend(one.map(|(_, text)| text));
        }
    }
}

/// Times the floor at one batch size. Returns the seconds, and what the run used.
pub fn run(
    plan: &Plan,
    messages: u64,
    batch: u64,
    mut report: impl FnMut(Progress) -> Result<()>,
) -> Result<(f64, Usage)> {
    let name = format!("baton-bench-floor:{{{}}}", baton_protocol::new_name());
    let queue = Queue::new(&name);
    let args = [
        "bench-floor",
        "--queue",
        &name,
        "--batch",
        &batch.to_string(),
        "--messages",
        &messages.to_string(),
        "--size",
        &plan.size.to_string(),
        "--error-rate",
        &plan.error_rate.to_string(),
    ];
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let fleet = Fleet::of(&plan.program, args).with_env(&plan.env);
    let mut probe = ServerProbe::open(&plan.target)?;
    let role = |copy| if copy == 0 { "produce" } else { "consume" };
    let mut timed = TimedFleet::start(fleet, plan.workers + 1, role, &mut probe)?;
    let watched = timed.watch(
        |probe| {
            type Counts = (u64, Option<u64>);
            let (waiting, ended): Counts = redis::pipe()
                .cmd("LLEN")
                .arg(&queue.messages)
                .cmd("GET")
                .arg(&queue.ended)
                .query(probe.redis())?;
            let ended = ended.unwrap_or_default();
            Ok(Progress {
                messages,
                published: ended + waiting,
                ended,
            })
        },
        |_, now| report(now),
    );
    let measured = (timed.elapsed().as_secs_f64(), timed.usage()?);
    drop(timed);
    redis::cmd("UNLINK")
        .arg(&queue.all())
        .exec(probe.redis())
        .context("cannot remove the keys of the floor")?;
    watched.map(|()| measured)
}
