//! The source of a node: random texts, ticks, or a command of the user.

use std::sync::Arc;

use baton::{Batch, Cron, Flow, Position, Source, SourceError};
use baton_exec::CommandSource;

use super::node_handler::supervisor;
use crate::args::RunArgs;
use crate::log::Log;

/// What makes a node's messages.
pub(crate) enum NodeSource<S> {
    /// The texts of the task.
    Texts(S),
    /// The ticks of a crontab.
    Cron(Cron),
    /// A command of the user.
    Command(Box<CommandSource>),
}

impl<S> NodeSource<S> {
    /// The source that the flags ask for. What a command prints on its stderr goes to the log.
    pub(crate) fn new(args: &RunArgs, texts: S, cron: Option<Cron>, log: &Arc<Log>) -> Self {
        if let Some(cron) = cron {
            return Self::Cron(cron);
        }
        let Some(command) = &args.source.source else {
            return Self::Texts(texts);
        };
        let log = Arc::clone(log);
        Self::Command(Box::new(CommandSource::shell(
            command,
            args.source.source_format.into(),
            supervisor,
            move |line| log.tell_source_output(line),
        )))
    }
}

impl<S: Source> Source for NodeSource<S> {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        match self {
            Self::Texts(texts) => texts.open(from).await,
            Self::Cron(cron) => cron.open(from).await,
            Self::Command(command) => command.open(from).await,
        }
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        match self {
            Self::Texts(texts) => texts.next(batch).await,
            Self::Cron(cron) => cron.next(batch).await,
            Self::Command(command) => command.next(batch).await,
        }
    }

    async fn accepted(&mut self, cursor: &[u8]) {
        match self {
            Self::Texts(texts) => texts.accepted(cursor).await,
            Self::Cron(cron) => cron.accepted(cursor).await,
            Self::Command(command) => command.accepted(cursor).await,
        }
    }

    async fn close(&mut self) {
        match self {
            Self::Texts(texts) => texts.close().await,
            Self::Cron(cron) => cron.close().await,
            Self::Command(command) => command.close().await,
        }
    }

    fn replays(&self) -> bool {
        match self {
            Self::Texts(texts) => texts.replays(),
            Self::Cron(cron) => cron.replays(),
            Self::Command(command) => command.replays(),
        }
    }

    fn kind(&self) -> &str {
        match self {
            Self::Texts(texts) => texts.kind(),
            Self::Cron(cron) => cron.kind(),
            Self::Command(command) => command.kind(),
        }
    }
}
