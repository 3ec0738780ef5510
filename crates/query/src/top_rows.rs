//! Keeps the newest or oldest rows of a log query, at most `limit`, in reserved memory.
//!
//! Rows with equal timestamps are ordered by the labels of their streams, then by the order in which the
//! scan delivered them, so that the result does not depend on the timing of parallel jobs.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::Labels;

use crate::error::Error;
use crate::result::LogRow;

/// The direction of a log query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Oldest rows first.
    Forward,
    /// Newest rows first.
    Backward,
}

/// Position of a row in the order of the result.
#[derive(Clone, Debug)]
pub struct RowKey {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// Labels of the stream as stored.
    pub stream: Arc<Labels>,
    /// Number of the scan item.
    pub item: u32,
    /// Number of the row within the item.
    pub row: u32,
}

impl RowKey {
    /// The order of two rows in a result of this direction.
    pub fn compare(&self, other: &Self, direction: Direction) -> Ordering {
        let streams = || {
            if Arc::ptr_eq(&self.stream, &other.stream) {
                return Ordering::Equal;
            }
            self.stream.cmp(&other.stream)
        };
        match direction {
            Direction::Forward => {
                let place = || (self.item, self.row).cmp(&(other.item, other.row));
                self.timestamp.cmp(&other.timestamp).then_with(streams).then_with(place)
            }
            Direction::Backward => {
                let place = || self.item.cmp(&other.item).then(other.row.cmp(&self.row));
                other.timestamp.cmp(&self.timestamp).then_with(streams).then_with(place)
            }
        }
    }
}

/// A row that may belong to the result.
#[derive(Clone, Debug)]
pub struct RankedRow {
    /// Its position.
    pub key: RowKey,
    /// Its contents.
    pub row: LogRow,
}

impl RankedRow {
    /// Approximate bytes of memory that the row uses.
    pub fn memory_bytes(&self) -> u64 {
        let parsed: usize = self.row.parsed.iter().map(|(n, v)| n.len() + v.len() + 32).sum();
        let metadata = if self.row.metadata.is_empty() { 0 } else { self.row.metadata.text_bytes() + 64 };
        // Unchanged stream labels are shared; labels that stages changed belong to the row.
        let stream = if Arc::ptr_eq(&self.row.stream, &self.key.stream) {
            0
        } else {
            self.row.stream.text_bytes() + 64
        };
        (size_of::<Self>() + self.row.line.len() + parsed + metadata + stream + 48) as u64
    }
}

struct Entry {
    row: RankedRow,
    direction: Direction,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.row.key.compare(&other.row.key, self.direction)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// The first `limit` rows, in the order of the direction, of those offered so far.
pub struct TopRows {
    direction: Direction,
    limit: usize,
    /// The last row in the order of the direction is on top.
    heap: BinaryHeap<Entry>,
    reservation: Reservation,
}

impl TopRows {
    /// Keeps at most `limit` rows in memory that is reserved in `budget`.
    pub fn new(budget: &MemoryBudget, direction: Direction, limit: usize) -> Result<Self, Error> {
        Ok(Self { direction, limit, heap: BinaryHeap::new(), reservation: budget.reserve(0)? })
    }

    /// The timestamp beyond which no row can enter; `None` while there are fewer than `limit` rows. Rows
    /// with exactly this timestamp may still enter.
    pub fn bound(&self) -> Option<i64> {
        if self.heap.len() < self.limit {
            return None;
        }
        self.heap.peek().map(|worst| worst.row.key.timestamp)
    }

    /// Whether a row with a timestamp from `first` to `last` may still enter.
    pub fn may_enter(&self, first: i64, last: i64) -> bool {
        match (self.bound(), self.direction) {
            (_, _) if self.limit == 0 => false,
            (None, _) => true,
            (Some(bound), Direction::Backward) => last >= bound,
            (Some(bound), Direction::Forward) => first <= bound,
        }
    }

    /// Offers a row; it is kept if it is among the first `limit`.
    pub fn offer(&mut self, row: RankedRow) -> Result<(), Error> {
        if self.limit == 0 {
            return Ok(());
        }
        let entry = Entry { row, direction: self.direction };
        if self.heap.len() == self.limit {
            let Some(mut worst) = self.heap.peek_mut() else { return Ok(()) };
            if entry.cmp(&worst) != Ordering::Less {
                return Ok(());
            }
            let (new, old) = (entry.row.memory_bytes(), worst.row.memory_bytes());
            self.reservation
                .resize(self.reservation.bytes() + new - old.min(self.reservation.bytes() + new))?;
            *worst = entry;
            return Ok(());
        }
        self.reservation.grow(entry.row.memory_bytes())?;
        self.heap.push(entry);
        Ok(())
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The rows in the order of the direction, and the reservation of their memory.
    pub fn into_ranked(self) -> (Vec<RankedRow>, Reservation) {
        let sorted = self.heap.into_sorted_vec();
        (sorted.into_iter().map(|entry| entry.row).collect(), self.reservation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn row(timestamp: i64, stream: &str, place: u32) -> RankedRow {
        let stream = Arc::new(Labels::from_pairs([("app", stream)]));
        let row = LogRow {
            timestamp,
            line: Bytes::from(format!("{timestamp} {place}")),
            stream: Arc::clone(&stream),
            metadata: Arc::default(),
            parsed: Arc::default(),
        };
        RankedRow { key: RowKey { timestamp, stream, item: 0, row: place }, row }
    }

    fn kept(direction: Direction, limit: usize, rows: Vec<RankedRow>) -> Vec<String> {
        let budget = MemoryBudget::root("query", 1 << 20);
        let mut top = TopRows::new(&budget, direction, limit).unwrap();
        for row in rows {
            top.offer(row).unwrap();
        }
        let (rows, reservation) = top.into_ranked();
        assert!(reservation.bytes() > 0 || rows.is_empty());
        drop(reservation);
        assert_eq!(budget.used(), 0);
        rows.iter().map(|r| String::from_utf8_lossy(&r.row.line).into_owned()).collect()
    }

    #[test]
    fn the_first_rows_are_kept_for_any_order_of_arrival() {
        let rows = || [3, 1, 5, 2, 4].map(|t| row(t, "a", 0)).to_vec();
        assert_eq!(kept(Direction::Backward, 2, rows()), ["5 0", "4 0"]);
        assert_eq!(kept(Direction::Forward, 3, rows()), ["1 0", "2 0", "3 0"]);
        assert!(kept(Direction::Forward, 0, rows()).is_empty());
    }

    #[test]
    fn rows_of_one_instant_keep_their_arrival_order() {
        let rows = vec![row(1, "a", 1), row(1, "a", 0), row(1, "a", 2)];
        assert_eq!(kept(Direction::Forward, 2, rows.clone()), ["1 0", "1 1"]);
        assert_eq!(kept(Direction::Backward, 2, rows), ["1 2", "1 1"]);
    }

    #[test]
    fn rows_with_the_timestamp_of_the_bound_may_enter() {
        let budget = MemoryBudget::root("query", 1 << 20);
        let mut top = TopRows::new(&budget, Direction::Backward, 2).unwrap();
        assert!(top.may_enter(i64::MIN, i64::MIN));
        top.offer(row(10, "a", 0)).unwrap();
        top.offer(row(20, "a", 0)).unwrap();
        assert_eq!(top.bound(), Some(10));
        assert!(top.may_enter(0, 10) && !top.may_enter(0, 9));
    }
}
