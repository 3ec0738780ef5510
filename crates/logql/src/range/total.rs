//! Counts and sums: `count_over_time`, `rate`, `bytes_over_time`, `bytes_rate`, `sum_over_time`,
//! `absent_over_time`.

use sandur_memory::Reservation;
use sandur_model::exact::ExactSum;
use sandur_protobuf::Writer as _;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _};

use crate::range::slots::{Accumulation, Finish, Slot, Table};
use crate::range::{Argument, RangeFunction, RowValue, Setup, UnwrapUse, Window};

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
    start: |setup| table(setup, whole, whole),
};

pub const TABLE: &[RangeFunction] = &[
    BASE,
    RangeFunction {
        name: "rate",
        doc: "The number of rows per second in the window, or the sum of unwrapped values per second.",
        unwrap: UnwrapUse::Optional,
        start: |setup| table(setup, per_second, per_second),
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
        start: |setup| table(setup, per_second, per_second),
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

/// An accumulation of counts, or of sums if the query unwraps values.
fn table(setup: Setup, counted: Finish<Counts>, summed: Finish<Total>) -> Box<dyn Accumulation> {
    match setup.unwraps {
        true => Table::boxed(setup, summed),
        false => Table::boxed(setup, counted),
    }
}

/// The number of rows, and the sum of their unwrapped values.
#[derive(Clone, Debug, Default)]
pub struct Total {
    pub rows: u64,
    pub sum: ExactSum,
}

/// The number of rows, and the sum of whole numbers, such as the lengths of their lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub rows: u64,
    pub sum: u64,
}

/// A slot with a number of rows and a sum.
trait Summed {
    fn sum_of_any(&self) -> Option<f64>;
}

impl Summed for Total {
    fn sum_of_any(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.sum.value())
    }
}

impl Summed for Counts {
    fn sum_of_any(&self) -> Option<f64> {
        (self.rows > 0).then_some(self.sum as f64)
    }
}

impl Slot for Total {
    fn add(&mut self, _timestamp: i64, value: f64) {
        self.rows += 1;
        self.sum.add(value);
    }

    fn merge(&mut self, other: &Self) {
        self.rows = self.rows.saturating_add(other.rows);
        self.sum.merge(&other.sum);
    }

    fn heap_bytes(&self) -> u64 {
        self.sum.heap_bytes()
    }

    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.number(1, self.rows);
        out.put_sum(2, &self.sum);
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, memory: &mut Reservation) -> Result<(), Error> {
        match field {
            1 => self.rows = from.number()?,
            2 => self.sum = from.sum(memory)?,
            _ => from.skip()?,
        }
        Ok(())
    }
}

impl Slot for Counts {
    fn add(&mut self, _timestamp: i64, value: f64) {
        self.add_counted(1, value as u64);
    }

    fn merge(&mut self, other: &Self) {
        self.add_counted(other.rows, other.sum);
    }

    fn add_counted(&mut self, rows: u64, sum: u64) {
        self.rows = self.rows.saturating_add(rows);
        self.sum = self.sum.saturating_add(sum);
    }

    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.number(1, self.rows);
        out.number(2, self.sum);
    }

    fn read(&mut self, field: u32, from: &mut Fields<'_>, _memory: &mut Reservation) -> Result<(), Error> {
        match field {
            1 => self.rows = from.number()?,
            2 => self.sum = from.number()?,
            _ => from.skip()?,
        }
        Ok(())
    }
}

fn whole(total: &impl Summed, _window: &Window) -> Option<f64> {
    total.sum_of_any()
}

fn per_second(total: &impl Summed, window: &Window) -> Option<f64> {
    total.sum_of_any().map(|sum| sum / window.range_seconds())
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
