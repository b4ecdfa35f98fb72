//! An operator pauses the generator or the workers, and lets them go on.

use serde::Serialize;

use super::{Store, decode};
use crate::{Error, scripts};

/// A part of a fleet that can be paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The generator: Redis accepts no messages.
    Generator,
    /// The workers: Redis hands out no messages.
    Workers,
}

impl Part {
    /// Both parts.
    pub const ALL: [Self; 2] = [Self::Generator, Self::Workers];

    /// The part in one word: `generator` or `workers`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Generator => "generator",
            Self::Workers => "workers",
        }
    }
}

/// What is paused, and since when, in ms on Redis's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Paused {
    /// Since when the generator is paused; none if it is not.
    pub generator_since_ms: Option<u64>,
    /// Since when the workers are paused; none if they are not.
    pub workers_since_ms: Option<u64>,
}

impl Paused {
    /// Since when a part is paused; none if it is not.
    pub fn since_ms(&self, part: Part) -> Option<u64> {
        match part {
            Part::Generator => self.generator_since_ms,
            Part::Workers => self.workers_since_ms,
        }
    }

    /// What is paused in this partition or in another one, since the earlier time.
    #[doc(hidden)]
    pub fn in_any(self, other: Self) -> Self {
        let earlier = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        Self {
            generator_since_ms: earlier(self.generator_since_ms, other.generator_since_ms),
            workers_since_ms: earlier(self.workers_since_ms, other.workers_since_ms),
        }
    }

    /// What is paused in this partition and in another one, since the later time.
    #[doc(hidden)]
    pub fn in_all(self, other: Self) -> Self {
        let later =
            |one: Option<u64>, two: Option<u64>| one.zip(two).map(|(one, two)| one.max(two));
        Self {
            generator_since_ms: later(self.generator_since_ms, other.generator_since_ms),
            workers_since_ms: later(self.workers_since_ms, other.workers_since_ms),
        }
    }
}

impl Store {
    /// Pauses parts of the fleet. Returns what was paused before.
    pub async fn pause(&self, parts: &[Part]) -> Result<Paused, Error> {
        self.pause_or_resume("pause", parts).await
    }

    /// Lets parts of the fleet go on. Returns what was paused before.
    pub async fn resume(&self, parts: &[Part]) -> Result<Paused, Error> {
        self.pause_or_resume("resume", parts).await
    }

    async fn pause_or_resume(&self, wish: &str, parts: &[Part]) -> Result<Paused, Error> {
        let keys = &self.keys;
        let is_meant = |part| -> &[u8] {
            match parts.contains(&part) {
                true => b"1",
                false => b"0",
            }
        };
        let answer = self
            .eval(
                &scripts::PAUSE,
                &[&keys.fence, &keys.queue, &keys.idle],
                &[
                    wish.as_bytes(),
                    is_meant(Part::Generator),
                    is_meant(Part::Workers),
                    keys.presence.as_bytes(),
                ],
            )
            .await?;
        decode::pause(&answer)
    }
}
