//! Errors of the library in the words of the command line: the library knows no flag.

use baton::Error;

/// The error's words, with the flag or command that helps.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::ReadOnlyReplica => {
            "this server is a read-only replica: point --redis at its primary".to_owned()
        }
        Error::Evicts { .. } => format!("{error}, or insist with --allow-eviction"),
        Error::ForeignKey { .. } | Error::Protocol { .. } => error
            .to_string()
            .replace("another fleet name", "another --fleet"),
        _ => error.to_string(),
    }
}
