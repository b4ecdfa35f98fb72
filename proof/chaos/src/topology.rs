//! Which servers a run has, and what its nodes wait for before they log.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;

/// Which servers a run has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Topology {
    /// One server
    #[default]
    Single,
    /// A master, two replicas and three Sentinels
    Sentinel,
}

impl Topology {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Sentinel => "sentinel",
        }
    }
}

/// What a node waits for before it logs that messages were published or processed: the value of
/// `baton run --durability`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// For the master's answer.
    #[default]
    None,
    /// Until so many replicas have confirmed it.
    Replicas(u8),
}

impl Level {
    /// The words on the command line of a node.
    pub fn words(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Replicas(_) => vec!["--durability".to_owned(), self.to_string()],
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Replicas(count) => write!(f, "replicas:{count}"),
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // With fewer than all replicas a confirmed message may be lost: no rule would hold.
        match text {
            "none" => Ok(Self::None),
            "replicas:2" => Ok(Self::Replicas(2)),
            _ => Err("none or replicas:2".to_owned()),
        }
    }
}
