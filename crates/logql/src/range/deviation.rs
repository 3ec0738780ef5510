//! `stdvar_over_time` and `stddev_over_time`: of the population, as in Prometheus.

use sandur_memory::Reservation;
use sandur_model::exact::Moments;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _};

use crate::range::function::unwrapped;
use crate::range::slots::{Slot, Table};
use crate::range::{RangeFunction, Window};

pub const TABLE: &[RangeFunction] = &[
    unwrapped("stdvar_over_time", "The variance of unwrapped values.", |setup| {
        Table::<Moments>::boxed(setup, variance)
    }),
    unwrapped("stddev_over_time", "The standard deviation of unwrapped values.", |setup| {
        Table::<Moments>::boxed(setup, deviation)
    }),
];

impl Slot for Moments {
    fn add(&mut self, _timestamp: i64, value: f64) {
        Moments::add(self, value);
    }

    fn merge(&mut self, other: &Self) {
        Moments::merge(self, other);
    }

    fn heap_bytes(&self) -> u64 {
        Moments::heap_bytes(self)
    }

    fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_moments(1, self);
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, memory: &mut Reservation) -> Result<(), Error> {
        match field {
            1 => *self = from.moments(memory)?,
            _ => from.skip()?,
        }
        Ok(())
    }
}

fn variance(state: &Moments, _window: &Window) -> Option<f64> {
    (state.count() > 0).then(|| state.variance())
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
