//! Accumulations: for each group and time slot, the state that a function keeps of its rows.
//!
//! A group has slots only from its first to its last one with rows, so that many short-lived groups cost
//! little memory. Memory is reserved before it grows.

use std::any::Any;

use sandur_memory::Reservation;
use sandur_protobuf::Writer as _;
use sandur_query::wire::{Fields, malformed};
use sandur_query::{Error, Windows};

/// The value of a step without a sample: a NaN that no computation produces.
pub const ABSENT: f64 = f64::from_bits(0x7ff8_dead_beef_0001);

/// Whether a value stands for a missing sample.
pub fn is_absent(value: f64) -> bool {
    value.to_bits() == ABSENT.to_bits()
}

/// The parameters of an accumulation.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The number of slots of the query's windows.
    pub slots: usize,
    /// The function's numeric argument.
    pub parameter: f64,
    /// Whether rows contribute unwrapped values, not whole numbers.
    pub unwraps: bool,
}

/// The window whose rows become a number.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Its last instant, in nanoseconds since the epoch.
    pub end_ns: i64,
    /// Its length, in nanoseconds.
    pub range_ns: i64,
    /// The function's numeric argument.
    pub parameter: f64,
}

impl Window {
    /// Its length, in seconds.
    pub fn range_seconds(&self) -> f64 {
        self.range_ns as f64 / 1e9
    }
}

/// The state of the rows of one group and slot. The default is the state without rows.
pub trait Slot: Default + Clone + Send + 'static {
    /// Adds a row.
    fn add(&mut self, timestamp: i64, value: f64);
    /// Adds the rows of another slot. Both may have rows at the same instants.
    fn merge(&mut self, other: &Self);
    /// Adds rows of which only the number and the sum are known. Only for functions that count.
    fn add_counted(&mut self, _rows: u64, _sum: u64) {}
    /// Whether the cost of merging does not depend on the number of rows.
    const COMPACT: bool = true;
    /// The bytes on the heap.
    fn heap_bytes(&self) -> u64 {
        0
    }
    /// Whether there are no rows.
    fn is_empty(&self) -> bool;
    /// Writes the slot for another process.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads a field that [`Self::write`] wrote.
    fn read(&mut self, field: u32, from: &mut Fields<'_>, memory: &mut Reservation) -> Result<(), Error>;
}

/// The slots of all groups, for any kind of slot.
pub trait Accumulation: Send {
    /// Adds a row to a group.
    fn add(
        &mut self,
        memory: &mut Reservation,
        group: u32,
        slot: usize,
        row: (i64, f64),
    ) -> Result<(), Error>;
    /// Adds rows of which only the number and the sum are known.
    fn add_counted(
        &mut self,
        memory: &mut Reservation,
        group: u32,
        slot: usize,
        counted: (u64, u64),
    ) -> Result<(), Error>;
    /// Adds the rows of a group of another accumulation of the same function.
    fn merge(
        &mut self,
        memory: &mut Reservation,
        group: u32,
        other: &dyn Accumulation,
        from: u32,
    ) -> Result<(), Error>;
    /// The values of a group at each step.
    fn values(&self, group: u32, windows: &Windows) -> Vec<f64>;
    /// Writes a group for another process.
    fn write(&self, group: u32, out: &mut Vec<u8>);
    /// Reads a group that [`Self::write`] wrote.
    fn read(&mut self, memory: &mut Reservation, group: u32, from: &mut Fields<'_>) -> Result<(), Error>;
    /// Allows `merge` to downcast.
    fn as_any(&self) -> &dyn Any;
}

/// Converts a window's rows to a number; `None` if there are none.
pub type Finish<S> = fn(&S, &Window) -> Option<f64>;

#[derive(Clone)]
struct Lane<S> {
    first: usize,
    slots: Vec<S>,
}

/// The implementation for every kind of slot.
pub struct Table<S> {
    setup: Setup,
    finish: Finish<S>,
    lanes: Vec<Lane<S>>,
}

impl<S: Slot> Table<S> {
    /// An accumulation without rows.
    pub fn boxed(setup: Setup, finish: Finish<S>) -> Box<dyn Accumulation> {
        Box::new(Self { setup, finish, lanes: Vec::new() })
    }

