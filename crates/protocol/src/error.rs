//! What can go wrong. Expected answers (*fenced*, *lost*, *full*) are not errors: each call
//! has its own enum for them.

use crate::CertificateProblem;

/// A failure of the program or of Redis. Never a failed *message*: those live in the errors store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was sent and no answer came: Redis may or may not have executed it.
    /// The caller may repeat it with the same ids, because every call is idempotent.
    #[error("sent, but the answer was lost: {0}")]
    ReplyLost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Redis answered, and does not say that the write is as durable as asked. The caller may repeat the
    /// call as after [`Error::ReplyLost`].
    #[error("Redis did not confirm the write: {0}")]
    Unconfirmed(String),
    /// Redis certainly did not execute the call; it may do so later.
    #[error("Redis is not available: {0}")]
    Unavailable(String),
    /// Redis refuses, in its own words, and goes on refusing until an operator changes something.
    #[error("{0}")]
    Refused(String),
    /// Client and server do not accept each other's certificates. They may do so later.
    #[error("{problem} ({detail})")]
    Certificate {
        /// What is wrong, and what to do.
        problem: CertificateProblem,
        /// The words of the library that speaks TLS.
        detail: String,
    },
    /// The server is a replica that takes no writes.
    #[error("this server is a read-only replica: a fleet needs its primary")]
    ReadOnlyReplica,
    /// The server may delete messages when its memory is full.
    #[error(
        "the server's maxmemory-policy is {policy}: it may delete messages when its memory is \
         full. Set it to noeviction"
    )]
    Evicts {
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// A key of the fleet holds a value that another program wrote.
    #[error(
        "the key {key} holds a {found}, but a fleet keeps a {needed} there: \
         something else uses this name; rename or remove it, or use another fleet name"
    )]
    ForeignKey {
        /// The key.
        key: String,
        /// The type of its value.
        found: String,
        /// The type that the fleet needs.
        needed: String,
    },
    /// The fleet runs another version of the protocol.
    #[error(
        "fleet {fleet} speaks protocol {theirs}, this program speaks protocol {ours}: \
         use the version of baton that the fleet runs, or another fleet name"
    )]
    Protocol {
        /// Name of the fleet.
        fleet: String,
        /// The version found in Redis.
        theirs: String,
        /// The version of this program.
        ours: &'static str,
    },
    /// The fleet has another number of partitions.
    #[error(
        "fleet {fleet} has {theirs} partition{}, and this node asks for {ours}: a fleet keeps the \
         number that its first node gave it; leave the number out, or use another fleet name",
        if *theirs == 1 { "" } else { "s" }
    )]
    Partitions {
        /// Name of the fleet.
        fleet: String,
        /// The number found in Redis.
        theirs: u32,
        /// The number of this node.
        ours: u32,
    },
    /// A setting cannot work.
    #[error("{problem}")]
    Setting {
        /// Which setting.
        setting: Setting,
        /// What is wrong with its value.
        problem: String,
    },
    /// The fleet keeps no ledger, so there is nothing to audit.
    #[error("this fleet keeps no ledger: its nodes must be started with one")]
    NoLedger,
    /// The client was connected to read, and cannot claim.
    #[error("this client only reads: connect it to act")]
    ReadOnlyClient,
    /// Redis answered something that no script of ours returns.
    #[error("unexpected answer from Redis to {call}: {answer}")]
    Answer {
        /// The script that was called.
        call: &'static str,
        /// What came back, shortened.
        answer: String,
    },
}

/// A setting of a node or of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Setting {
    /// The URL of the server.
    Target,
    /// The name of the fleet.
    Fleet,
    /// How many partitions the fleet has.
    Partitions,
    /// How many messages the fleet publishes in all.
    Messages,
    /// How many messages a generator publishes in a time.
    Rate,
    /// How long a silent generator keeps the lease.
    LeaseTtl,
    /// How long a silent worker keeps its messages.
    ClaimTtl,
    /// How many messages a worker handles at the same time.
    Concurrency,
    /// How long a handler may take for a message.
    Timeout,
    /// How many attempts a message has.
    Attempts,
    /// How long a message waits for its next attempt.
    Backoff,
    /// Which roles a node takes.
    Roles,
    /// How many messages may wait or be in workers' hands.
    MaxPending,
    /// How many failed messages the errors store may keep.
    MaxErrors,
    /// How long the errors store keeps a failed message.
    KeepErrors,
}

