//! From values to places in a picture.

/// An axis with even steps. A value beyond an end gets the place of that end.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    values: (f64, f64),
    places: (f64, f64),
}

impl Scale {
    /// Maps values from one end to the other to places.
    pub fn new(values: (f64, f64), places: (f64, f64)) -> Self {
        Self { values, places }
    }

    /// The place of a value.
    pub fn at(&self, value: f64) -> f64 {
        let (from, to) = self.values;
        self.places.0 + (value.clamp(from, to.max(from)) - from) * self.unit()
    }

    /// How far apart two places are whose values differ by 1.
    pub fn unit(&self) -> f64 {
        let (from, to) = self.values;
        (self.places.1 - self.places.0) / (to - from).max(1e-9)
    }
}

/// A logarithmic axis with whole powers of ten at both ends.
#[derive(Debug, Clone, Copy)]
pub struct LogScale {
    first: i32,
    last: i32,
    scale: Scale,
}

impl LogScale {
    /// The shortest axis that has all values from `min`, which is more than 0, to `max`.
    pub fn new(min: f64, max: f64, places: (f64, f64)) -> Self {
        let first = min.log10().floor() as i32;
        let last = (max.log10().ceil() as i32).max(first + 1);
        let scale = Scale::new((f64::from(first), f64::from(last)), places);
        Self { first, last, scale }
    }

    /// The place of a value.
    pub fn at(&self, value: f64) -> f64 {
        self.scale.at(value.max(f64::MIN_POSITIVE).log10())
    }

    /// The powers of ten from end to end, each times these factors.
    pub fn marks<'a>(&self, factors: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let end = 10f64.powi(self.last) * (1.0 + 1e-9);
        (self.first..=self.last)
            .flat_map(move |power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .filter(move |mark| *mark <= end)
    }
}

/// About `count` round steps from 0 to at most `max`.
pub fn steps(max: f64, count: f64) -> Vec<f64> {
    let raw = max / count;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw)
        .unwrap_or(raw);
    if step.is_nan() || step <= 0.0 {
        return vec![0.0];
    }
    (0..)
        .map(|index| f64::from(index) * step)
        .take_while(|at| *at <= max)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_beyond_an_end_is_placed_at_that_end() {
        let scale = Scale::new((10.0, 20.0), (100.0, 0.0));
        assert_eq!(
            [5.0, 10.0, 15.0, 99.0].map(|value| scale.at(value)),
            [100.0, 100.0, 50.0, 0.0]
        );
        let point = Scale::new((3.0, 3.0), (0.0, 9.0));
        assert_eq!(point.at(3.0), 0.0);
    }

    #[test]
    fn a_logarithmic_axis_has_whole_powers_of_ten_at_both_ends() {
        let scale = LogScale::new(3.0, 70.0, (0.0, 200.0));
        assert_eq!(
            [1.0, 10.0, 100.0].map(|value| scale.at(value)),
            [0.0, 100.0, 200.0]
        );
        let marks: Vec<f64> = scale.marks(&[1.0, 5.0]).collect();
        assert_eq!(marks, [1.0, 5.0, 10.0, 50.0, 100.0]);
        assert_eq!(LogScale::new(10.0, 10.0, (0.0, 1.0)).at(100.0), 1.0);
    }

    #[test]
    fn steps_are_round_and_do_not_exceed_the_max() {
        assert_eq!(steps(10.0, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(
            steps(1_700_000.0, 4.0),
            [0.0, 500_000.0, 1_000_000.0, 1_500_000.0]
        );
        assert_eq!(steps(0.0, 4.0), [0.0]);
    }
}
