//! The batch size at which the unsafe queue is fastest here.

use anyhow::Result;

use super::run;
use crate::Plan;
use crate::timed_fleet::Progress;

/// Batch sizes for small texts.
const MESSAGES: [u64; 5] = [100, 250, 500, 1000, 2000];
/// Bytes of a batch of larger texts.
const BYTES: [u64; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// From this size of a text on, bytes decide.
const LARGE_TEXT: usize = 1 << 10;
/// Max messages of one try.
const MAX_TRY: u64 = 250_000;

/// The batch sizes that are worth a try with texts of so many bytes, in ascending order.
pub fn batch_sizes(text_bytes: usize) -> Vec<u64> {
    if text_bytes < LARGE_TEXT {
        return MESSAGES.to_vec();
    }
    let mut sizes = BYTES
        .map(|bytes| (bytes / text_bytes as u64).max(1))
        .to_vec();
    sizes.dedup();
    sizes
}

/// Tries each batch size with a quarter of the plan's messages, and returns the fastest. `report`
/// hears how far a try has come.
pub fn best_batch_size(plan: &Plan, mut report: impl FnMut(Progress) -> Result<()>) -> Result<u64> {
    let messages = (plan.messages / 4).clamp(1, MAX_TRY);
    let mut best = (f64::MAX, 1);
    for batch in batch_sizes(plan.size) {
        let (seconds, _) = run(plan, messages, batch, &mut report)?;
        if seconds < best.0 {
            best = (seconds, batch);
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_texts_are_tried_in_small_batches() {
        assert_eq!(batch_sizes(64), [100, 250, 500, 1000, 2000]);
        assert_eq!(batch_sizes(4 << 10), [4, 16, 64, 256]);
        assert_eq!(batch_sizes(128 << 10), [1, 2, 8]);
        assert_eq!(batch_sizes(8 << 20), [1]);
    }
}
