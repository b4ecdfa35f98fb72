//! An operator pauses the generator, the workers or both, and lets them go on. Meanwhile not one
//! message may be published or claimed, whatever else happens.

use std::time::Instant;

use anyhow::Result;
use baton::Part;
use baton_protocol::Census;

use super::{Fault, Note};
use crate::arena::Arena;
use crate::rng::Rng;

pub(super) struct OperatorPause {
    parts: Vec<Part>,
    /// Where every message of each partition was when the pause began; none once it has ended.
    paused: Option<Vec<Census>>,
}

impl OperatorPause {
    pub(super) fn new(mut rng: Rng) -> Self {
        let parts = [&Part::ALL[..], &Part::ALL[..1], &Part::ALL[1..]];
        let parts = rng.pick(&parts).unwrap_or(&Part::ALL);
        Self {
            parts: parts.to_vec(),
            paused: None,
        }
    }

    fn resume(&mut self, arena: &mut Arena) -> Result<()> {
        let before_resume = arena.observer.resume(&self.parts)?;
        if let Some(paused) = self.paused.take() {
            let both = paused.iter().zip(&before_resume);
            let leaks = both.filter_map(|(paused, resumed)| leak(paused, resumed));
            arena.findings.extend(leaks);
        }
        Ok(())
    }
}

impl Fault for OperatorPause {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let names: Vec<&str> = self.parts.iter().map(|part| part.as_str()).collect();
        note.text = names.join(" and ");
        self.paused = Some(arena.observer.pause(&self.parts)?);
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        // If Redis does not answer now, because of another fault, the pause ends with that.
        let _ = self.resume(arena);
        Ok(())
    }

    fn finish(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let deadline = Instant::now() + arena.settings.timeout;
        // Also if the answer to the pause was lost: it may have taken effect.
        while let Err(error) = self.resume(arena) {
            if Instant::now() > deadline {
                return Err(error.context("the pause does not end"));
            }
            note.over = Some(Instant::now());
            arena.stop.pause_poll()?;
        }
        Ok(())
    }
}

/// What leaked in a partition while the same pause held from `from` to `to`. A server that lost its last writes may
/// have forgotten the pause; then nothing follows.
fn leak(from: &Census, to: &Census) -> Option<String> {
    let held = |part| {
        let since = from.paused.since_ms(part);
        since.is_some() && since == to.paused.since_ms(part)
    };
    // A worker that commits, delays or gives back does not take.
    let taken = |census: &Census| census.done + census.failed + census.claimed;
    if held(Part::Generator) && to.published > from.published {
        let count = to.published - from.published;
        return Some(format!("{count} messages were published during a pause"));
    }
    if held(Part::Workers) && taken(to) > taken(from) {
        let count = taken(to) - taken(from);
        return Some(format!("{count} messages were claimed during a pause"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(published: u64, done: u64, claimed: u64, since: [Option<u64>; 2]) -> Census {
        let mut census = Census {
            published,
            done,
            claimed,
            ..Census::default()
        };
        census.paused.generator_since_ms = since[0];
        census.paused.workers_since_ms = since[1];
        census
    }

    #[test]
    fn what_was_claimed_may_end_and_nothing_else_may_move() {
        let both = [Some(1), Some(2)];
        let from = census(9, 3, 4, both);
        assert_eq!(leak(&from, &census(9, 7, 0, both)), None, "committed");
        assert_eq!(leak(&from, &census(9, 3, 0, both)), None, "given back");
        assert!(leak(&from, &census(10, 3, 4, both)).is_some(), "published");
        assert!(leak(&from, &census(9, 3, 5, both)).is_some(), "claimed");
        assert!(
            leak(&from, &census(9, 8, 0, both)).is_some(),
            "claimed, ended"
        );
    }

    #[test]
    fn a_pause_that_was_forgotten_proves_nothing() {
        let from = census(9, 3, 4, [Some(1), Some(2)]);
        for since in [[None, None], [Some(5), Some(5)]] {
            assert_eq!(leak(&from, &census(99, 90, 4, since)), None);
        }
    }
}
