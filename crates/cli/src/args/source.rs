//! Flags of `baton run` that say what makes the messages.

use std::ffi::OsString;

use clap::ValueEnum;

use super::handler::command;

/// The flags of the random texts.
const SCHEDULE: [&str; 2] = ["interval", "missed"];

/// What makes the messages, if not the schedule of random texts.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Source")]
pub(crate) struct SourceArgs {
    /// Make messages with this shell command, which runs on the generator: what it prints
    #[arg(long, value_name = "CMD", env = "BATON_SOURCE", conflicts_with_all = SCHEDULE,
          value_parser = command())]
    pub(crate) source: Option<OsString>,
    /// What the command of --source prints
    #[arg(
        long,
        value_name = "FORM",
        env = "BATON_SOURCE_FORMAT",
        default_value = "lines",
        requires = "source"
    )]
    pub(crate) source_format: SourceFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceFormat {
    /// One message per line; the command begins with line $BATON_NEXT, and Baton skips none
    Lines,
    /// One object per line, with text, cursor or both
    Json,
}

impl From<SourceFormat> for baton_exec::Format {
    fn from(format: SourceFormat) -> Self {
        match format {
            SourceFormat::Lines => Self::Lines,
            SourceFormat::Json => Self::Json,
        }
    }
}
