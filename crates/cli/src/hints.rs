//! Errors of the library in the words of the command line: the library knows no flag.

use baton::{CertificateProblem, Error, Warning};

/// What a user can do about NOAUTH. The server's own words are about its protocol.
pub(crate) const WANTS_PASSWORD: &str = "NOAUTH, the server wants a password: --password-file or REDIS_PASSWORD gives \
     it. If another user's `baton run` started this server, it lets in that user alone: name a \
     Redis of your own with --redis";

/// The warning's words, with the command that helps.
pub(crate) fn warning(warning: &Warning) -> String {
    match warning {
        Warning::ErrorsFull { records } => format!(
            "the errors store is full ({records} failed messages): take them with `baton \
             getErrors`, or raise --max-errors"
        ),
        Warning::NoWorker => {
            "no worker: messages wait; start another copy or use --generator-works alone".to_owned()
        }
        _ => warning.to_string(),
    }
}

/// The error's words, with the flag or command that helps.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::ReadOnlyReplica => {
            "this server is a read-only replica: point --redis at its primary".to_owned()
        }
        Error::Certificate { problem, .. } => match problem {
            CertificateProblem::UnknownAuthority => {
                format!("{error}; --tls-ca names its file")
            }
            CertificateProblem::ClientHasNone | CertificateProblem::ClientRefused => {
                format!("{error}; --tls-cert and --tls-key name the files")
            }
            _ => error.to_string(),
        },
        Error::Evicts { .. } => format!("{error}, or insist with --allow-eviction"),
        Error::ForeignKey { .. } | Error::Protocol { .. } => error
            .to_string()
            .replace("another fleet name", "another --fleet"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_and_an_error_name_the_flag_that_helps() {
        let full = Warning::ErrorsFull { records: 7 };
        assert!(warning(&full).ends_with("with `baton getErrors`, or raise --max-errors"));
        assert!(words(&Error::ReadOnlyReplica).contains("--redis"));
        let evicts = Error::Evicts {
            policy: "allkeys-lru".to_owned(),
        };
        assert!(words(&evicts).ends_with("Set it to noeviction, or insist with --allow-eviction"));
        let foreign = Error::ForeignKey {
            key: "k".to_owned(),
            found: "list".to_owned(),
            needed: "hash".to_owned(),
        };
        assert!(words(&foreign).ends_with("or use another --fleet"));
        assert!(warning(&Warning::NoWorker).ends_with("use --generator-works alone"));
        // The library knows no flag.
        let no_worker = Warning::NoWorker.to_string();
        for text in [
            full.to_string(),
            no_worker,
            evicts.to_string(),
            foreign.to_string(),
        ] {
            assert!(!text.contains("--") && !text.contains('`'), "{text}");
        }
    }
}
