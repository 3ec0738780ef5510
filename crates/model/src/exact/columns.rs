//! Exact sums at many steps, to which whole series are added.
//!
//! The floats of all sums are in two columns. The few sums that two floats cannot hold are in a map.

use std::collections::BTreeMap;

use super::{ExactSum, Wide, add_to, two_sum};

/// The most values that [`ExactSums::add_run`] takes.
pub const RUN: usize = 64;

/// An exact sum for each step.
#[derive(Clone, Debug, Default)]
pub struct ExactSums {
    high: Vec<f64>,
    /// Empty while each step has at most one term.
    low: Vec<f64>,
    wide: BTreeMap<usize, Box<Wide>>,
    wide_bytes: u64,
}

impl ExactSums {
    /// The sums of one term each.
    pub fn of_values(values: Vec<f64>) -> Self {
        Self { high: values, ..Self::default() }
    }

    /// The sums of a number of steps whose floats are in these columns; `None` if a column has another
    /// length.
    pub fn from_columns(steps: usize, high: Vec<f64>, mut low: Vec<f64>) -> Option<Self> {
        if high.len() != steps || !low.is_empty() && low.len() != steps {
            return None;
        }
        let finite = |(high, low): (&f64, &f64)| high.is_finite() && low.is_finite();
        for (n, low) in low.iter_mut().enumerate() {
            if !finite((&high[n], low)) {
                *low = 0.0; // a sum that is not finite has no second float
            }
        }
        Some(Self { high, low, ..Self::default() })
    }

    /// Whether no term was added.
    pub fn is_empty(&self) -> bool {
        self.high.is_empty()
    }

    /// Makes room for this number of steps.
    pub fn prepare(&mut self, steps: usize) {
        self.high.resize(steps, 0.0);
        self.low.resize(steps, 0.0);
    }

    /// Sets the first term of a step.
    #[inline]
    pub fn begin(&mut self, step: usize, value: f64) {
        self.high[step] = value;
    }

    /// Adds a term to a step. The steps must be prepared.
    #[inline]
    pub fn add(&mut self, step: usize, value: f64) {
        let mut parts = [self.high[step], self.low[step]];
        if !add_to(&mut parts, value) {
            return self.add_slowly(step, value);
        }
        [self.high[step], self.low[step]] = parts;
    }

    #[cold]
    fn add_slowly(&mut self, step: usize, value: f64) {
        let wide = self.wide.remove(&step);
        let mut sum = ExactSum { parts: [self.high[step], self.low[step]], wide };
        let before = sum.heap_bytes();
        sum.add_slowly(value);
        self.wide_bytes = self.wide_bytes + sum.heap_bytes() - before;
        self.set(step, sum);
    }

    /// Adds terms to the steps from `start` on, at most [`RUN`]. The steps must be prepared.
    #[inline]
    pub fn add_run(&mut self, start: usize, values: &[f64]) {
        let (count, end) = (values.len(), start + values.len());
        let (high, low) = (&mut self.high[start..end], &mut self.low[start..end]);
        let (mut sums, mut losses, mut rests) = ([0.0; RUN], [0.0; RUN], 0);
        // Slices of one length, so that the loop has no checks of bounds.
        let (new_high, new_low) = (&mut sums[..count], &mut losses[..count]);
        for n in 0..count {
            let (sum, lost) = two_sum(high[n], values[n]);
            let (lost, rest) = two_sum(low[n], lost);
            (new_high[n], new_low[n]) = (sum, lost);
            rests |= rest.to_bits();
        }
        // Without the sign, the bits of zero are zero.
        if rests << 1 == 0 {
            high.copy_from_slice(new_high);
            low.copy_from_slice(new_low);
        } else {
            (start..end).zip(values).for_each(|(step, value)| self.add(step, *value));
        }
    }

    /// The sum of a step.
    pub fn get(&self, step: usize) -> ExactSum {
        let low = self.low.get(step).copied().unwrap_or_default();
        ExactSum { parts: [self.high[step], low], wide: self.wide.get(&step).cloned() }
    }

    /// Replaces the sum of a step.
    pub fn set(&mut self, step: usize, sum: ExactSum) {
        [self.high[step], self.low[step]] = sum.parts;
        if let Some(wide) = sum.wide {
            self.wide.insert(step, wide);
        }
    }

    /// Adds another sum to that of a step. The steps must be prepared.
    pub fn merge(&mut self, step: usize, other: &ExactSum) {
        let mut sum = self.get(step);
        let before = sum.heap_bytes();
        sum.merge(other);
        self.wide_bytes = self.wide_bytes + sum.heap_bytes() - before;
        self.wide.remove(&step);
        self.set(step, sum);
    }

    /// The floats of all sums, for another process. The second column is empty if there are no second terms.
    pub fn columns(&self) -> (&[f64], &[f64]) {
        (&self.high, &self.low)
    }

    /// The steps whose sums two floats cannot hold, with the rest, for another process.
    pub fn wide(&self) -> impl Iterator<Item = (usize, &Wide)> {
        self.wide.iter().map(|(step, wide)| (*step, &**wide))
    }

    /// The bytes of the sums that two floats cannot hold.
    pub fn wide_bytes(&self) -> u64 {
        self.wide_bytes
    }

    /// The rounded sums.
    pub fn values(&self) -> Vec<f64> {
        (0..self.high.len()).map(|step| self.get(step).value()).collect()
    }

    /// The rounded means; `counts` has the number of terms of each step.
    pub fn means(&self, counts: &[f64]) -> Vec<f64> {
        (0..self.high.len()).zip(counts).map(|(step, count)| self.get(step).mean(*count)).collect()
    }
}