    fn slot(&mut self, memory: &mut Reservation, group: u32, slot: usize) -> Result<&mut S, Error> {
        let group = group as usize;
        if group >= self.lanes.len() {
            let more = group + 1 - self.lanes.len();
            memory.grow((more * size_of::<Lane<S>>()) as u64)?;
            self.lanes.resize(group + 1, Lane { first: 0, slots: Vec::new() });
        }
        let lane = &mut self.lanes[group];
        if lane.slots.is_empty() {
            lane.first = slot;
        }
        let last = lane.first + lane.slots.len();
        if slot < lane.first || slot >= last {
            lane.cover(memory, slot, self.setup.slots)?;
        }
        Ok(&mut lane.slots[slot - lane.first])
    }
}

impl<S: Slot> Lane<S> {
    /// Grows the lane to cover a slot outside of it, with some spare room in that direction.
    fn cover(&mut self, memory: &mut Reservation, slot: usize, limit: usize) -> Result<(), Error> {
        let length = self.slots.len();
        let spare = length / 2;
        let (front, back) = if slot < self.first {
            (self.first - slot + spare.min(slot), 0)
        } else {
            let needed = slot + 1 - self.first - length;
            (0, (needed + spare).min(limit.max(slot + 1) - self.first - length))
        };
        memory.grow((front + back).saturating_mul(size_of::<S>()) as u64)?;
        if front > 0 {
            self.slots.splice(0..0, std::iter::repeat_with(S::default).take(front));
            self.first -= front;
        }
        self.slots.resize(length + front + back, S::default());
        Ok(())
    }
}

/// Windows of up to this many slots are merged slot by slot.
const DIRECT_MAX: usize = 8;

/// Totals over ranges of slots whose ends never decrease, with few merges per range. The older slots are
/// kept as totals from each slot to a border, the newer ones as one running total.
struct Sliding<'a, S> {
    slots: &'a [S],
    /// The totals from a slot to the border, the slot next to the border first.
    older: Vec<S>,
    border: usize,
    newer: S,
    high: usize,
}

impl<'a, S: Slot> Sliding<'a, S> {
    fn new(slots: &'a [S]) -> Self {
        Self { slots, older: Vec::new(), border: 0, newer: S::default(), high: 0 }
    }

    fn over(&mut self, from: usize, to: usize) -> S {
        if from >= self.border {
            // All older totals are outside the range: the newer slots become the older ones.
            self.high = self.high.max(from);
            self.older.clear();
            let mut total = S::default();
            for slot in self.slots[from..self.high].iter().rev() {
                let mut next = slot.clone();
                next.merge(&total);
                total = next.clone();
                self.older.push(next);
            }
            self.border = self.high;
            self.newer = S::default();
        }
        for slot in &self.slots[self.high..to.max(self.high)] {
            self.newer.merge(slot);
        }
        self.high = self.high.max(to);
        let mut total = match self.border.checked_sub(from + 1) {
            Some(place) => self.older[place].clone(),
            None => S::default(),
        };
        total.merge(&self.newer);
        total
    }
}

impl<S: Slot> Accumulation for Table<S> {
    fn add(
        &mut self,
        memory: &mut Reservation,
        group: u32,
        slot: usize,
        row: (i64, f64),
    ) -> Result<(), Error> {
        let cell = self.slot(memory, group, slot)?;
        let before = cell.heap_bytes();
        cell.add(row.0, row.1);
        let grown = cell.heap_bytes().saturating_sub(before);
        if grown > 0 {
            memory.grow(grown)?;
        }
        Ok(())
    }

    fn add_counted(
        &mut self,
        memory: &mut Reservation,
        group: u32,
        slot: usize,
        counted: (u64, u64),
    ) -> Result<(), Error> {
        self.slot(memory, group, slot)?.add_counted(counted.0, counted.1);
        Ok(())
    }

    fn merge(
        &mut self,
        memory: &mut Reservation,
        group: u32,
        other: &dyn Accumulation,
        from: u32,
    ) -> Result<(), Error> {
        let other = other.as_any().downcast_ref::<Self>();
        let Some(lane) = other.and_then(|o| o.lanes.get(from as usize)) else { return Ok(()) };
        for (n, slot) in lane.slots.iter().enumerate() {
            memory.grow(slot.heap_bytes())?;
            self.slot(memory, group, lane.first + n)?.merge(slot);
        }
        Ok(())
    }

    fn values(&self, group: u32, windows: &Windows) -> Vec<f64> {
        let slots = windows.slots();
        let mut values = vec![ABSENT; windows.steps()];
        let Some(lane) = self.lanes.get(group as usize) else { return values };
        let end = lane.first + lane.slots.len();
        let mut sliding = Sliding::new(&lane.slots);
        for (step, value) in values.iter_mut().enumerate() {
            let wanted = slots.of_step(step);
            let (from, to) = (wanted.start.max(lane.first), wanted.end.min(end));
            if from >= to {
                continue;
            }
            let parameter = self.setup.parameter;
            let window = Window { end_ns: windows.end_of(step), range_ns: windows.range_ns(), parameter };
            let (from, to) = (from - lane.first, to - lane.first);
            let found = match &lane.slots[from..to] {
                [one] => (self.finish)(one, &window),
                many if S::COMPACT && many.len() > DIRECT_MAX => {
                    (self.finish)(&sliding.over(from, to), &window)
                }
                many => {
                    let mut total = S::default();
                    many.iter().for_each(|cell| total.merge(cell));
                    (self.finish)(&total, &window)
                }
            };
            *value = found.unwrap_or(ABSENT);
        }
        values
    }

