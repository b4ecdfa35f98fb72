//! One copy of a bench's fleet: a node like any other, with texts of a given size, a ledger,
//! and a source that waits for the word *go*.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use baton::{Batch, Event, Flow, Position, Source, SourceError};
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
        if !matches!(
            event.inner(),
            Event::Published { .. } | Event::Processed { .. }
        ) {
            log.tell(event);
        }
    };
    let mut texts = RandomText::sized(args.size);
    let source = Gated {
        go: start_signal::listen(),
        texts: args.run.texts(move |text| texts.append(text)),
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
struct Gated<S> {
    go: watch::Receiver<Option<String>>,
    texts: S,
}

impl<S: Source> Source for Gated<S> {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        self.texts.open(from).await
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        // An error means that the bench is gone, and then this process ends.
        let _ = self.go.wait_for(Option::is_some).await;
        self.texts.next(batch).await
    }
}
