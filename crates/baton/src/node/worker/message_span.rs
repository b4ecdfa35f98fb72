//! The span of a message, for the feature `tracing`. Without the feature it is nothing.

use std::future::Future;

use super::Context;
use crate::{HandlerError, Message};

/// The span in which the handler of one message runs.
pub(super) struct MessageSpan(#[cfg(feature = "tracing")] tracing::Span);

#[cfg(feature = "tracing")]
impl MessageSpan {
    /// The span of an attempt at a message.
    pub(super) fn new(ctx: &Context, message: &Message<'_>) -> Self {
        Self(tracing::info_span!(
            target: "baton",
            "message",
            fleet = %ctx.config.fleet,
            seq = message.seq,
            key = %message.key(),
            attempt = message.attempt,
            node = ctx.control.node(),
            partition = message.partition,
            outcome = tracing::field::Empty,
            reason = tracing::field::Empty,
        ))
    }

    /// Runs the handler in the span.
    pub(super) fn around<F: Future>(&self, handling: F) -> impl Future<Output = F::Output> {
        tracing::Instrument::instrument(handling, self.0.clone())
    }

    /// Records how the attempt ended. A span without an outcome has an attempt that the node's stop
    /// cut short.
    pub(super) fn record(&self, ended: &Result<(), HandlerError>) {
        match ended {
            Ok(()) => self.0.record("outcome", "done"),
            Err(error) => {
                self.0.record("outcome", error.outcome());
                self.0.record("reason", error.reason())
            }
        };
    }
}

#[cfg(not(feature = "tracing"))]
impl MessageSpan {
    pub(super) fn new(_: &Context, _: &Message<'_>) -> Self {
        Self()
    }

    pub(super) fn around<F: Future>(&self, handling: F) -> F {
        handling
    }

    pub(super) fn record(&self, _: &Result<(), HandlerError>) {}
}