    fn write(&self, group: u32, out: &mut Vec<u8>) {
        let Some(lane) = self.lanes.get(group as usize) else { return };
        let mut next = None;
        for (n, slot) in lane.slots.iter().enumerate().filter(|(_, slot)| !slot.is_empty()) {
            let place = lane.first + n;
            if next != Some(place) {
                out.varint(1, place as u64);
            }
            out.message(2, |out| slot.write(out));
            next = Some(place + 1);
        }
    }

    fn read(&mut self, memory: &mut Reservation, group: u32, from: &mut Fields<'_>) -> Result<(), Error> {
        let mut at = 0;
        while let Some(field) = from.field()? {
            match field {
                1 => at = from.number()? as usize,
                2 => {
                    let (mut fields, mut read) = (from.message()?, S::default());
                    while let Some(field) = fields.field()? {
                        read.read(field, &mut fields, memory)?;
                    }
                    if at >= self.setup.slots {
                        return Err(malformed("a slot outside of the query's windows"));
                    }
                    *self.slot(memory, group, at)? = read;
                    at += 1;
                }
                _ => from.skip()?,
            }
        }
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use sandur_memory::MemoryBudget;
    use sandur_query::Windows;

    /// The value of a function for rows in one window of 60 s.
    pub fn value(function: &str, parameter: f64, rows: &[(i64, f64)]) -> Option<f64> {
        let function = crate::range::find(function).unwrap();
        let windows = Windows::new(60_000_000_000, 60_000_000_000, 1, 60_000_000_000, 0);
        let setup = Setup { slots: windows.slots().len(), parameter, unwraps: true };
        let budget = MemoryBudget::root("test", 1 << 20);
        let mut memory = budget.reserve(0).unwrap();
        // Half of the rows are added to another accumulation, which is then merged.
        let (mut left, mut right) = ((function.start)(setup), (function.start)(setup));
        for (n, (second, value)) in rows.iter().enumerate() {
            let side = if n % 2 == 0 { &mut left } else { &mut right };
            side.add(&mut memory, 0, 0, (second * 1_000_000_000, *value)).unwrap();
        }
        left.merge(&mut memory, 0, &*right, 0).unwrap();
        let value = left.values(0, &windows)[0];
        (!is_absent(value)).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::find;
    use sandur_memory::MemoryBudget;
    use sandur_query::Windows;

    /// For any overlap of windows, the totals equal those of their slots.
    #[test]
    fn sliding_totals_equal_plain_totals() {
        let slots: Vec<crate::range::total::Total> = (0..60)
            .map(|n| {
                let mut slot = crate::range::total::Total::default();
                slot.add(0, f64::from(n));
                slot
            })
            .collect();
        for (length, pace) in [(1, 1), (10, 1), (10, 3), (25, 2), (10, 15), (60, 1)] {
            let mut sliding = Sliding::new(&slots);
            for from in (0..60).step_by(pace) {
                let to = (from + length).min(60);
                let expected: f64 = (from..to).map(|n| n as f64).sum();
                let found = sliding.over(from, to);
                assert_eq!((found.sum.value(), found.rows), (expected, (to - from) as u64), "{from}..{to}");
            }
        }
    }

    #[test]
    fn lanes_grow_both_ways_within_the_budget() {
        let windows = Windows::new(0, 99, 1, 3, 0);
        let slots = windows.slots();
        let setup = Setup { slots: slots.len(), parameter: 0.0, unwraps: false };
        let budget = MemoryBudget::root("test", 1 << 20);
        let mut memory = budget.reserve(0).unwrap();
        let mut counts = (find("count_over_time").unwrap().start)(setup);
        for t in [50, 52, 40, 60, 50] {
            let (slot, _) = slots.find(t).unwrap();
            counts.add(&mut memory, 1, slot, (t, 1.0)).unwrap();
        }
        let values = counts.values(1, &windows);
        let seen: Vec<(usize, f64)> =
            values.iter().copied().enumerate().filter(|(_, v)| !is_absent(*v)).collect();
        let expected =
            [(40, 1.0), (41, 1.0), (42, 1.0), (50, 2.0), (51, 2.0), (52, 3.0), (53, 1.0), (54, 1.0)];
        assert_eq!(seen[..8], expected);
        assert!(memory.bytes() > 0);
        let mut small = MemoryBudget::root("small", 100).reserve(0).unwrap();
        assert!(matches!(counts.add(&mut small, 500, 0, (0, 1.0)), Err(Error::OverBudget(_))));
    }
}
