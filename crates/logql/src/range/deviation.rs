//! `stdvar_over_time` and `stddev_over_time`: of the population, as in Prometheus.

use crate::range::slots::{Slot, Table};
use crate::range::{Argument, RangeFunction, RowValue, UnwrapUse, Window};

const BASE: RangeFunction = RangeFunction {
    name: "stdvar_over_time",
    doc: "The variance of unwrapped values.",
    argument: Argument::Nothing,
    unwrap: UnwrapUse::Required,
    grouping: true,
    value: RowValue::One,
    sums: false,
    sharded: false,
    absent: false,
    start: |setup| Table::<Moments>::boxed(setup, variance),
};

pub const TABLE: &[RangeFunction] = &[
    BASE,
    RangeFunction {
        name: "stddev_over_time",
        doc: "The standard deviation of unwrapped values.",
        start: |setup| Table::<Moments>::boxed(setup, deviation),
        ..BASE
    },
];

/// Count, mean and sum of squared deviations from the mean, by Welford's algorithm; merged by Chan's.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    rows: f64,
    mean: f64,
    squares: f64,
}

impl Slot for Moments {
    fn add(&mut self, _timestamp: i64, value: f64) {
        self.rows += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.rows;
        self.squares += delta * (value - self.mean);
    }

    fn merge(&mut self, other: &Self) {
        if self.rows == 0.0 {
            *self = *other;
        } else if other.rows > 0.0 {
            let rows = self.rows + other.rows;
            let delta = other.mean - self.mean;
            self.squares += other.squares + delta * delta * self.rows * other.rows / rows;
            self.mean += delta * other.rows / rows;
            self.rows = rows;
        }
    }
}

fn variance(state: &Moments, _window: &Window) -> Option<f64> {
    (state.rows > 0.0).then(|| state.squares / state.rows)
}

fn deviation(state: &Moments, window: &Window) -> Option<f64> {
    variance(state, window).map(f64::sqrt)
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn deviation_is_that_of_the_population() {
        let rows: Vec<(i64, f64)> = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].map(|v| (1, v)).to_vec();
        assert_eq!(value("stdvar_over_time", 0.0, &rows), Some(4.0));
        assert_eq!(value("stddev_over_time", 0.0, &rows), Some(2.0));
        assert_eq!(value("stddev_over_time", 0.0, &[(1, 3.0)]), Some(0.0));
        assert_eq!(value("stddev_over_time", 0.0, &[]), None);
    }
}
