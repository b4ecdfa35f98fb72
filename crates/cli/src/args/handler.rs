//! Flags of `baton run` that say what handles the messages.

use std::time::Duration;

use super::push::PushArgs;
use super::run::duration;

/// The longest time of one attempt: a longer one has a mistaken unit.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// The flags of the pretended work.
pub(super) const PRETENDED: [&str; 3] = ["error_rate", "work", "work_per_char"];
/// The group of flags that name a handler of the user.
pub(super) const OWN_WORK: &str = "own_work";

/// What handles the messages, if not the pretended work.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Handler")]
pub(crate) struct HandlerArgs {
    /// Posts them to a URL.
    #[command(flatten)]
    pub(crate) push: PushArgs,
    /// How long one attempt may take
    #[arg(long, value_name = "TIME", env = "BATON_TIMEOUT", default_value = "60s",
          requires = OWN_WORK, value_parser = timeout)]
    pub(crate) timeout: Duration,
}

pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text, LONGEST_TIMEOUT)? {
        time if time < Duration::from_millis(1) => Err("at least 1ms".to_owned()),
        time => Ok(time),
    }
}
