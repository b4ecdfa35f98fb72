//! What an audit can find.

use std::fmt;

/// A difference between the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Published, and never ended.
    Lost {
        /// The first such message.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Ended more than once.
    Duplicated {
        /// The first such message.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Ended, and never published.
    Phantom {
        /// The first such message.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// Published twice, or with a hole before it.
    Misnumbered {
        /// The first message of the pack.
        first: u64,
        /// The number that was due.
        due: u64,
    },
    /// The texts that were handled are not the texts that were generated.
    Texts {
        /// The first message of the pack.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// The errors store has a message more than once, or one that never was.
    Errors {
        /// The message; 0 for a foreign record.
        seq: u64,
        /// How often it is there.
        times: u64,
    },
    /// The errors store does not have exactly the failed messages of a range.
    Failed {
        /// The first message of the range.
        first: u64,
        /// The last one.
        last: u64,
        /// How many of them failed and were not retried, or failed again.
        failed: u64,
        /// How many of them the errors store has.
        kept: u64,
    },
    /// More of a range were retried than had failed.
    Retried {
        /// The first message of the range.
        first: u64,
        /// The last one.
        last: u64,
        /// How many of them failed.
        failed: u64,
        /// How many of them were retried.
        retried: u64,
    },
    /// A counter in Redis differs from what the ledger adds up to.
    Counter {
        /// Its name.
        name: &'static str,
        /// Its value.
        says: u64,
        /// What the ledger says.
        ledger: u64,
    },
    /// One of these, in a fleet of several partitions.
    InPartition {
        /// The partition.
        partition: u32,
        /// What is wrong there. Its numbers are those of the partition.
        finding: Box<Finding>,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |first: &u64, last: &u64| match first == last {
            true => format!("#{first}"),
            false => format!("#{first} to #{last}"),
        };
        match self {
            Self::Lost { first, last } => write!(f, "lost: {}", range(first, last)),
            Self::Duplicated { first, last } => {
                write!(f, "committed more than once: {}", range(first, last))
            }
            Self::Phantom { first, last } => {
                write!(f, "committed but never published: {}", range(first, last))
            }
            Self::Misnumbered { first, due } => {
                write!(f, "published #{first} where #{due} was due")
            }
            Self::Texts { first, last } => {
                let range = range(first, last);
                write!(f, "handled texts are not the generated ones: {range}")
            }
            Self::Errors { seq, times } => {
                write!(f, "#{seq} is in the errors store {times} times")
            }
            Self::Failed {
                first,
                last,
                failed,
                kept,
            } => {
                let range = range(first, last);
                write!(f, "{failed} of {range} failed, the errors store has {kept}")
            }
            Self::Retried {
                first,
                last,
                failed,
                retried,
            } => {
                let range = range(first, last);
                write!(f, "{failed} of {range} failed, {retried} were retried")
            }
            Self::Counter { name, says, ledger } => {
                write!(f, "{name} is counted as {says}, the ledger has {ledger}")
            }
            Self::InPartition { partition, finding } => {
                write!(f, "partition {partition}: {finding}")
            }
        }
    }
}
