//! One series of a head: its samples in columns that grow in place.
//!
//! A sample takes 16 bytes: milliseconds since the series' first one, the number of its frame since the
//! head's first one (so that a head can be cut where a floor says), and the value's bits. Times more than
//! 24 days away from the first one are kept apart, in rows of their own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sandur_model::StreamId;

use super::symbols::Pair;

/// A sample near the first one of its series.
#[derive(Clone, Copy)]
struct Near {
    after_ms: i32,
    frame: u32,
    value: u64,
}

/// Any other sample.
#[derive(Clone, Copy)]
struct Far {
    time_ms: i64,
    frame: u32,
    value: u64,
}

/// Rows that the column of a series grows by: small, because a head holds many series with few samples.
const GROWTH: usize = 4;

/// A series of a head.
pub(super) struct HeadSeries {
    /// Its identity.
    pub(super) id: StreamId,
    /// Its labels by number.
    pub(super) labels: Box<[Pair]>,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    first_ms: i64,
    near: Vec<Near>,
    // One word in each of millions of series, most of which have none.
    #[expect(clippy::box_collection, reason = "an empty vector would take three words")]
    far: Option<Box<Vec<Far>>>,
    earliest_ms: i64,
    latest_ms: i64,
    unsorted: bool,
}

/// What appending a sample did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is there, and the series takes so many bytes more.
    New {
        /// Bytes of memory.
        grown: u64,
    },
    /// The series had a sample of the same instant as its newest: the first one stays.
    Duplicate,
}

/// Times (milliseconds since the epoch) and values, by rising time, each time once.
#[derive(Clone, Debug, Default)]
pub struct SampleColumns {
    /// Times.
    pub timestamps: Vec<i64>,
    /// Values, one for each.
    pub values: Vec<f64>,
}

impl SampleColumns {
    /// Keeps the samples of these times.
    pub(crate) fn retain(&mut self, keep: impl Fn(i64) -> bool) {
        let mut kept = 0;
        for row in 0..self.timestamps.len() {
            if keep(self.timestamps[row]) {
                (self.timestamps[kept], self.values[kept]) = (self.timestamps[row], self.values[row]);
                kept += 1;
            }
        }
        self.timestamps.truncate(kept);
        self.values.truncate(kept);
    }
}

impl HeadSeries {
    pub(super) fn new(id: StreamId, labels: Box<[Pair]>) -> Self {
        Self { id, labels, rows: Mutex::default() }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a sample of a frame.
    pub(super) fn append(&self, frame: u32, time_ms: i64, value: f64) -> Appended {
        self.rows().append(frame, time_ms, value.to_bits())
    }

    /// Earliest and latest time; `None` while there is no sample.
    pub(super) fn bounds_ms(&self) -> Option<(i64, i64)> {
        let rows = self.rows();
        (!rows.is_empty()).then_some((rows.earliest_ms, rows.latest_ms))
    }

    /// Number of samples, those of one instant that came out of order counted each.
    pub(super) fn len(&self) -> usize {
        self.rows().len()
    }

    /// The samples from `first_ms` to `last_ms`, both included, by time. Of samples of one instant the
    /// first that came stays; how many were left out.
    pub(super) fn samples(&self, first_ms: i64, last_ms: i64) -> (SampleColumns, u64) {
        let (mut all, sorted) = {
            let rows = self.rows();
            let inside = |time: &i64| (first_ms..=last_ms).contains(time);
            let all = rows.iter().map(|(time, _, value)| (time, value)).filter(|(time, _)| inside(time));
            (all.collect::<Vec<(i64, u64)>>(), !rows.unsorted)
        };
        if !sorted {
            all.sort_by_key(|(time, _)| *time); // stable: the first that came stays first
        }
        let before = all.len();
        all.dedup_by_key(|(time, _)| *time);
        let duplicates = (before - all.len()) as u64;
        let (timestamps, bits): (Vec<i64>, Vec<u64>) = all.into_iter().unzip();
        (SampleColumns { timestamps, values: bits.into_iter().map(f64::from_bits).collect() }, duplicates)
    }

    /// Frame, time and value of the samples of frames from `floor` on, those of one instant in the order
    /// in which they came.
    pub(super) fn since(&self, floor: u32) -> Vec<(u32, i64, f64)> {
        let rows = self.rows();
        let since = rows.iter().filter(|(_, frame, _)| *frame >= floor);
        since.map(|(time, frame, value)| (frame, time, f64::from_bits(value))).collect()
    }
}

impl Rows {
    fn len(&self) -> usize {
        self.near.len() + self.far.as_ref().map_or(0, |far| far.len())
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples in the order of arrival: those of one instant are all near or all far.
    fn iter(&self) -> impl Iterator<Item = (i64, u32, u64)> + '_ {
        let near =
            self.near.iter().map(|row| (self.first_ms + i64::from(row.after_ms), row.frame, row.value));
        let far = self.far.iter().flat_map(|far| far.iter());
        near.chain(far.map(|row| (row.time_ms, row.frame, row.value)))
    }

