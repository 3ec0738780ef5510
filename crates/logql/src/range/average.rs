//! `avg_over_time`.

use crate::range::slots::{Slot, Table};
use crate::range::total::Total;
use crate::range::{Argument, RangeFunction, RowValue, UnwrapUse, Window};

pub const TABLE: &[RangeFunction] = &[RangeFunction {
    name: "avg_over_time",
    doc: "The mean of unwrapped values.",
    argument: Argument::Nothing,
    unwrap: UnwrapUse::Required,
    grouping: true,
    value: RowValue::One,
    sums: false,
    sharded: true,
    absent: false,
    start: |setup| Table::<Mean>::boxed(setup, mean),
}];

/// The sum, and a second sum scaled by 2^-64 for values whose plain sum overflows.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    total: Total,
    scaled: Total,
}

/// A power of two: scaling by it loses only what is far below the precision of the result.
const SCALE: f64 = 1.0 / (1u128 << 64) as f64;

impl Slot for Mean {
    fn add(&mut self, timestamp: i64, value: f64) {
        self.total.add(timestamp, value);
        self.scaled.plus(value * SCALE);
    }

    fn merge(&mut self, other: &Self) {
        self.total.merge(&other.total);
        self.scaled.merge(&other.scaled);
    }
}

fn mean(state: &Mean, _window: &Window) -> Option<f64> {
    let rows = state.total.rows;
    if rows == 0 {
        return None;
    }
    let plain = state.total.sum();
    if plain.is_finite() {
        return Some(plain / rows as f64);
    }
    Some(state.scaled.sum() / rows as f64 / SCALE)
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn avg_over_time_is_the_mean() {
        assert_eq!(value("avg_over_time", 0.0, &[(1, 1.0), (2, 2.0), (3, 6.0)]), Some(3.0));
        assert_eq!(value("avg_over_time", 0.0, &[(1, 1e308), (2, 1e308), (3, 1e308)]), Some(1e308));
        assert_eq!(value("avg_over_time", 0.0, &[(1, f64::INFINITY), (2, 1.0)]), Some(f64::INFINITY));
        assert_eq!(value("avg_over_time", 0.0, &[]), None);
    }
}
