//! The handler of a node: the pretended work, or work of the user.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use baton::{Effects, Handler, HandlerError, Message};
use baton_exec::{Exec, ExecHandler};
use baton_push::Push;

use super::PretendedWork;
use crate::args::RunArgs;
use crate::log::Log;

/// The word behind which this program is the supervisor of a node's commands.
pub(crate) const SUPERVISOR: &str = "exec-supervisor";

/// What handles a node's messages.
pub(crate) enum NodeHandler {
    /// The handler of the task.
    Pretended(PretendedWork),
    /// A command of the user.
    Exec(ExecHandler),
    /// A service of the user.
    Push(Box<Push>),
}

impl NodeHandler {
    /// The handler that the flags ask for. What a command prints goes to the log.
    pub(crate) fn new(args: &RunArgs, push: Option<Push>, log: &Arc<Log>) -> Self {
        if let Some(push) = push {
            return Self::Push(Box::new(push));
        }
        let own = &args.handler;
        let exec = match (&own.exec, own.command.as_slice()) {
            (Some(command), _) => Exec::shell(command),
            (None, []) => return Self::Pretended(PretendedWork::new(args)),
            (None, words) => Exec::program(words),
        };
        let exec = exec.timeout(own.timeout).kill_after(own.kill_after);
        let log = Arc::clone(log);
        Self::Exec(exec.handler(supervisor, move |seq, line| log.tell_output(seq, line)))
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
            Self::Exec(exec) => exec.handle(message, effects).await,
            // Boxed: it is large, and the future of the pretended work would be as large.
            Self::Push(push) => Box::pin(push.handle(message, effects)).await,
        }
    }
}

/// The command line of the supervisor: this very program, even if its file was replaced meanwhile.
pub(super) fn supervisor() -> Command {
    let program = match std::env::current_exe() {
        Ok(path) if !cfg!(target_os = "linux") => path.into_os_string(),
        _ => OsString::from("/proc/self/exe"),
    };
    let mut command = Command::new(program);
    command.arg0("baton").arg(SUPERVISOR);
    command
}