    fn append(&mut self, frame: u32, time_ms: i64, value: u64) -> Appended {
        if self.is_empty() {
            (self.first_ms, self.earliest_ms, self.latest_ms) = (time_ms, time_ms, time_ms);
        } else if time_ms == self.latest_ms {
            return Appended::Duplicate;
        }
        self.unsorted |= time_ms < self.latest_ms;
        let after = time_ms.checked_sub(self.first_ms).and_then(|after| i32::try_from(after).ok());
        let before = self.bytes();
        match after {
            Some(after_ms) => {
                if self.near.len() == self.near.capacity() {
                    self.near.reserve_exact(GROWTH.max(self.near.len() / 8));
                }
                self.near.push(Near { after_ms, frame, value });
                // Near rows follow far ones in time only if they came later: readers sort mixed rows.
                self.unsorted |= self.far.is_some();
            }
            None => {
                self.far.get_or_insert_default().push(Far { time_ms, frame, value });
                self.unsorted = true;
            }
        }
        self.earliest_ms = self.earliest_ms.min(time_ms);
        self.latest_ms = self.latest_ms.max(time_ms);
        Appended::New { grown: self.bytes() - before }
    }

    fn bytes(&self) -> u64 {
        let far =
            self.far.as_ref().map_or(0, |far| size_of::<Vec<Far>>() + far.capacity() * size_of::<Far>());
        (self.near.capacity() * size_of::<Near>() + far) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> HeadSeries {
        HeadSeries::new(StreamId(1), Box::default())
    }

    fn all(series: &HeadSeries) -> Vec<(i64, f64)> {
        let (columns, _) = series.samples(i64::MIN, i64::MAX);
        columns.timestamps.into_iter().zip(columns.values).collect()
    }

    #[test]
    fn samples_come_by_time_and_of_one_instant_the_first_stays() {
        let series = series();
        let far = 40 * 86_400_000;
        for (frame, (time, value)) in
            [(100, 1.0), (300, 3.0), (200, 2.0), (300, 9.0), (200, 8.0), (far, 4.0), (-far, 0.0), (400, 3.5)]
                .into_iter()
                .enumerate()
        {
            series.append(frame as u32, time, value);
        }
        let expected = [(-far, 0.0), (100, 1.0), (200, 2.0), (300, 3.0), (400, 3.5), (far, 4.0)];
        assert_eq!(all(&series), expected);
        assert_eq!(series.bounds_ms(), Some((-far, far)));
        assert_eq!(series.samples(150, 300).0.timestamps, [200, 300]);
        assert_eq!(series.samples(i64::MIN, i64::MAX).1, 1, "the other one was refused when it came");
    }

    #[test]
    fn times_at_the_ends_of_the_range_are_kept() {
        let series = series();
        series.append(0, i64::MIN, 1.0);
        series.append(1, i64::MAX, 2.0);
        series.append(2, 0, 3.0);
        assert_eq!(all(&series), [(i64::MIN, 1.0), (0, 3.0), (i64::MAX, 2.0)]);
    }

    #[test]
    fn values_keep_their_bits() {
        let stale = f64::from_bits(0x7ff0_0000_0000_0002);
        let series = series();
        series.append(0, 1, stale);
        series.append(0, 2, -0.0);
        let (columns, _) = series.samples(0, 9);
        let bits: Vec<u64> = columns.values.iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [0x7ff0_0000_0000_0002, 1 << 63]);
    }

    #[test]
    fn a_sample_takes_sixteen_bytes_and_little_is_left_over() {
        let series = series();
        let mut grown = 0;
        for n in 0..1_000 {
            let Appended::New { grown: more } = series.append(n, i64::from(n) * 15_000, 0.5) else {
                panic!()
            };
            grown += more;
        }
        assert!((16_000..18_500).contains(&grown), "{grown}");
        assert_eq!(series.append(5, 999 * 15_000, 0.5), Appended::Duplicate);
    }
}
