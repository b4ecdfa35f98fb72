//! What was found out about a peer.

use std::fmt;
use std::time::Duration;

use crate::Effort;
use crate::peer::{Peer, Place};
use crate::speed::Speed;
use baton_print::errln;

/// When the message of a killed worker ran again.
#[derive(Clone, Copy)]
pub(crate) enum Recovery {
    /// So long after the kill.
    After(Duration),
    /// Not as long as anybody waited.
    NotWithin(Duration),
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(time) => write!(f, "{:.1} s", time.as_secs_f64()),
            Self::NotWithin(time) => write!(f, "> {} s", time.as_secs()),
        }
    }
}

/// A peer and all that was measured, with ours beside it.
pub(crate) struct Row {
    pub(crate) peer: &'static Peer,
    /// None if it is not installed.
    pub(crate) version: Option<String>,
    /// Why it cannot be measured here.
    pub(crate) obstacle: Option<String>,
    /// Messages of each run.
    pub(crate) messages: u64,
    pub(crate) theirs: Vec<Speed>,
    pub(crate) ours: Vec<Speed>,
    pub(crate) recovery: Option<Recovery>,
    /// Why there is no more.
    pub(crate) failure: Option<String>,
}

impl Row {
    pub(crate) fn new(peer: &'static Peer, place: &Place, server: &str, effort: Effort) -> Self {
        let version = peer.version(place);
        let obstacle = match version {
            Some(_) => peer.unfit(server),
            None => Some("not installed".to_owned()),
        };
        Self {
            peer,
            version,
            obstacle,
            messages: effort.messages.unwrap_or(peer.messages),
            theirs: Vec::new(),
            ours: Vec::new(),
            recovery: None,
            failure: None,
        }
    }

    /// Whether there is more to measure.
    pub(crate) fn runs_on(&self) -> bool {
        self.obstacle.is_none() && self.failure.is_none()
    }

    /// Notes a failure; nothing more is measured of this peer then.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        errln!("peers: {}: {error:#}", self.peer.name);
        self.failure = Some(format!("{error:#}"));
    }

    /// Messages a second: theirs and ours.
    pub(crate) fn rate(&self) -> Option<(Median, Median)> {
        self.both(|speed| Some(speed.rate))
    }

    /// µs of Redis for each message: theirs and ours.
    pub(crate) fn redis_us(&self) -> Option<(Median, Median)> {
        self.both(|speed| Some(speed.redis_us))
    }

    /// MB of a worker: theirs and ours.
    pub(crate) fn rss_mb(&self) -> Option<(Median, Median)> {
        self.both(|speed| speed.rss_mb)
    }

    fn both(&self, value: impl Fn(&Speed) -> Option<f64>) -> Option<(Median, Median)> {
        let median = |speeds: &[Speed]| Median::of(speeds.iter().filter_map(&value).collect());
        median(&self.theirs).zip(median(&self.ours))
    }
}

/// The middle of some values, and how far they are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Median {
    pub(crate) value: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Median {
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        Some(Self {
            value: values.get(values.len() / 2).copied()?,
            least: values.first().copied()?,
            most: values.last().copied()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_knows_the_middle_and_the_ends() {
        let median = Median::of(vec![3.0, 1.0, 2.0]);
        let expected = Median {
            value: 2.0,
            least: 1.0,
            most: 3.0,
        };
        assert_eq!(median, Some(expected));
        assert_eq!(Median::of(Vec::new()), None);
    }
}
