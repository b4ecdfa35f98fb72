//! What the copies logged, message by message.

use baton_log::LogEvent;

use crate::Told;

/// Every message, as the nodes logged it. A node that is killed between a commit and its log
/// line leaves a message that is not in any log: only Redis knows that it ended.
#[derive(Debug, Default)]
pub struct History {
    /// How often each message was logged as published; index 0 is unused.
    published: Vec<u8>,
    /// How often each message was logged as processed.
    processed: Vec<u8>,
    failed: Vec<u64>,
}

impl History {
    /// Sorts the nodes' lines.
    pub fn new(told: &[Told]) -> Self {
        let mut history = Self::default();
        for told in told {
            let mut waiting: &[u64] = &[];
            let (counts, first, last) = match told.event() {
                LogEvent::Published { first, last, .. } => (&mut history.published, first, last),
                LogEvent::Processed {
                    first,
                    last,
                    failed,
                    delayed,
                    ..
                } => {
                    history.failed.extend_from_slice(failed);
                    waiting = delayed;
                    (&mut history.processed, first, last)
                }
                _ => continue,
            };
            let (first, last) = (*first as usize, *last as usize);
            if counts.len() <= last {
                counts.resize(last + 1, 0);
            }
            for (seq, count) in (first as u64..).zip(&mut counts[first..=last]) {
                if !waiting.contains(&seq) {
                    *count = count.saturating_add(1);
                }
            }
        }
        history.failed.sort_unstable();
        history
    }

    /// Messages that were logged as processed more than once.
    pub fn duplicated(&self) -> Vec<u64> {
        numbers(&self.processed, |count| count > 1)
    }

    /// Messages that were logged as published more than once: there were two generators.
    pub fn published_twice(&self) -> Vec<u64> {
        numbers(&self.published, |count| count > 1)
    }

    /// Messages of `1..=last` that no node logged as processed.
    pub fn untold(&self, last: u64) -> Vec<u64> {
        (1..=last)
            .filter(|seq| {
                self.processed
                    .get(*seq as usize)
                    .is_none_or(|count| *count == 0)
            })
            .collect()
    }

    /// Messages above `last` that were logged as processed.
    pub fn phantoms(&self, last: u64) -> Vec<u64> {
        numbers(&self.processed, |count| count > 0)
            .into_iter()
            .filter(|seq| *seq > last)
            .collect()
    }

    /// Messages that were logged as failed.
    pub fn failed(&self) -> &[u64] {
        &self.failed
    }

    /// How many messages were logged as processed.
    pub fn processed(&self) -> u64 {
        self.processed.iter().filter(|count| **count > 0).count() as u64
    }
}

fn numbers(counts: &[u8], fits: impl Fn(u8) -> bool) -> Vec<u64> {
    counts
        .iter()
        .enumerate()
        .filter(|(_, count)| fits(**count))
        .map(|(seq, _)| seq as u64)
        .collect()
}

#[cfg(test)]
mod tests {
    use baton_log::Line;

    use super::*;

    fn told(event: LogEvent<'static>) -> Told {
        Told {
            copy: 0,
            at: std::time::Instant::now(),
            line: Line {
                at: std::time::SystemTime::UNIX_EPOCH,
                node: "n".into(),
                partition: None,
                event,
            },
        }
    }

    #[test]
    fn a_history_tells_what_ended_twice_or_not_at_all() {
        let processed = |first, last, failed: &[u64]| {
            told(LogEvent::Processed {
                first,
                last,
                failed: failed.to_vec().into(),
                delayed: Vec::new().into(),
                attempt: 1,
            })
        };
        let published = LogEvent::Published {
            epoch: 1,
            first: 1,
            last: 5,
            text: None,
        };
        let told = [
            told(published),
            processed(1, 2, &[2]),
            processed(2, 3, &[]),
            processed(7, 7, &[]),
        ];
        let history = History::new(&told);
        assert_eq!(history.duplicated(), [2]);
        assert_eq!(history.untold(5), [4, 5]);
        assert_eq!(history.phantoms(5), [7]);
        assert_eq!(history.failed(), [2]);
        assert_eq!(history.published_twice(), Vec::<u64>::new());
        assert_eq!(history.processed(), 4);
    }
}
