//! `quantile_over_time`: exact, with linear interpolation between neighbouring values, as in Prometheus.

use sandur_memory::Reservation;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _};

use crate::range::function::unwrapped;
use crate::range::slots::{Slot, Table};
use crate::range::{Argument, RangeFunction};

pub const TABLE: &[RangeFunction] = &[RangeFunction {
    argument: Argument::Number,
    ..unwrapped("quantile_over_time", "A quantile, from 0 to 1, of unwrapped values.", |setup| {
        Table::<Values>::boxed(setup, |values, window| quantile(window.parameter, values.0.clone()))
    })
}];

#[derive(Clone, Debug, Default)]
struct Values(Vec<f64>);

impl Slot for Values {
    const COMPACT: bool = false;

    fn add(&mut self, _timestamp: i64, value: f64) {
        self.0.push(value);
    }

    fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    fn heap_bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<f64>()) as u64
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_floats(1, &self.0);
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, memory: &mut Reservation) -> Result<(), Error> {
        match field {
            1 => self.0 = from.floats(memory)?,
            _ => from.skip()?,
        }
        Ok(())
    }
}

/// The quantile of values; infinite if `q` is outside of 0 to 1. NaN counts as the least value.
pub fn quantile(q: f64, mut values: Vec<f64>) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    if q.is_nan() {
        return Some(f64::NAN);
    }
    if q < 0.0 {
        return Some(f64::NEG_INFINITY);
    }
    if q > 1.0 {
        return Some(f64::INFINITY);
    }
    values.sort_by(|a, b| match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(b),
        (a, b) => b.cmp(&a),
    });
    let rank = q * (values.len() - 1) as f64;
    let lower = rank.floor() as usize;
    let upper = (lower + 1).min(values.len() - 1);
    let weight = rank - rank.floor();
    Some(values[lower] * (1.0 - weight) + values[upper] * weight)
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn quantiles_are_interpolated() {
        let rows: Vec<(i64, f64)> = [5.0, 1.0, 3.0, 2.0, 4.0].map(|v| (1, v)).to_vec();
        for (q, expected) in [(0.0, 1.0), (0.5, 3.0), (0.9, 4.6), (1.0, 5.0)] {
            assert_eq!(value("quantile_over_time", q, &rows), Some(expected), "{q}");
        }
        assert_eq!(value("quantile_over_time", 2.0, &rows), Some(f64::INFINITY));
        assert_eq!(value("quantile_over_time", -1.0, &rows), Some(f64::NEG_INFINITY));
        assert_eq!(value("quantile_over_time", 0.5, &[]), None);
    }
}
