//! The question before messages are settled.

use std::io::{IsTerminal, stderr, stdin};

use anyhow::Context;

use super::Action;
use super::matches::Matches;

/// Whether there is a terminal for the question and the answer.
pub(super) fn can_ask() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks whether to settle these messages. Only a clear yes is one.
pub(super) async fn ask(action: Action, matches: &Matches) -> anyhow::Result<bool> {
    let count = matches.count();
    let question = match action {
        Action::Retry => format!("Give {count} to the workers again? [y/N] "),
        Action::Drop => format!("Drop {count} for good? [y/N] "),
    };
    baton_print::err(format_args!("{question}"));
    // On another thread: the connection stays alive while the user thinks.
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = read.await?.context("cannot read the answer")?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
