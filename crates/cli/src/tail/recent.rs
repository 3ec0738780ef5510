//! Remembers the rows shown last, so that they are not shown again when a query returns them.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::paging::Row;

/// Maximum number of rows, 16 bytes each: more lines than a terminal can show in a minute.
const ROWS_MAX: usize = 20_000;

/// Identifies a row: timestamp, and hash of labels and line.
type Identity = (i64, u64);

fn identity(row: &Row) -> Identity {
    let mut hasher = DefaultHasher::new();
    (&row.labels, &row.line).hash(&mut hasher);
    (row.timestamp, hasher.finish())
}

/// Rows that were shown.
#[derive(Default)]
pub struct Recent {
    rows: VecDeque<Identity>,
    /// The latest timestamp of a row that is no longer remembered.
    forgotten: Option<i64>,
}

impl Recent {
    /// Remembers a row.
    pub fn add(&mut self, row: &Row) {
        self.rows.push_back(identity(row));
        if self.rows.len() > ROWS_MAX
            && let Some((timestamp, _)) = self.rows.pop_front()
        {
            self.forgotten = self.forgotten.max(Some(timestamp));
        }
    }

    /// The instant since which all shown rows are remembered; at least `earliest`.
    pub fn known_from(&self, earliest: i64) -> i64 {
        self.forgotten.map_or(earliest, |forgotten| earliest.max(forgotten.saturating_add(1)))
    }

    /// The rows since an instant, to be skipped once each.
    pub fn since(&self, start: i64) -> Repeats {
        let mut left = HashMap::new();
        for row in self.rows.iter().filter(|(timestamp, _)| *timestamp >= start) {
            *left.entry(*row).or_default() += 1;
        }
        Repeats(left)
    }
}

/// Rows that were shown and may be returned again.
#[derive(Default)]
pub struct Repeats(HashMap<Identity, usize>);

impl Repeats {
    /// Whether the row was shown already. Returns true as often as it was shown.
    pub fn take(&mut self, row: &Row) -> bool {
        match self.0.get_mut(&identity(row)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::LabelMap;

    fn row(timestamp: i64, line: &str) -> Row {
        Row { timestamp, labels: LabelMap::new(), line: line.to_owned() }
    }

    #[test]
    fn repeated_rows_are_skipped_as_often_as_they_were_shown() {
        let mut recent = Recent::default();
        for line in ["a", "b", "b"] {
            recent.add(&row(5, line));
        }
        let mut repeats = recent.since(5);
        let taken = ["b", "a", "c", "b", "b", "a"].map(|line| repeats.take(&row(5, line)));
        assert_eq!(taken, [true, true, false, true, false, false]);
        assert!(!recent.since(6).take(&row(5, "a")), "earlier rows are not in the range");
        assert!(!recent.since(0).take(&row(6, "a")), "a row with another timestamp is different");
    }

    #[test]
    fn the_range_of_forgotten_rows_is_not_queried_again() {
        let mut recent = Recent::default();
        assert_eq!(recent.known_from(7), 7);
        (0..ROWS_MAX as i64 + 3).for_each(|n| recent.add(&row(n, "x")));
        assert_eq!((recent.known_from(0), recent.known_from(100)), (3, 100));
        assert_eq!(recent.rows.len(), ROWS_MAX);
    }
}
