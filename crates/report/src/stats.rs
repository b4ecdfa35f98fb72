//! Quantiles, medians and spreads of measured values.

/// The finite values, in ascending order.
pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values
        .into_iter()
        .filter(|value| value.is_finite())
        .collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The smallest of sorted values that at least this share of them does not exceed.
pub fn quantile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// [`quantile`] of values that come with a count each, in ascending order.
pub fn quantile_of_counts(counts: &[(u64, u64)], share: f64) -> Option<u64> {
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let mut rank = ((share * all as f64).ceil() as u64).max(1);
    for (value, count) in counts {
        if rank <= *count {
            return Some(*value);
        }
        rank -= count;
    }
    None
}

/// The middle of some values, and how far they lie apart.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// The median; of an even number of values, the mean of the two in the middle.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// How many values there are.
    pub count: usize,
}

impl Spread {
    /// The spread of these values; `None` without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted = sorted(values);
        let count = sorted.len();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        Some(Self {
            median,
            min,
            max,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let hundred = sorted((1..=100).rev().map(f64::from));
        assert_eq!(quantile(&hundred, 0.5), Some(50.0));
        assert_eq!(quantile(&hundred, 0.99), Some(99.0));
        assert_eq!(quantile(&hundred, 1.0), Some(100.0));
        assert_eq!(quantile(&[7.0], 0.5), Some(7.0));
        assert_eq!(quantile::<f64>(&[], 0.5), None);
    }

    #[test]
    fn values_with_counts_have_the_quantiles_of_the_values_written_out() {
        let counts = [(10, 3), (20, 0), (30, 6), (40, 1)];
        let all: Vec<u64> = counts
            .iter()
            .flat_map(|(value, count)| vec![*value; *count as usize])
            .collect();
        for share in [0.0, 0.3, 0.31, 0.5, 0.9, 0.99, 1.0] {
            assert_eq!(quantile_of_counts(&counts, share), quantile(&all, share));
        }
        assert_eq!(quantile_of_counts(&[], 0.5), None);
    }

    #[test]
    fn a_spread_has_its_median_and_its_ends() {
        assert_eq!(Spread::of([]), None);
        let odd = Spread::of([3.0, 1.0, 2.0]);
        let expected = Spread {
            median: 2.0,
            min: 1.0,
            max: 3.0,
            count: 3,
        };
        assert_eq!(odd, Some(expected));
        assert_eq!(Spread::of([1.0, 2.0]).map(|even| even.median), Some(1.5));
    }
}
