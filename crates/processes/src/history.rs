//! What the copies told, message by message.

use crate::Told;

/// Every message, as the nodes' logs tell it. A node that is killed between a commit and its
/// log line leaves a message untold: whether that one ended, only Redis knows.
#[derive(Debug, Default)]
pub struct History {
    /// How often each message was told as published; index 0 is unused.
    published: Vec<u8>,
    /// How often each message was told as processed.
    processed: Vec<u8>,
    failed: Vec<u64>,
}

impl History {
    /// Sorts what was told.
    pub fn new(told: &[Told]) -> Self {
        let mut history = Self::default();
        for told in told {
            let counts = match told.event() {
                "published" => &mut history.published,
                "processed" => &mut history.processed,
                _ => continue,
            };
            let (first, last) = (told.number("first") as usize, told.number("last") as usize);
            if counts.len() <= last {
                counts.resize(last + 1, 0);
            }
            for count in &mut counts[first..=last] {
                *count = count.saturating_add(1);
            }
            let failed = told.line["failed"].as_array().into_iter().flatten();
            history
                .failed
                .extend(failed.filter_map(serde_json::Value::as_u64));
        }
        history.failed.sort_unstable();
        history
    }

    /// Messages told as processed more than once.
    pub fn duplicated(&self) -> Vec<u64> {
        numbers(&self.processed, |count| count > 1)
    }

    /// Messages told as published more than once: two generators were believed.
    pub fn published_twice(&self) -> Vec<u64> {
        numbers(&self.published, |count| count > 1)
    }

    /// Messages of `1..=last` that nobody told as processed.
    pub fn untold(&self, last: u64) -> Vec<u64> {
        (1..=last)
            .filter(|seq| {
                self.processed
                    .get(*seq as usize)
                    .is_none_or(|count| *count == 0)
            })
            .collect()
    }

    /// Messages told as processed with a number above `last`.
    pub fn phantoms(&self, last: u64) -> Vec<u64> {
        numbers(&self.processed, |count| count > 0)
            .into_iter()
            .filter(|seq| *seq > last)
            .collect()
    }

    /// Messages told as failed.
    pub fn failed(&self) -> &[u64] {
        &self.failed
    }

    /// How many messages were told as processed.
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
    use super::*;
    use serde_json::json;

    #[test]
    fn a_history_tells_what_ended_twice_or_not_at_all() {
        let tell = |line| Told {
            copy: 0,
            at: std::time::Instant::now(),
            line,
        };
        let told = [
            tell(json!({"event": "published", "first": 1, "last": 5})),
            tell(json!({"event": "processed", "first": 1, "last": 2, "failed": [2]})),
            tell(json!({"event": "processed", "first": 2, "last": 3, "failed": []})),
            tell(json!({"event": "processed", "first": 7, "last": 7, "failed": []})),
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
