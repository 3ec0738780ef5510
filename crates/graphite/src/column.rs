//! The values of a series.
//!
//! **Invariants.** A missing value differs from NaN: as in Graphite, a computed NaN is a value until it is
//! written. Creating a column reserves its memory from the current job, and reports the work of filling it.

use sandur_memory::{MemoryBudget, OverBudget, Reservation, Stopped, job};

/// The bits of a missing value: a NaN that no computation produces.
const NONE_BITS: u64 = 0x7ffc_0000_4752_5048;

/// Values in the order of time, in eight bytes each.
#[derive(Debug, Default)]
pub struct Column {
    values: Vec<f64>,
    whole: bool,
    _held: Option<Reservation>,
}

fn packed(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::from_bits(NONE_BITS))
}

fn unpacked(value: f64) -> Option<f64> {
    (value.to_bits() != NONE_BITS).then_some(value)
}

impl Column {
    /// An empty column with room for `count` values.
    pub fn with_room(count: usize) -> Result<Self, Stopped> {
        job::spend(count)?;
        let held = job::reserve_exactly((count as u64).saturating_mul(8))?;
        Ok(Self { values: Vec::with_capacity(count), whole: false, _held: held })
    }

    /// A column with the same value at each of `count` places.
    pub fn filled(value: Option<f64>, count: usize) -> Result<Self, Stopped> {
        let mut column = Self::with_room(count)?;
        column.values.resize(count, packed(value));
        Ok(column)
    }

    /// A column of the values of an iterator, at most `count`.
    pub fn collect(count: usize, values: impl IntoIterator<Item = Option<f64>>) -> Result<Self, Stopped> {
        let mut column = Self::with_room(count)?;
        column.values.extend(values.into_iter().take(count).map(packed));
        Ok(column)
    }

    /// A column of values that a source has read, reserved from a budget.
    pub fn in_budget(
        budget: &MemoryBudget,
        values: impl ExactSizeIterator<Item = Option<f64>>,
    ) -> Result<Self, OverBudget> {
        let held = budget.reserve(values.len() as u64 * 8)?;
        Ok(Self { values: values.map(packed).collect(), whole: false, _held: Some(held) })
    }

    /// The values in the form in which they travel between processes.
    pub fn packed_values(&self) -> &[f64] {
        &self.values
    }

    /// A column of values that another process has packed, which `read` reserves and returns.
    pub fn of_packed<E: From<OverBudget>>(
        budget: &MemoryBudget,
        read: impl FnOnce(&mut Reservation) -> Result<Vec<f64>, E>,
    ) -> Result<Self, E> {
        let mut held = budget.reserve(0)?;
        let values = read(&mut held)?;
        Ok(Self { values, whole: false, _held: Some(held) })
    }

    /// A copy of the column.
    pub fn copied(&self) -> Result<Self, Stopped> {
        let mut column = Self::with_room(self.len())?;
        column.values.extend_from_slice(&self.values);
        column.whole = self.whole;
        Ok(column)
    }

    /// Marks all values as integers, which print without a decimal point.
    pub fn of_integers(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Whether all values are integers.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no places.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value at a place; `None` if it is missing.
    pub fn get(&self, place: usize) -> Option<f64> {
        self.values.get(place).copied().and_then(unpacked)
    }

    /// Sets the value at a place; ignored beyond the end.
    pub fn set(&mut self, place: usize, value: Option<f64>) {
        if let Some(slot) = self.values.get_mut(place) {
            *slot = packed(value);
        }
    }

    /// Appends a value.
    pub fn push(&mut self, value: Option<f64>) {
        self.values.push(packed(value));
    }

    /// All values in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<f64>> + ExactSizeIterator + Clone + '_ {
        self.values.iter().map(|value| unpacked(*value))
    }

    /// The values of a range of places; places that do not exist are left out.
    pub fn part(
        &self,
        places: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = Option<f64>> + ExactSizeIterator + Clone + '_ {
        let end = places.end.min(self.values.len());
        let start = places.start.min(end);
        self.values[start..end].iter().map(|value| unpacked(*value))
    }

    /// Replaces the value at each place, in order.
    pub fn map(&mut self, mut change: impl FnMut(Option<f64>) -> Option<f64>) -> Result<(), Stopped> {
        job::spend(self.values.len())?;
        for value in &mut self.values {
            *value = packed(change(unpacked(*value)));
        }
        self.whole = false;
        Ok(())
    }

    /// Replaces each value; missing values stay missing.
    pub fn map_values(&mut self, mut change: impl FnMut(f64) -> Option<f64>) -> Result<(), Stopped> {
        self.map(|value| value.and_then(&mut change))
    }

    /// Removes places at the start.
    pub fn drop_first(&mut self, count: usize) {
        self.values.drain(..count.min(self.values.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_lengths_are_refused() {
        let owner = job::Bounded::new(MemoryBudget::root("query", 1 << 20));
        for count in [usize::MAX, usize::MAX / 8 + 1, 1 << 61, 1 << 40] {
            assert!(job::run(owner.clone(), || Column::with_room(count).is_err()).is_err(), "{count}");
        }
    }

    #[test]
    fn nan_is_a_value() {
        let mut column = Column::collect(3, [Some(1.0), None, Some(f64::NAN)]).unwrap();
        assert!(column.get(2).is_some_and(f64::is_nan));
        assert_eq!((column.get(1), column.get(9)), (None, None));
        column.map(|value| value.map_or(Some(0.0), |value| Some(value + 1.0))).unwrap();
        assert_eq!((column.get(0), column.get(1)), (Some(2.0), Some(0.0)));
        assert!(column.get(2).is_some_and(f64::is_nan));
        column.drop_first(9);
        assert!(column.is_empty() && column.part(3..7).next().is_none());
    }
}
