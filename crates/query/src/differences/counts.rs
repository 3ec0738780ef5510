//! Counts of the values of fields, inside and outside of the box.
//!
//! **Invariants.** A value that is in a table has exact counts, because it was counted from its first row
//! on. Rows with a value for which a table has no room are counted together as `rest`. The number of fields,
//! of values of a field and of values of all fields is bounded.

use std::collections::HashMap;

use super::answer::{FieldOrigin, Sides};

/// The most fields that are counted.
pub const FIELDS_MAX: usize = 1_000;
/// The most values of a field whose counts are exact.
pub const VALUES_MAX: usize = 10_000;
/// The most values of all fields.
const ALL_VALUES_MAX: usize = 400_000;
/// The longest value that is compared as a whole; longer ones are cut, at a boundary of a character.
const VALUE_BYTES_MAX: usize = 256;
/// Estimated bytes of an entry of a table.
const ENTRY_BYTES: usize = 96;

/// The values of one field.
#[derive(Debug, Default)]
pub struct Values {
    /// Rows by value.
    pub counts: HashMap<Box<str>, Sides>,
    /// Rows with values for which there was no room.
    pub rest: Sides,
}

impl Values {
    fn is_full(&self) -> bool {
        self.counts.len() >= VALUES_MAX
    }

    /// Rows that have the field.
    pub fn rows(&self) -> Sides {
        self.counts.values().fold(self.rest, |sum, sides| added(sum, *sides))
    }
}

fn added(a: Sides, b: Sides) -> Sides {
    [a[0] + b[0], a[1] + b[1]]
}

/// The fields of a page, or of all pages so far.
#[derive(Debug, Default)]
pub struct Table {
    /// Values by origin and name.
    pub fields: HashMap<(FieldOrigin, Box<str>), Values>,
    /// Rows that were counted.
    pub rows: Sides,
    /// Whether there were more fields than are counted.
    pub has_more: bool,
    values: usize,
    bytes: usize,
}

impl Table {
    /// Estimated bytes of the table.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Counts rows with this value of a field.
    pub fn add(&mut self, origin: FieldOrigin, name: &str, value: &str, sides: Sides) {
        let value = cut(value);
        // Most rows have fields and values that are known, and need no allocation but the key of the look-up.
        let key = (origin, Box::<str>::from(name));
        if !self.fields.contains_key(&key) {
            if self.fields.len() >= FIELDS_MAX {
                self.has_more = true;
                return;
            }
            self.bytes += ENTRY_BYTES + name.len();
        }
        let has_room = self.values < ALL_VALUES_MAX;
        let field = self.fields.entry(key).or_default();
        if let Some(counts) = field.counts.get_mut(value) {
            *counts = added(*counts, sides);
        } else if has_room && !field.is_full() {
            field.counts.insert(value.into(), sides);
            self.values += 1;
            self.bytes += ENTRY_BYTES + value.len();
        } else {
            field.rest = added(field.rest, sides);
        }
    }

    /// Adds the counts of another table, each multiplied. The most frequent values come first, so that they
    /// have room.
    pub fn merge(&mut self, other: Table, weight: u64) {
        let times = |sides: Sides| [sides[0] * weight, sides[1] * weight];
        self.rows = added(self.rows, times(other.rows));
        self.has_more |= other.has_more;
        let mut fields: Vec<_> = other.fields.into_iter().collect();
        // The order of a hash table is arbitrary.
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        for ((origin, name), values) in fields {
            let mut counts: Vec<(Box<str>, Sides)> = values.counts.into_iter().collect();
            counts.sort_by(|(a, x), (b, y)| (y[0] + y[1]).cmp(&(x[0] + x[1])).then_with(|| a.cmp(b)));
            for (value, sides) in counts {
                self.add(origin, &name, &value, times(sides));
            }
            if values.rest != [0, 0]
                && let Some(field) = self.fields.get_mut(&(origin, name))
            {
                field.rest = added(field.rest, times(values.rest));
            }
        }
    }
}

fn cut(value: &str) -> &str {
    if value.len() <= VALUE_BYTES_MAX {
        return value;
    }
    let end = (0..=VALUE_BYTES_MAX).rev().find(|&end| value.is_char_boundary(end)).unwrap_or(0);
    &value[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_the_room_are_counted_together() {
        let mut table = Table::default();
        for n in 0..VALUES_MAX + 50 {
            table.add(FieldOrigin::Label, "id", &n.to_string(), [1, 0]);
        }
        table.add(FieldOrigin::Label, "id", "0", [0, 5]);
        let field = &table.fields[&(FieldOrigin::Label, "id".into())];
        assert_eq!((field.counts.len(), field.rest, field.counts["0"]), (VALUES_MAX, [50, 0], [1, 5]));
        assert_eq!(field.rows(), [VALUES_MAX as u64 + 50, 5]);
        assert!(table.bytes() > 0);
    }

    #[test]
    fn fields_are_bounded_and_long_values_are_cut() {
        let mut table = Table::default();
        for n in 0..FIELDS_MAX + 1 {
            table.add(FieldOrigin::Json, &format!("f{n}"), "x", [1, 1]);
        }
        assert!(table.has_more);
        assert_eq!(table.fields.len(), FIELDS_MAX);
        table.add(FieldOrigin::Json, "f0", &"ä".repeat(1_000), [1, 0]);
        let longest =
            table.fields[&(FieldOrigin::Json, "f0".into())].counts.keys().map(|key| key.len()).max();
        assert_eq!(longest, Some(VALUE_BYTES_MAX));
    }

    #[test]
    fn a_merge_is_the_sum_and_has_the_frequent_values() {
        let mut page = Table { rows: [2, 3], ..Table::default() };
        page.add(FieldOrigin::Label, "a", "x", [2, 0]);
        page.add(FieldOrigin::Label, "a", "y", [0, 3]);
        let mut all = Table::default();
        all.merge(page, 3);
        let mut more = Table { rows: [1, 0], ..Table::default() };
        more.add(FieldOrigin::Label, "a", "x", [1, 0]);
        all.merge(more, 1);
        let field = &all.fields[&(FieldOrigin::Label, "a".into())];
        assert_eq!((all.rows, field.counts["x"], field.counts["y"]), ([7, 9], [7, 0], [0, 9]));
    }
}
