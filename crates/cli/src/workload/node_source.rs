//! The source of a node: random texts, or what the user asks for.

use baton::{Batch, Cron, Flow, Interval, Position, Source, SourceError};

/// What makes a node's messages.
pub(crate) enum NodeSource<F> {
    /// The source of the task: a text every interval.
    Texts(Interval<F>),
    /// The ticks of a crontab.
    Cron(Cron),
}

impl<F: FnMut(u64, &mut Vec<u8>) + Send + 'static> Source for NodeSource<F> {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        match self {
            Self::Texts(texts) => texts.open(from).await,
            Self::Cron(cron) => cron.open(from).await,
        }
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        match self {
            Self::Texts(texts) => texts.next(batch).await,
            Self::Cron(cron) => cron.next(batch).await,
        }
    }

    fn kind(&self) -> &str {
        match self {
            Self::Texts(texts) => texts.kind(),
            Self::Cron(cron) => cron.kind(),
        }
    }
}
