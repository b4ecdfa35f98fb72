//! Takeovers of the lease, which beats record.

use serde::Serialize;

use crate::calls::answer::exact;

/// The lease got a new epoch, and mostly a new holder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Takeover {
    /// The new epoch.
    pub epoch: u64,
    /// The new holder.
    pub node: String,
    /// When, in ms on Redis's clock.
    pub at_ms: u64,
    /// How long the lease was without a living holder before, at most, in ms.
    pub gap_ms: u64,
    /// Why.
    pub how: TakeoverCause,
    /// The holder before.
    pub from: Option<String>,
}

/// Why the lease got a new epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TakeoverCause {
    /// The lease had no holder before.
    #[default]
    First,
    /// Its holder resigned.
    Resigned,
    /// Its holder's process was gone.
    Gone,
    /// Its holder was silent for too long.
    Expired,
    /// The holder itself needed a higher epoch.
    Raised,
}

/// Reads a line of `takeovers`.
pub fn parse(line: &str) -> Option<Takeover> {
    let [epoch, node, at, gap, how, from] = line.splitn(6, ' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    Some(Takeover {
        epoch: exact(epoch)?,
        node: node.to_owned(),
        at_ms: exact(at)?,
        gap_ms: exact(gap)?,
        how: match how {
            "first" => TakeoverCause::First,
            "resigned" => TakeoverCause::Resigned,
            "gone" => TakeoverCause::Gone,
            "expired" => TakeoverCause::Expired,
            "raised" => TakeoverCause::Raised,
            _ => return None,
        },
        from: Some(from.to_owned()).filter(|from| !from.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_takeover_reads_back_and_nonsense_does_not() {
        assert_eq!(
            parse("7 n1 1700 31 gone n0"),
            Some(Takeover {
                epoch: 7,
                node: "n1".to_owned(),
                at_ms: 1700,
                gap_ms: 31,
                how: TakeoverCause::Gone,
                from: Some("n0".to_owned()),
            })
        );
        let first = parse("1 n1 1700 0 first ").map(|takeover| takeover.from);
        assert_eq!(first, Some(None));
        for bad in [
            "",
            "7 n1 1700 31 gone",
            "x n1 1 1 gone n0",
            "7 n1 1 1 flown n0",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
