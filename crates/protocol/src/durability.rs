//! How durable a write must be before its caller gets the answer.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// What must have a message, or its end, before a node reports it, a source hears that it is accepted,
/// or a drain ends. The lesser level is the weaker one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The memory of the server. A restart or a failover may forget it; the nodes notice and say so.
    #[default]
    None,
    /// The disk of the server, which must have `appendonly yes` and `appendfsync always`. It survives a
    /// restart and a power cut of the server, not a failover.
    Fsync,
    /// So many replicas. It survives a failover to any of them. Any replica may be promoted, so the
    /// number should be that of all replicas.
    Replicas(NonZeroU32),
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Fsync => f.write_str("fsync"),
            Self::Replicas(count) => write!(f, "replicas:{count}"),
        }
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = match text {
            "none" => return Ok(Self::None),
            "fsync" => return Ok(Self::Fsync),
            "replicas" => "1",
            _ => text.strip_prefix("replicas:").unwrap_or_default(),
        };
        match count.parse() {
            Ok(count) => Ok(Self::Replicas(count)),
            Err(_) => Err("write none, fsync, replicas, or replicas:2 for two of them".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_reads_back_and_nonsense_does_not() {
        for text in ["none", "fsync", "replicas:1", "replicas:2"] {
            assert_eq!(text.parse::<Durability>().unwrap().to_string(), text);
        }
        let one = "replicas".parse::<Durability>().unwrap();
        assert_eq!(one.to_string(), "replicas:1");
        for bad in [
            "",
            "Fsync",
            "replicas:",
            "replicas:0",
            "replicas:-1",
            "replicas 2",
            "2",
        ] {
            assert!(bad.parse::<Durability>().is_err(), "{bad}");
        }
    }
}
