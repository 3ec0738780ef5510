//! `first_over_time` and `last_over_time`, by timestamp. Of several rows at the same instant, the one that
//! was read first or last counts.

use std::cmp::Ordering;

use sandur_memory::Reservation;
use sandur_protobuf::Writer as _;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _};

use crate::range::function::unwrapped;
use crate::range::slots::{Slot, Table};
use crate::range::{RangeFunction, Window};

pub const TABLE: &[RangeFunction] = &[
    unwrapped("first_over_time", "The oldest unwrapped value.", |setup| {
        Table::<Edge<false>>::boxed(setup, value)
    }),
    unwrapped("last_over_time", "The newest unwrapped value.", |setup| {
        Table::<Edge<true>>::boxed(setup, value)
    }),
];

#[derive(Clone, Copy, Debug, Default)]
struct Edge<const LAST: bool>(Option<(i64, f64)>);

impl<const LAST: bool> Slot for Edge<LAST> {
    fn add(&mut self, timestamp: i64, value: f64) {
        // Of rows at one instant, the one with the greatest value counts, whatever their order.
        let replaces = |(known, best): (i64, f64)| match timestamp.cmp(&known) {
            Ordering::Equal => value.total_cmp(&best).is_gt(),
            order => order.is_gt() == LAST,
        };
        if self.0.is_none_or(replaces) {
            self.0 = Some((timestamp, value));
        }
    }

    fn merge(&mut self, other: &Self) {
        if let Some((timestamp, value)) = other.0 {
            self.add(timestamp, value);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some((timestamp, value)) = self.0 {
            out.put_signed(1, timestamp);
            out.double(2, value);
        }
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, _memory: &mut Reservation) -> Result<(), Error> {
        let (timestamp, value) = self.0.get_or_insert_default();
        match field {
            1 => *timestamp = from.signed()?,
            2 => *value = from.double()?,
            _ => from.skip()?,
        }
        Ok(())
    }
}

fn value<const LAST: bool>(state: &Edge<LAST>, _window: &Window) -> Option<f64> {
    state.0.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use crate::range::slots::testing::value;

    #[test]
    fn first_and_last_are_by_timestamp() {
        let rows = [(5, 50.0), (2, 20.0), (9, 90.0), (3, 30.0)];
        assert_eq!(value("first_over_time", 0.0, &rows), Some(20.0));
        assert_eq!(value("last_over_time", 0.0, &rows), Some(90.0));
        assert_eq!(value("last_over_time", 0.0, &[(1, 1.0)]), Some(1.0));
        assert_eq!(value("first_over_time", 0.0, &[]), None);
    }
}
