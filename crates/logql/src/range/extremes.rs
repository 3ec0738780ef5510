//! `min_over_time` and `max_over_time`. Any number replaces a NaN.

use sandur_memory::Reservation;
use sandur_protobuf::Writer as _;
use sandur_query::Error;
use sandur_query::wire::Fields;

use crate::range::function::unwrapped;
use crate::range::slots::{Slot, Table};
use crate::range::{RangeFunction, Window};

const BASE: RangeFunction = RangeFunction {
    sharded: true,
    ..unwrapped("min_over_time", "The least unwrapped value.", |setup| {
        Table::<Extreme<false>>::boxed(setup, value)
    })
};

pub const TABLE: &[RangeFunction] = &[
    BASE,
    RangeFunction {
        name: "max_over_time",
        doc: "The greatest unwrapped value.",
        start: |setup| Table::<Extreme<true>>::boxed(setup, value),
        ..BASE
    },
];

#[derive(Clone, Copy, Debug, Default)]
struct Extreme<const GREATEST: bool>(Option<f64>);

impl<const GREATEST: bool> Slot for Extreme<GREATEST> {
    fn add(&mut self, _timestamp: i64, value: f64) {
        // Of the two zeros, the positive one is greater, so that the order of rows does not matter.
        let exceeds = |a: f64, b: f64| !a.is_nan() && a.total_cmp(&b).is_gt();
        let better =
            |best: f64| best.is_nan() || if GREATEST { exceeds(value, best) } else { exceeds(best, value) };
        if self.0.is_none_or(better) {
            self.0 = Some(value);
        }
    }

    fn merge(&mut self, other: &Self) {
        if let Some(value) = other.0 {
            self.add(0, value);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|value| out.double(1, *value));
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, _memory: &mut Reservation) -> Result<(), Error> {
        match field {
            1 => self.0 = Some(from.double()?),
            _ => from.skip()?,
        }
        Ok(())
    }
}

fn value<const GREATEST: bool>(state: &Extreme<GREATEST>, _window: &Window) -> Option<f64> {
    state.0
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn extremes_ignore_nan() {
        let rows = [(1, 3.0), (2, f64::NAN), (3, -1.0), (4, 2.0)];
        assert_eq!(value("min_over_time", 0.0, &rows), Some(-1.0));
        assert_eq!(value("max_over_time", 0.0, &rows), Some(3.0));
        assert!(value("max_over_time", 0.0, &[(1, f64::NAN)]).unwrap().is_nan());
        assert_eq!(value("min_over_time", 0.0, &[]), None);
    }
}
