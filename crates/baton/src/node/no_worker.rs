//! Notices that a generator has had no worker for some time.

use std::time::Duration;

use tokio::time::Instant;

/// After how long without a worker a generator says so: longer than nodes that start together need.
const SAY_AFTER: Duration = Duration::from_secs(5);

/// How long a generator has had no worker.
#[derive(Debug, Default)]
pub(crate) enum NoWorker {
    /// It has one, or the node is no generator.
    #[default]
    Never,
    /// It has none since then.
    Since(Instant),
    /// It has none, and said so.
    Said,
}

impl NoWorker {
    /// Notes whether the node is a generator without a worker now. Returns whether it is to say so:
    /// once, until a worker was there.
    pub(crate) fn note(&mut self, is_without: bool, now: Instant) -> bool {
        match self {
            _ if !is_without => *self = Self::Never,
            Self::Never => *self = Self::Since(now),
            Self::Since(since) if now - *since >= SAY_AFTER => {
                *self = Self::Said;
                return true;
            }
            Self::Since(_) | Self::Said => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_without_a_worker_says_so_once_until_a_worker_was_there() {
        let (mut none, start) = (NoWorker::default(), Instant::now());
        let mut said = |is_without, s| none.note(is_without, start + Duration::from_secs(s));
        assert!(!said(true, 0) && !said(true, 4));
        assert!(said(true, 5), "after five seconds");
        assert!(!said(true, 6) && !said(true, 600), "once");
        assert!(!said(false, 601) && !said(true, 602) && !said(true, 606));
        assert!(said(true, 607), "again, after a worker was there");
    }
}