impl Error {
    /// Whether the same call may succeed later although no operator changes anything.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::ReplyLost(_)
                | Self::Unconfirmed(_)
                | Self::Unavailable(_)
                | Self::Certificate { .. }
        )
    }

    /// A setting that cannot work, and why.
    #[doc(hidden)]
    pub fn setting(setting: Setting, problem: impl Into<String>) -> Self {
        Self::Setting {
            setting,
            problem: problem.into(),
        }
    }
}

/// How a server begins that has as many clients as it may have; it may have room later.
pub(crate) const TOO_MANY_CLIENTS: &str = "ERR max number of clients";

/// Codes with which Redis says that it did not execute a call but may do so later.
const NOT_EXECUTED: [&str; 12] = [
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CLUSTERDOWN",
    "MASTERDOWN",
    "READONLY",
    "LOADING",
    "BUSY",
    "OOM",
    "NOREPLICAS",
    "MISCONF",
    "UNBLOCKED",
];

/// Sorts an error of the client into ours: executed perhaps, certainly not, or never.
pub fn classify(error: redis::RedisError) -> Error {
    let Some(code) = error.code() else {
        return match error.kind() {
            redis::ErrorKind::AuthenticationFailed => Error::Refused(plain(&error)),
            _ => Error::ReplyLost(error.into()),
        };
    };
    let words = plain(&error);
    match NOT_EXECUTED.contains(&code) || says_not_executed(&words) {
        true => Error::Unavailable(words),
        false => Error::Refused(words),
    }
}

/// Whether the words of an error say that a call was not executed but may be later. Redis 6.2 wraps
/// the code of an error inside a script: "ERR Error running script …: -OOM …".
pub(crate) fn says_not_executed(words: &str) -> bool {
    let says = |code: &&str| {
        let begins = words
            .strip_prefix(code)
            .is_some_and(|rest| rest.starts_with(' '));
        begins || words.contains(&format!("-{code} "))
    };
    words.starts_with(TOO_MANY_CLIENTS) || NOT_EXECUTED.iter().any(says)
}

/// What a script of ours says itself, of a value that it cannot work with.
const BAD_VALUE: &str = "BADVALUE ";

/// The error's own words, without the client library's preamble and without what a server says
/// around the words of a script.
pub(crate) fn plain(error: &redis::RedisError) -> String {
    if let Some((_, words)) = error.detail().and_then(|text| text.split_once(BAD_VALUE)) {
        let words = words.split(" script: ").next().unwrap_or_default();
        return format!("{BAD_VALUE}{words}");
    }
    match (error.code(), error.detail()) {
        (Some("CLUSTERDOWN"), Some(detail)) => {
            format!("CLUSTERDOWN {detail}: the cluster does not serve all of its slots")
        }
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_error(line: &str) -> Error {
        let value = redis::parse_redis_value(line.as_bytes()).unwrap();
        classify(value.extract_error().unwrap_err())
    }

    #[test]
    fn answers_that_say_not_executed_may_be_repeated() {
        for code in NOT_EXECUTED {
            let error = server_error(&format!("-{code} something\r\n"));
            assert!(matches!(error, Error::Unavailable(_)), "{code}: {error:?}");
            assert!(error.is_transient());
        }
        let wrapped =
            "-ERR Error running script (call to f_1): @user_script:3: -OOM command not allowed\r\n";
        assert!(matches!(server_error(wrapped), Error::Unavailable(_)));
        let full = "-ERR max number of clients reached\r\n";
        assert!(matches!(server_error(full), Error::Unavailable(_)));
    }

    #[test]
    fn answers_that_stay_are_refusals_in_the_server_s_words() {
        for line in [
            "-NOPERM this user has no permissions to run the 'lpop' command\r\n",
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "-WRONGPASS invalid username-password pair\r\n",
        ] {
            let error = server_error(line);
            assert!(matches!(error, Error::Refused(_)), "{error:?}");
            assert!(
                error
                    .to_string()
                    .contains(line[1..].split(' ').next().unwrap())
            );
        }
    }

    #[test]
    fn a_broken_connection_leaves_the_outcome_unknown() {
        let io = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(matches!(classify(io.into()), Error::ReplyLost(_)));
    }
}
