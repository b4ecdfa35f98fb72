//! Flags of `baton run` that post messages to a URL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use baton_push::Push;

use super::handler::{OWN_WORK, PRETENDED};
use crate::small_file;
use crate::usage_error::UsageError;

/// Where messages are posted to, and how.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Handler")]
pub(crate) struct PushArgs {
    /// Handle each message by a POST to this URL, such as http://127.0.0.1:8080/job; 2xx is done
    // Read later: the parser would repeat a URL that is wrong, and with it a password.
    #[arg(long, value_name = "URL", env = "BATON_PUSH", group = OWN_WORK,
          conflicts_with_all = PRETENDED)]
    pub(crate) push: Option<String>,
    /// File with headers for --push, one a line, such as Authorization: Bearer SECRET
    #[arg(
        long,
        value_name = "FILE",
        env = "BATON_PUSH_HEADER_FILE",
        requires = "push"
    )]
    pub(crate) push_header_file: Option<PathBuf>,
    /// PEM file with the CA, or the service's own certificate, that --push trusts [default: those of this system]
    #[arg(long, value_name = "FILE", env = "BATON_PUSH_CA", requires = "push")]
    pub(crate) push_ca: Option<PathBuf>,
}

impl PushArgs {
    /// The handler, if there is a URL.
    pub(crate) fn handler(&self, timeout: Duration) -> Result<Option<Push>, UsageError> {
        let Some(url) = &self.push else {
            return Ok(None);
        };
        let wrong = |flag: &str, problem: String| UsageError(format!("{flag}: {problem}"));
        let push = Push::to(url).map_err(|error| wrong("--push", error.to_string()))?;
        let mut push = push.timeout(timeout);
        if let Some(file) = &self.push_header_file {
            let flag = format!("--push-header-file {}", file.display());
            let lines = read(file).map_err(|problem| wrong(&flag, problem))?;
            let headers = push.header_lines(&lines);
            push = headers.map_err(|error| wrong(&flag, error.to_string()))?;
        }
        let mut flag = "--push".to_owned();
        if let Some(file) = &self.push_ca {
            flag = format!("--push-ca {}", file.display());
            push = push.ca_pem(&read(file).map_err(|problem| wrong(&flag, problem))?);
        }
        let built = push
            .build()
            .map_err(|error| wrong(&flag, error.to_string()));
        built.map(Some)
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    small_file::read(file).map_err(|error| format!("cannot read it: {error}"))
}
