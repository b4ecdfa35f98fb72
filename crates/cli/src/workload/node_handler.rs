//! The handler of a node: the pretended work, or work of the user.

use baton::{Effects, Handler, HandlerError, Message};
use baton_push::Push;

use super::PretendedWork;
use crate::args::RunArgs;

/// What handles a node's messages.
pub(crate) enum NodeHandler {
    /// The handler of the task.
    Pretended(PretendedWork),
    /// A service of the user.
    Push(Box<Push>),
}

impl NodeHandler {
    /// The handler that the flags ask for.
    pub(crate) fn new(args: &RunArgs, push: Option<Push>) -> Self {
        match push {
            Some(push) => Self::Push(Box::new(push)),
            None => Self::Pretended(PretendedWork::new(args)),
        }
    }
}

impl Handler for NodeHandler {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        match self {
            Self::Pretended(work) => work.handle(message, effects).await,
            // Boxed: it is large, and the future of the pretended work would be as large.
            Self::Push(push) => Box::pin(push.handle(message, effects)).await,
        }
    }
}
