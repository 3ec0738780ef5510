//! `avg_over_time`.

use crate::range::function::unwrapped;
use crate::range::slots::Table;
use crate::range::total::Total;
use crate::range::{RangeFunction, Window};

pub const TABLE: &[RangeFunction] = &[RangeFunction {
    sharded: true,
    ..unwrapped("avg_over_time", "The mean of unwrapped values.", |setup| Table::<Total>::boxed(setup, mean))
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
