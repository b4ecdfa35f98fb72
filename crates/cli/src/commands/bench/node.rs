//! One copy of a bench's fleet: a node like any other, with texts of a given size, a ledger,
//! and a source that waits for the word *go*.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use baton::{Event, Source};
use tokio::sync::watch;

use super::start_signal;
use crate::args::{ConnectionArgs, RunArgs};
use crate::log::Log;
use crate::shutdown::Shutdown;
use crate::workload::{PretendedWork, RandomText};
use crate::{runtime, target};

/// Flags of a copy.
#[derive(clap::Args, Debug)]
pub(crate) struct NodeArgs {
    /// Bytes of each text
    #[arg(long, value_name = "BYTES", env = "BATON_SIZE", default_value = "64")]
    size: usize,
    #[command(flatten)]
    run: RunArgs,
}

/// Runs a copy until it is killed, or its parent is gone.
pub(crate) fn run(connection: &ConnectionArgs, args: &NodeArgs) -> anyhow::Result<ExitCode> {
    let settings = args.run.settings(connection.fleet.clone()).audit(true);
    let target = target::for_command(connection)?;
    let shutdown = Shutdown::on_signals()?;
    let name = Arc::new(OnceLock::new());
    let log = Log::start(args.run.log, shutdown.clone(), Arc::clone(&name))
        .context("cannot start the thread of the log")?;
    let observe = move |event: &Event| {
        // The ledger tells of messages.
        if !matches!(event, Event::Published { .. } | Event::Processed { .. }) {
            log.tell(event);
        }
    };
    let source = Gated {
        go: start_signal::listen(),
        texts: RandomText::sized(args.size),
    };
    let handler = PretendedWork::new(&args.run);
    let node = settings.on_event(observe).build(target, source, handler)?;
    // It is set only here, so it cannot be set already.
    let _ = name.set(node.name().to_owned());
    let asked = async move {
        shutdown.requested().await;
    };
    runtime::block_on(async move { Ok(node.run(asked).await?) })?;
    Ok(ExitCode::SUCCESS)
}

/// Random texts, from the word *go* on.
struct Gated {
    go: watch::Receiver<Option<String>>,
    texts: RandomText,
}

impl Source for Gated {
    async fn generate(&mut self, seq: u64, text: &mut Vec<u8>) {
        if self.go.borrow().is_none() {
            // An error means that the bench is gone, and then this process ends.
            let _ = self.go.wait_for(Option::is_some).await;
        }
        self.texts.generate(seq, text).await;
    }
}
