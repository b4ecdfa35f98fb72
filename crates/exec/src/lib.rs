//! Your own work, in any language: a handler that runs one process per message, and a source that is a
//! command.
//!
//! ```text
//!   node                         supervisor (one per node)        command (one per message)
//!   ExecHandler::handle ──fds──▶ starts it, times it out,  ─────▶ stdin: the text
//!     reads stdout, stderr ◀──── kills its group, reaps it ◀───── exit code
//! ```
//!
//! - `handler` decides what an exit code means for the message.
//! - `invocation` is one command, as the node sees it: its text, its output, its end.
//! - `running_command` is what a command of a handler and one of a source have in common.
//! - `source` is the source: one command, which runs as long as its node generates.
//! - `supervisor_process` starts the supervisor and hands commands to it.
//! - `suspects` remembers which messages were in hand when a supervisor died.
//! - `supervisor` is the other process. No command outlives its node: when the node dies, however it
//!   dies, the kernel closes its end of each command's *leash*, a socket, and the supervisor kills the
//!   command's process group. A parent-death signal would reach the command's first process alone, and
//!   setting it would take a second exec per message.

mod descriptors;
mod effects_file;
mod exit_watch;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod handler;
mod invocation;
mod leash;
mod orphans;
mod output_lines;
mod plan;
mod running_command;
mod source;
mod stderr_tail;
mod stdin_file;
mod supervisor;
mod supervisor_process;
mod suspects;
mod variables;

pub use handler::{Exec, ExecHandler};
pub use source::{CommandSource, Format};
pub use supervisor::supervise;
pub use variables::{SOURCE_VARIABLES, VARIABLES};
