//! The messages of a fleet of several partitions: those of each, and all together.

use std::collections::BTreeMap;
use std::time::Duration;

use baton_protocol::{Census, FailedPreview, PartitionState, Partitions, Store};
use futures_util::future::join_all;
use serde::Serialize;

use crate::Error;

/// How long a partition may take to answer. A watch waits for a second for the whole fleet.
const TIMEOUT: Duration = Duration::from_millis(700);
/// Max failed messages in a snapshot.
const MAX_NEWEST: usize = 20;
/// Max partitions that a trouble names.
const MAX_NAMED: usize = 8;

/// One partition of a fleet at one moment. Redis reads it in one atomic step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PartitionSnapshot {
    /// Which partition it is; the first one is 0.
    pub partition: u32,
    /// The address of the server that has it; empty while there is no connection.
    pub server: String,
    /// Messages that the generators have published here so far. It is also the last sequence number.
    pub published: u64,
    /// How many times an operator has given a failed message to the workers again.
    pub retried: u64,
    /// Messages that ended well.
    pub done: u64,
    /// Messages that ended as failed.
    pub failed: u64,
    /// Messages that wait for a worker.
    pub pending: u64,
    /// Messages that workers have claimed.
    pub claimed: u64,
    /// Messages that wait for their next attempt.
    pub delayed: u64,
    /// Messages that Redis acknowledged and that are lost.
    pub void: u64,
    /// Failed messages in the errors store, those included that a drain or take has claimed.
    pub errors: u64,
    /// Whether published + retried = done + failed + pending + claimed + delayed + void.
    pub balanced: bool,
    /// Why it could not be read; then all its counts are 0. None if it was read.
    pub trouble: Option<String>,
}

impl PartitionSnapshot {
    fn of(store: &Store, census: &Census) -> Self {
        Self {
            partition: store.partition(),
            server: store.place(),
            published: census.published,
            retried: census.retried,
            done: census.done,
            failed: census.failed,
            pending: census.pending,
            claimed: census.claimed,
            delayed: census.delayed,
            void: census.void,
            errors: census.errors,
            balanced: census.balanced(),
            trouble: None,
        }
    }

    fn unread(store: &Store, why: &Error) -> Self {
        Self {
            partition: store.partition(),
            server: store.place(),
            trouble: Some(why.to_string()),
            ..Self::default()
        }
    }
}

/// The messages of all partitions.
pub(crate) struct Messages {
    pub(crate) partitions: Vec<PartitionSnapshot>,
    /// The sum over the partitions that could be read.
    pub(crate) census: Census,
    /// The newest failed messages of all of them, newest first.
    pub(crate) newest: Vec<FailedPreview>,
}

impl Messages {
    /// Reads all partitions at the same time, each in one step of its own; none if the fleet has one only.
    pub(crate) async fn read(partitions: &Partitions) -> Option<Self> {
        if !partitions.are_several() {
            return None;
        }
        let reads = join_all(partitions.all().iter().map(read)).await;
        Some(Self::of(partitions.all().iter().zip(reads)))
    }

    fn of<'a>(reads: impl Iterator<Item = (&'a Store, Result<PartitionState, Error>)>) -> Self {
        let mut all = Self {
            partitions: Vec::new(),
            census: Census {
                counted: true,
                ..Census::default()
            },
            newest: Vec::new(),
        };
        for (store, read) in reads {
            match read {
                Ok(PartitionState { census, newest }) => {
                    all.partitions.push(PartitionSnapshot::of(store, &census));
                    all.census.add(&census);
                    all.newest.extend(newest.into_iter().map(|mut failed| {
                        failed.partition = Some(store.partition());
                        failed
                    }));
                }
                Err(why) => all.partitions.push(PartitionSnapshot::unread(store, &why)),
            }
        }
        all.newest
            .sort_by_key(|failed| std::cmp::Reverse(failed.at_ms));
        all.newest.truncate(MAX_NEWEST);
        all
    }
}

async fn read(store: &Store) -> Result<PartitionState, Error> {
    match tokio::time::timeout(TIMEOUT, store.partition_state()).await {
        Ok(read) => read,
        Err(_) => Err(Error::Unavailable("no answer".to_owned())),
    }
}

/// Why partitions could not be read, one sentence for each reason.
pub(crate) fn troubles(partitions: &[PartitionSnapshot]) -> Vec<String> {
    let mut by_reason = BTreeMap::<&str, Vec<u32>>::new();
    for partition in partitions {
        if let Some(reason) = &partition.trouble {
            by_reason
                .entry(reason)
                .or_default()
                .push(partition.partition);
        }
    }
    let sentences = by_reason.into_iter();
    sentences
        .map(|(reason, partitions)| format!("{} cannot be read: {reason}", names(&partitions)))
        .collect()
}

/// These partitions in words, such as `partitions 3, 4 and 5 more`.
fn names(partitions: &[u32]) -> String {
    let named = partitions.iter().take(MAX_NAMED).map(u32::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    match partitions.len() {
        1 => format!("partition {named}"),
        ..=MAX_NAMED => format!("partitions {named}"),
        more => format!("partitions {named} and {} more", more - MAX_NAMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_names_the_partitions_that_have_it() {
        let partition = |partition, trouble: Option<&str>| PartitionSnapshot {
            partition,
            trouble: trouble.map(str::to_owned),
            ..PartitionSnapshot::default()
        };
        let mut partitions = vec![
            partition(0, None),
            partition(1, Some("no answer")),
            partition(2, Some("refused")),
            partition(3, Some("refused")),
        ];
        assert_eq!(
            troubles(&partitions),
            [
                "partition 1 cannot be read: no answer",
                "partitions 2, 3 cannot be read: refused",
            ]
        );
        partitions.extend((4..20).map(|index| partition(index, Some("refused"))));
        assert_eq!(
            troubles(&partitions)[1],
            "partitions 2, 3, 4, 5, 6, 7, 8, 9 and 10 more cannot be read: refused"
        );
    }
}
