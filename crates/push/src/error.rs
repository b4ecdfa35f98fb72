//! Why a push handler cannot be made.

/// Why a push handler cannot be made. Its words hold no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The URL is none that messages can be posted to.
    #[error("{0}")]
    Url(String),
    /// A line of the headers is no header that may be sent.
    #[error("line {line}: {problem}")]
    HeaderLine {
        /// The line, from 1 on.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// No certificate says whom to trust.
    #[error("{0}")]
    Certificates(String),
}
