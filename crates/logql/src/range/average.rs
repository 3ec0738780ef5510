//! `avg_over_time`.

use crate::range::slots::Table;
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
    start: |setup| Table::<Total>::boxed(setup, mean),
}];

fn mean(total: &Total, _window: &Window) -> Option<f64> {
    (total.rows > 0).then(|| total.sum.mean(total.rows as f64))
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
