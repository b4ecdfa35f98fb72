//! An error of the program as the text that a user reads on stderr.

use baton_protocol::text::is_unsafe;

use crate::hints;

/// The error and its causes in one line, safe to print on a terminal.
pub(crate) fn error_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<baton::Error>() {
            Some(error) => hints::words(error),
            None => cause.to_string(),
        };
        // Some errors already contain the text of their cause.
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    if let Some((place, _)) = text.split_once("NOAUTH ") {
        text = format!("{place}{}", hints::WANTS_PASSWORD);
    }
    let text = text.replace(|c: char| is_unsafe(c) && c != '\n', "?");
    match error.is::<baton_server::Error>() {
        // It ends with several lines of the server's log.
        true => text,
        false => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}
