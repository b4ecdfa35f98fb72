//! How a handler says that it could not do its work.

use std::fmt;
use std::time::Duration;

/// Any error of another crate.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a handler did not end a message well, and what becomes of the message.
///
/// Any error becomes a `HandlerError` by `?`, and then the worker tries the message again later. A
/// [`Rejected`] is final.
///
/// ```
/// use baton::{HandlerError, Rejected};
///
/// fn ship(text: &str) -> Result<(), HandlerError> {
///     let order: u64 = text.parse().map_err(Rejected::because)?; // No attempt would help.
///     let label = std::fs::read(format!("/labels/{order}"))?; // Perhaps it comes later.
///     if label.is_empty() {
///         return Err("the label is empty".into()); // Later, too.
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct HandlerError {
    pub(crate) remedy: Remedy,
    pub(crate) reason: String,
}

/// What becomes of a message that its handler did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// A worker tries it again, after this time if the handler named one.
    Retry { after: Option<Duration> },
    /// It goes to the errors store.
    Reject,
    /// It goes back to the queue and no attempt counts. The lane pauses. If the handler `may_blame` the
    /// message, and works for others, an attempt counts after all.
    GiveBack { may_blame: bool },
}

impl HandlerError {
    /// The message is to be tried again, and no earlier than after this time, which counts
    /// up to an hour.
    pub fn retry_after(after: Duration, reason: impl Into<String>) -> Self {
        Self {
            remedy: Remedy::Retry { after: Some(after) },
            reason: reason.into(),
        }
    }

    /// The handler cannot work, whatever the message: the program that it runs is missing, or the
    /// service that it calls is away. The message goes back to the queue and no attempt counts. The
    /// worker is unhealthy and pauses before it claims again.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self {
            remedy: Remedy::GiveBack { may_blame: true },
            reason: reason.into(),
        }
    }

    /// This machine lacks what the handler needs just now, such as open files or memory. As with
    /// [`HandlerError::unavailable`] the message goes back; and it is never to blame, even if the handler
    /// works for others.
    pub fn exhausted(reason: impl Into<String>) -> Self {
        Self {
            remedy: Remedy::GiveBack { may_blame: false },
            reason: reason.into(),
        }
    }

    /// The reason, in words.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What becomes of the message, in a word for its span.
    #[cfg(feature = "tracing")]
    pub(crate) fn outcome(&self) -> &'static str {
        match self.remedy {
            Remedy::Retry { .. } => "retry",
            Remedy::Reject => "rejected",
            Remedy::GiveBack { .. } => "given back",
        }
    }

    /// Whether the message is rejected for good.
    pub fn is_final(&self) -> bool {
        self.remedy == Remedy::Reject
    }

    /// Whether no message is to blame, see [`HandlerError::unavailable`].
    pub fn is_unavailable(&self) -> bool {
        matches!(self.remedy, Remedy::GiveBack { .. })
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl<E: Into<BoxError>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        match error.into().downcast::<Rejected>() {
            Ok(rejected) => Self {
                remedy: Remedy::Reject,
                reason: rejected.reason,
            },
            Err(error) => Self {
                remedy: Remedy::Retry { after: None },
                reason: chain(&*error),
            },
        }
    }
}

/// The words of an error and of its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason = format!("{reason}: {error}");
        cause = error.source();
    }
    reason
}

/// A handler rejects a message for good: it goes to the errors store with this reason, and no worker
/// tries it again. `?` and `into` make a [`HandlerError`] of it.
#[derive(Debug)]
pub struct Rejected {
    reason: String,
    source: Option<BoxError>,
}

impl Rejected {
    /// A rejection for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            source: None,
        }
    }

    /// A rejection because of an error. Its reason has the error's words and those of its causes.
    ///
    /// ```
    /// # use baton::Rejected;
    /// fn amount(text: &str) -> Result<u64, Rejected> {
    ///     text.parse().map_err(Rejected::because)
    /// }
    /// let rejected = amount("7 apples").unwrap_err();
    /// assert_eq!(rejected.reason(), "invalid digit found in string");
    /// ```
    pub fn because(error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self {
            reason: chain(&*source),
            source: Some(source),
        }
    }

    /// The reason, in words.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Rejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.source.as_deref()?;
        Some(source)
    }
}

impl From<&str> for Rejected {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl From<String> for Rejected {
    fn from(reason: String) -> Self {
        Self::new(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_error_means_later_and_a_rejection_is_final() {
        let plain: HandlerError = "no answer".into();
        assert_eq!(plain.remedy, Remedy::Retry { after: None });
        let parsed: HandlerError = "x".parse::<u64>().unwrap_err().into();
        assert_eq!(parsed.reason(), "invalid digit found in string");
        assert!(!parsed.is_final());
        let rejected: HandlerError = Rejected::new("no such customer").into();
        assert_eq!(rejected.reason(), "no such customer");
        assert!(rejected.is_final());
    }
}
