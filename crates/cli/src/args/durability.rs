//! How durable a confirmed message is: the value of `--durability`.

use std::fmt;
use std::str::FromStr;

/// What must have a message before the fleet calls it confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The memory of the server.
    None,
    /// The disk of the server.
    Fsync,
    /// The memory of this many replicas, at least one.
    Replicas(u32),
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let replicas = match text {
            "none" => return Ok(Self::None),
            "fsync" => return Ok(Self::Fsync),
            "replicas" => return Ok(Self::Replicas(1)),
            text => text.strip_prefix("replicas:"),
        };
        match replicas.and_then(|count| count.parse().ok()) {
            Some(count @ 1..) => Ok(Self::Replicas(count)),
            _ => Err("write none, fsync, replicas, or replicas:2 for two of them".to_owned()),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_word_and_reads_back() {
        for (text, level) in [
            ("none", Durability::None),
            ("fsync", Durability::Fsync),
            ("replicas", Durability::Replicas(1)),
            ("replicas:1", Durability::Replicas(1)),
            ("replicas:2", Durability::Replicas(2)),
        ] {
            assert_eq!(text.parse(), Ok(level));
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        for text in [
            "",
            "None",
            "replicas:",
            "replicas:0",
            "replicas:-1",
            "replicas:x",
            "all",
        ] {
            assert!(text.parse::<Durability>().is_err(), "{text}");
        }
    }
}
