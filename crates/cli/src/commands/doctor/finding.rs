//! What a check found, and how bad it is.

use baton_protocol::text::Escaped;
use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mark {
    /// Nothing to do.
    Ok,
    /// It may hurt one day, or cannot be known.
    Warn,
    /// A fleet cannot live here, or can lose messages at the wanted durability.
    Fail,
}

impl Mark {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }

    /// A failure if this is true, else a warning.
    pub(super) fn fail_if(is_failure: bool) -> Self {
        match is_failure {
            true => Self::Fail,
            false => Self::Warn,
        }
    }
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was checked.
    pub(super) check: &'static str,
    pub(super) mark: Mark,
    pub(super) found: String,
    /// What to do about it.
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            mark: Mark::Ok,
            found: found.into(),
            advice: None,
        }
    }

    pub(super) fn bad(
        check: &'static str,
        mark: Mark,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            mark,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }

    pub(super) fn warn(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::bad(check, Mark::Warn, found, advice)
    }

    pub(super) fn fail(
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::bad(check, Mark::Fail, found, advice)
    }

    /// The finding for people, without characters that a terminal obeys.
    pub(super) fn line(&self) -> String {
        let mark = self.mark.as_str();
        let head = format!("{mark:<4}  {:<12}  {}", self.check, self.found);
        let line = match &self.advice {
            Some(advice) => format!("{head}; {advice}"),
            None => head,
        };
        format!("{}\n", Escaped(line.as_bytes()))
    }
}
