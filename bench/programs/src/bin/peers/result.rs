//! What was found out about a peer.

use std::fmt;
use std::time::Duration;

use baton_print::errln;
use baton_report::stats::Spread;

use crate::Effort;
use crate::peer::{Peer, Place};
use crate::speed::Speed;

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
    pub(crate) fn rate(&self) -> Option<(Spread, Spread)> {
        self.both(|speed| Some(speed.rate))
    }

    /// µs of Redis for each message: theirs and ours.
    pub(crate) fn redis_us(&self) -> Option<(Spread, Spread)> {
        self.both(|speed| Some(speed.redis_us))
    }

    /// MB of a worker: theirs and ours.
    pub(crate) fn rss_mb(&self) -> Option<(Spread, Spread)> {
        self.both(|speed| speed.rss_mb)
    }

    fn both(&self, value: impl Fn(&Speed) -> Option<f64>) -> Option<(Spread, Spread)> {
        let spread = |speeds: &[Speed]| Spread::of(speeds.iter().filter_map(&value));
        spread(&self.theirs).zip(spread(&self.ours))
    }
}
