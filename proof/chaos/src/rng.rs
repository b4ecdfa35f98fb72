//! Random numbers that are the same for a seed in every version.

/// SplitMix64: small, good enough for choosing faults, and our own code, so that no update of a
/// library changes the plan of a seed.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.number() % (high - low + 1)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// One of these; `None` if there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        match of.len() {
            0 => None,
            count => of.get(self.between(0, count as u64 - 1) as usize).copied(),
        }
    }

    /// Shuffles these.
    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for last in (1..of.len()).rev() {
            of.swap(last, self.between(0, last as u64) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_in_every_version() {
        // The first outputs of SplitMix64 for the seed 1234567, as its author published them.
        let mut rng = Rng::new(1_234_567);
        let numbers = [(); 3].map(|()| rng.number());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut of: Vec<u32> = (0..50).collect();
        Rng::new(1).shuffle(&mut of);
        assert_ne!(of, (0..50).collect::<Vec<_>>());
        of.sort_unstable();
        assert_eq!(of, (0..50).collect::<Vec<_>>());
    }
}
