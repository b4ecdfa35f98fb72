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
    /// A cluster of three masters, each with a replica
    Cluster,
}

impl Topology {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Sentinel => "sentinel",
            Self::Cluster => "cluster",
        }
    }

    /// Its servers in words; `None` for one server.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Single => None,
            Self::Sentinel => Some("1 master, 2 replicas, 3 Sentinels"),
            Self::Cluster => Some("a cluster of 3 masters and 3 replicas"),
        }
    }

    /// How many partitions a fleet has there, unless the user says another number. In a cluster they are
    /// fewer than in a new fleet whose nodes name no number: so one that forgets its own shows.
    pub fn default_partitions(self) -> u32 {
        match self {
            Self::Single | Self::Sentinel => 1,
            Self::Cluster => 12,
        }
    }

    /// The levels of its nodes. With fewer than all replicas that may be promoted, a confirmed message
    /// may be lost: no rule would hold.
    pub fn levels(self) -> &'static [Level] {
        match self {
            Self::Single => &[Level::None],
            Self::Sentinel => &[Level::None, Level::Replicas(2)],
            Self::Cluster => &[Level::None, Level::Replicas(1)],
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
        let all = [Self::None, Self::Replicas(1), Self::Replicas(2)];
        let found = all.into_iter().find(|level| level.to_string() == text);
        found.ok_or_else(|| "none, replicas:1 or replicas:2".to_owned())
    }
}
