//! Flags of `baton run` that say what handles the messages.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};

use super::push::PushArgs;
use super::run::duration;

/// The longest time of one attempt: a longer one has a mistaken unit.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The flags of the pretended work.
pub(super) const PRETENDED: [&str; 3] = ["error_rate", "work", "work_per_char"];
/// The group of flags that name a handler of the user.
pub(super) const OWN_WORK: &str = "own_work";
/// The flags of that group that name a command.
const COMMAND: &str = "a_command";

/// What handles the messages, if not the pretended work.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Handler")]
pub(crate) struct HandlerArgs {
    /// Handle each message with this shell command: one process per message, the text on its stdin
    #[arg(long, value_name = "CMD", env = "BATON_EXEC", groups = [OWN_WORK, COMMAND],
          conflicts_with_all = PRETENDED, value_parser = command())]
    pub(crate) exec: Option<OsString>,
    /// The same without a shell: a program and its arguments, behind --
    #[arg(last = true, value_name = "CMD", groups = [OWN_WORK, COMMAND],
          conflicts_with_all = PRETENDED, value_parser = OsStringValueParser::new())]
    pub(crate) command: Vec<OsString>,
    /// Posts them to a URL.
    #[command(flatten)]
    pub(crate) push: PushArgs,
    /// How long one attempt may take; then a command gets SIGTERM
    #[arg(long, value_name = "TIME", env = "BATON_TIMEOUT", default_value = "60s",
          requires = OWN_WORK, value_parser = timeout)]
    pub(crate) timeout: Duration,
    /// How long a command may go on after SIGTERM; then it gets SIGKILL
    #[arg(long, value_name = "TIME", env = "BATON_KILL_AFTER", default_value = "5s",
          requires = COMMAND, value_parser = kill_after)]
    pub(crate) kill_after: Duration,
}

pub(super) fn command() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|command| match command.as_encoded_bytes().trim_ascii() {
        [] => Err("write a command"),
        _ => Ok(command),
    })
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text, LONGEST_TIMEOUT)? {
        time if time < Duration::from_millis(1) => Err("at least 1ms".to_owned()),
        time => Ok(time),
    }
}

fn kill_after(text: &str) -> Result<Duration, String> {
    duration(text, LONGEST_TIMEOUT)
}
