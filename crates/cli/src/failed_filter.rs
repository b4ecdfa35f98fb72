//! Which failed messages a command is about.

use baton::{FailedMessage, Inspector};

use crate::args::{FilterArgs, Seqs, Since};

/// The conditions of the command line, with moments on Redis's clock.
#[derive(Debug, Default)]
pub(crate) struct FailedFilter {
    reason: Option<String>,
    node: Option<String>,
    since_ms: Option<u64>,
    seqs: Option<Seqs>,
}

impl FailedFilter {
    /// Resolves the flags. A time ago counts back from Redis's clock, on which messages fail.
    pub(crate) async fn new(
        args: &FilterArgs,
        inspector: &Inspector,
    ) -> Result<Self, baton::Error> {
        let since_ms = match args.since {
            None => None,
            Some(Since::At(ms)) => Some(ms),
            Some(Since::Ago(ago)) => {
                let ago_ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
                Some(inspector.now_ms().await?.saturating_sub(ago_ms))
            }
        };
        Ok(Self {
            reason: args.reason.clone(),
            node: args.node.clone(),
            since_ms,
            seqs: args.seq.clone(),
        })
    }

    /// Whether a message fits all conditions. A message whose time is not known fits no `since`.
    pub(crate) fn matches(&self, failed: &FailedMessage) -> bool {
        let Self {
            reason,
            node,
            since_ms,
            seqs,
        } = self;
        reason
            .as_ref()
            .is_none_or(|text| failed.reason.contains(text))
            && node.as_ref().is_none_or(|node| failed.node == *node)
            && since_ms.is_none_or(|since| failed.at_ms > 0 && failed.at_ms >= since)
            && seqs.as_ref().is_none_or(|seqs| {
                let partition = u64::from(failed.partition.unwrap_or(0));
                let is_there = seqs.partition.is_none_or(|wanted| wanted == partition);
                is_there && seqs.numbers.contains(&failed.seq)
            })
    }
}

#[cfg(test)]
mod tests {
    use baton_protocol::record;

    use super::*;

    fn seqs(partition: Option<u64>, numbers: std::ops::RangeInclusive<u64>) -> Option<Seqs> {
        Some(Seqs { partition, numbers })
    }

    #[test]
    fn conditions_combine() {
        let failed = record::failed_once(17, 1000, "n1", "no such customer", "text");
        let filter = || FailedFilter {
            reason: Some("such".to_owned()),
            node: Some("n1".to_owned()),
            since_ms: Some(1000),
            seqs: seqs(None, 10..=17),
        };
        assert!(FailedFilter::default().matches(&failed));
        assert!(filter().matches(&failed));
        let mut in_second = failed.clone();
        in_second.partition = Some(2);
        let of_second = FailedFilter {
            seqs: seqs(Some(2), 10..=17),
            ..filter()
        };
        assert!(of_second.matches(&in_second) && filter().matches(&in_second));
        for misses in [
            FailedFilter {
                reason: Some("Such".to_owned()),
                ..filter()
            },
            FailedFilter {
                node: Some("n".to_owned()),
                ..filter()
            },
            FailedFilter {
                since_ms: Some(1001),
                ..filter()
            },
            FailedFilter {
                seqs: seqs(None, 18..=u64::MAX),
                ..filter()
            },
            FailedFilter {
                seqs: seqs(Some(2), 10..=17),
                ..filter()
            },
        ] {
            assert!(!misses.matches(&failed), "{misses:?}");
        }
    }

    #[test]
    fn a_message_of_unknown_time_did_not_fail_since_any_moment() {
        let foreign = record::decode(b"garbage");
        let since = |since_ms| FailedFilter {
            since_ms,
            ..FailedFilter::default()
        };
        assert!(!since(Some(0)).matches(&foreign));
        assert!(since(None).matches(&foreign));
    }
}
