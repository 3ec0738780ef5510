//! Counts and sums: `count_over_time`, `rate`, `bytes_over_time`, `bytes_rate`, `sum_over_time`,
//! `absent_over_time`.

use crate::range::slots::{Slot, Table};
use crate::range::{Argument, RangeFunction, RowValue, UnwrapUse, Window};

const BASE: RangeFunction = RangeFunction {
    name: "count_over_time",
    doc: "The number of rows in the window.",
    argument: Argument::Nothing,
    unwrap: UnwrapUse::Forbidden,
    grouping: false,
    value: RowValue::One,
    sums: true,
    sharded: true,
    absent: false,
    start: |setup| Table::<Total>::boxed(setup, whole),
};

pub const TABLE: &[RangeFunction] = &[
    BASE,
    RangeFunction {
        name: "rate",
        doc: "The number of rows per second in the window, or the sum of unwrapped values per second.",
        unwrap: UnwrapUse::Optional,
        start: |setup| Table::<Total>::boxed(setup, per_second),
        ..BASE
    },
    RangeFunction {
        name: "bytes_over_time",
        doc: "The bytes of the lines in the window.",
        value: RowValue::Bytes,
        ..BASE
    },
    RangeFunction {
        name: "bytes_rate",
        doc: "The bytes of the lines per second in the window.",
        value: RowValue::Bytes,
        start: |setup| Table::<Total>::boxed(setup, per_second),
        ..BASE
    },
    RangeFunction {
        name: "sum_over_time",
        doc: "The sum of unwrapped values.",
        unwrap: UnwrapUse::Required,
        ..BASE
    },
    RangeFunction {
        name: "absent_over_time",
        doc: "1 at steps whose window has no rows.",
        unwrap: UnwrapUse::Optional,
        sums: false,
        sharded: false,
        absent: true,
        ..BASE
    },
];

/// A compensated sum, which hardly depends on the order of additions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    pub rows: u64,
    sum: f64,
    error: f64,
}

impl Total {
    pub fn plus(&mut self, value: f64) {
        let sum = self.sum + value;
        let lost =
            if self.sum.abs() >= value.abs() { self.sum - sum + value } else { value - sum + self.sum };
        self.error += lost;
        self.sum = sum;
    }

    pub fn sum(&self) -> f64 {
        // With an infinite sum the compensation is NaN, and is not needed.
        if self.error.is_finite() { self.sum + self.error } else { self.sum }
    }
}

impl Slot for Total {
    fn add(&mut self, _timestamp: i64, value: f64) {
        self.rows += 1;
        self.plus(value);
    }

    fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.plus(other.sum);
        self.error += other.error;
    }

    fn add_counted(&mut self, rows: u64, sum: f64) {
        self.rows += rows;
        self.plus(sum);
    }
}

fn whole(total: &Total, _window: &Window) -> Option<f64> {
    (total.rows > 0).then(|| total.sum())
}

fn per_second(total: &Total, window: &Window) -> Option<f64> {
    (total.rows > 0).then(|| total.sum() / window.range_seconds())
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn totals_count_and_sum_the_rows_of_a_window() {
        let rows = [(1, 1.0), (2, 2.0), (3, 0.5)];
        assert_eq!(value("sum_over_time", 0.0, &rows), Some(3.5));
        assert_eq!(value("rate", 0.0, &[(1, 6.0), (2, 6.0)]), Some(0.2));
        assert_eq!(value("sum_over_time", 0.0, &[]), None);
        let large = [(1, 1e100), (2, 1.0), (3, -1e100)];
        assert_eq!(value("sum_over_time", 0.0, &large), Some(1.0));
        let infinite = [(1, f64::INFINITY), (2, 1.0)];
        assert_eq!(value("sum_over_time", 0.0, &infinite), Some(f64::INFINITY));
        assert!(value("sum_over_time", 0.0, &[(1, f64::INFINITY), (2, f64::NEG_INFINITY)]).unwrap().is_nan());
    }
}
