//! Repeated measurements of one thing: median and spread. Floats are fine here: nothing is
//! decided by them.

/// Values in the order they were measured.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.0
    }

    pub(super) fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = sorted[(sorted.len() - 1) / 2];
        Some(f64::midpoint(lower, upper))
    }

    /// The value that 99 of 100 do not exceed.
    pub(super) fn p99(&self) -> Option<f64> {
        let sorted = self.sorted();
        sorted.get((sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1))).copied()
    }

    /// The least and the greatest.
    pub(super) fn spread(&self) -> Option<(f64, f64)> {
        let sorted = self.sorted();
        Some((*sorted.first()?, *sorted.last()?))
    }

    /// Round by round, this over that: a slow round slows both and drops out.
    pub(super) fn over(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(ours, theirs)| ours / theirs).collect())
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Samples {
        Samples(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        values.iter().copied().collect()
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(samples(&[3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(samples(&[4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        assert_eq!(samples(&[]).median(), None);
        assert_eq!(samples(&[3.0, 1.0, 2.0]).p99(), Some(3.0));
        assert_eq!(samples(&[]).p99(), None);
        assert_eq!(samples(&[3.0, 1.0, 2.0]).spread(), Some((1.0, 3.0)));
    }

    #[test]
    fn a_slow_round_does_not_move_the_ratio() {
        let ratio = samples(&[10.0, 1.0, 10.0]).over(&samples(&[20.0, 2.0, 20.0]));
        assert_eq!(ratio.spread(), Some((0.5, 0.5)));
    }
}
