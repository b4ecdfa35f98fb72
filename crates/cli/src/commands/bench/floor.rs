//! One copy of a bench's unsafe queue: pushes or pops, whichever it is told.

use std::process::ExitCode;
use std::time::SystemTime;

use baton_bench::floor::{Queue, consume, produce};
use baton_log::{Line, LogEvent};
use baton_print::outln;

use super::start_signal;
use crate::args::ConnectionArgs;
use crate::workload::RandomText;
use crate::{runtime, target};

/// Flags of a copy.
#[derive(clap::Args, Debug)]
pub(crate) struct FloorArgs {
    /// Name of the queue
    #[arg(long, value_name = "NAME", env = "BATON_QUEUE")]
    queue: String,
    /// Messages of one call
    #[arg(long, value_name = "N", env = "BATON_BATCH")]
    batch: u64,
    /// Messages in all
    #[arg(long, value_name = "N", env = "BATON_MESSAGES")]
    messages: u64,
    /// Bytes of each text
    #[arg(long, value_name = "BYTES", env = "BATON_SIZE")]
    size: usize,
    /// Share of messages that are faulty
    #[arg(long, value_name = "SHARE", env = "BATON_ERROR_RATE")]
    error_rate: f64,
    /// Record on the server when the first push and the last batch took effect
    #[arg(long, env = "BATON_TIMES")]
    times: bool,
}

/// Runs a copy until it is killed, or its parent is gone.
pub(crate) fn run(connection: &ConnectionArgs, args: &FloorArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let queue = Queue::new(&args.queue);
    let mut signal = start_signal::listen();
    // The bench waits until every copy has logged its role.
    let ready = Line {
        at: SystemTime::now(),
        node: "".into(),
        partition: None,
        event: LogEvent::Worker {
            generator: "".into(),
        },
    };
    outln!("{}", serde_json::to_string(&ready)?);
    runtime::block_on(async {
        let line = signal.wait_for(Option::is_some).await?.clone();
        if line.as_deref() == Some("produce") {
            let mut texts = RandomText::sized(args.size);
            let generate = |text: &mut Vec<u8>| texts.append(text);
            let (messages, batch) = (args.messages, args.batch);
            produce(&target, &queue, messages, batch, args.times, generate).await?;
            // Its parent wants to know what it has used.
            std::future::pending::<()>().await;
        }
        let faulty = |_: &[u8]| rand::random_bool(args.error_rate);
        consume(&target, &queue, args.batch, args.times, faulty).await
    })?;
    Ok(ExitCode::SUCCESS)
}
