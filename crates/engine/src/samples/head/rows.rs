//! The samples of one series of a head, in bytes that grow in place.
//!
//! A float sample of a scrape takes about six bytes ([`encoding`]), and a head holds about twenty samples
//! of most series. Start times and histograms, which most series do not have, are stored separately, as
//! is the index that finds a sample by its time ([`repeated`]).
//!
//! **Invariant.** There is one sample per instant, except in series whose last sample stays: there
//! readers leave the others out.

mod encoding;
mod parts;
mod repeated;

use std::collections::BTreeMap;

use sandur_model::HistogramSample;

use super::columns::{SampleColumns, Wanted};
use encoding::{Before, INDEXED_BYTES, MARK_ROWS, Mark};
pub use parts::SeriesParts;

/// Initial capacity in bytes: the first sample takes about twenty, and later ones few.
const FIRST_BYTES: usize = 48;
/// The least number of bytes by which the capacity grows.
const GROWTH_BYTES: usize = 16;

/// Samples of a series.
#[derive(Default)]
pub(super) struct SeriesRows {
    earliest_ms: i64,
    latest_ms: i64,
    before: Before,
    floats: u32,
    unsorted: bool,
    last_wins: bool,
    bytes: Vec<u8>,
    extras: Option<Box<Extras>>,
}

/// Data that few series have.
#[derive(Default)]
struct Extras {
    /// Start times, each with the number of the first float sample (in the order of arrival) for which
    /// it holds.
    starts: Vec<(u32, i64)>,
    /// Histograms with their frames, in the order of arrival.
    histograms: Vec<(u32, HistogramSample)>,
    /// Bytes of the histograms.
    histogram_bytes: u64,
    /// Positions among the float samples.
    marks: Vec<Mark>,
    /// Bits of the floats that arrived late, by time.
    late: BTreeMap<i64, u64>,
    /// Positions of the histograms, by time.
    histogram_positions: BTreeMap<i64, u32>,
}

/// A sample that may repeat another one.
#[derive(Clone, Copy)]
pub enum NewValue<'a> {
    /// A float.
    Float(f64),
    /// A histogram.
    Histogram(&'a HistogramSample),
}

/// The result of appending a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Appended {
    /// The sample was appended.
    New {
        /// Bytes by which the series' memory grew.
        grown: u64,
    },
    /// The series already has an equal sample.
    Copy,
    /// The series has another sample of the same instant, which stays.
    Conflict {
        /// The value of that sample; `None` if it is a histogram.
        known: Option<f64>,
    },
}

/// A copy of a series' samples that can be read without the lock.
#[derive(Clone, Default)]
pub(super) struct RowsCopy {
    floats: u32,
    unsorted: bool,
    last_wins: bool,
    bytes: Vec<u8>,
    extras: Option<CopiedExtras>,
}

/// Start times and histograms of a copy.
#[derive(Clone, Default)]
struct CopiedExtras {
    starts: Vec<(u32, i64)>,
    histograms: Vec<(u32, HistogramSample)>,
}

/// A float sample of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FloatRow {
    pub(super) frame: u32,
    pub(super) time_ms: i64,
    pub(super) value: f64,
    pub(super) start_ms: i64,
}

impl SeriesRows {
    /// An empty series. With `last_wins`, of several samples of an instant the last one stays instead of
    /// the first.
    pub(super) fn new(last_wins: bool) -> Self {
        Self { last_wins, ..Self::default() }
    }

    /// Appends a float sample of a frame. Frames never decrease.
    pub(super) fn append(&mut self, row: FloatRow) -> Appended {
        let FloatRow { frame, time_ms, value, start_ms } = row;
        let is_late = self.is_late(time_ms);
        if is_late && let Some(repeated) = self.repeats(time_ms, NewValue::Float(value)) {
            return repeated;
        }
        self.widen(time_ms);
        let taken = self.taken();
        let (bytes, length) = self.before.write(frame, time_ms, value.to_bits());
        self.make_room(length);
        self.bytes.extend_from_slice(&bytes[..length]);
        let known = self.extras.as_ref().and_then(|extras| extras.starts.last()).map_or(0, |start| start.1);
        if start_ms != known {
            self.extras.get_or_insert_default().starts.push((self.floats, start_ms));
        }
        self.floats = self.floats.saturating_add(1);
        if is_late {
            self.extras.get_or_insert_default().late.insert(time_ms, value.to_bits());
        }
        if self.floats.is_multiple_of(MARK_ROWS) && !self.last_wins {
            self.mark();
        }
        Appended::New { grown: self.taken() - taken }
    }

    /// Appends a histogram of a frame.
    pub(super) fn append_histogram(&mut self, frame: u32, sample: &HistogramSample) -> Appended {
        let time_ms = sample.timestamp;
        if self.is_late(time_ms)
            && let Some(repeated) = self.repeats(time_ms, NewValue::Histogram(sample))
        {
            return repeated;
        }
        self.widen(time_ms);
        let taken = self.taken();
        let extras = self.extras.get_or_insert_default();
        extras.histogram_bytes += sample.histogram.memory_bytes();
        let position = extras.histograms.len() as u32;
        extras.histograms.push((frame, sample.clone()));
        if !self.last_wins {
            extras.histogram_positions.insert(time_ms, position);
        }
        Appended::New { grown: self.taken() - taken }
    }

    /// Whether of several samples of an instant the last one stays.
    #[inline]
    pub(super) fn last_wins(&self) -> bool {
        self.last_wins
    }

    /// Whether a sample of this time is not later than all others, so that it is left out if its instant
    /// has a sample.
    #[inline]
    fn is_late(&self, time_ms: i64) -> bool {
        time_ms <= self.latest_ms && !self.last_wins && self.len() > 0
    }

    /// Widens the bounds to a time.
    fn widen(&mut self, time_ms: i64) {
        if self.len() == 0 {
            (self.earliest_ms, self.latest_ms) = (time_ms, time_ms);
            return;
        }
        self.unsorted |= time_ms <= self.latest_ms;
        self.earliest_ms = self.earliest_ms.min(time_ms);
        self.latest_ms = self.latest_ms.max(time_ms);
    }

    /// Makes room for another sample, and for an eighth of the current bytes. A head has many series, so
    /// unused capacity matters.
    #[inline]
    fn make_room(&mut self, length: usize) {
        if self.bytes.capacity() - self.bytes.len() < length {
            self.bytes.reserve_exact(match self.bytes.is_empty() {
                true => FIRST_BYTES,
                false => length.max(GROWTH_BYTES).max(self.bytes.len() / 8),
            });
        }
    }

    /// Earliest and latest time; `None` while there is no sample.
    pub(super) fn bounds_ms(&self) -> Option<(i64, i64)> {
        (self.len() > 0).then_some((self.earliest_ms, self.latest_ms))
    }

    /// Number of samples. In series whose last sample stays, counts all samples of an instant.
    pub(super) fn len(&self) -> usize {
        self.floats as usize + self.extras.as_ref().map_or(0, |extras| extras.histograms.len())
    }

    /// Bytes that the series takes in addition to its own size.
    fn taken(&self) -> u64 {
        let of = |extras: &Extras| {
            size_of::<Extras>() as u64
                + extras.starts.capacity() as u64 * size_of::<(u32, i64)>() as u64
                + extras.histograms.capacity() as u64 * size_of::<(u32, HistogramSample)>() as u64
                + extras.histogram_bytes
                + extras.marks.capacity() as u64 * size_of::<Mark>() as u64
                + (extras.late.len() + extras.histogram_positions.len()) as u64 * INDEXED_BYTES
        };
        self.bytes.capacity() as u64 + self.extras.as_deref().map_or(0, of)
    }

    /// The start times and histograms, if there are any.
    fn extra_samples(&self) -> Option<&Extras> {
        self.extras.as_deref().filter(|extras| !extras.starts.is_empty() || !extras.histograms.is_empty())
    }

    /// A copy that can be read without the lock.
    pub(super) fn copy(&self) -> RowsCopy {
        let copy = |extras: &Extras| CopiedExtras {
            starts: extras.starts.clone(),
            histograms: extras.histograms.clone(),
        };
        let (bytes, extras) = (self.bytes.clone(), self.extra_samples().map(copy));
        RowsCopy { floats: self.floats, unsorted: self.unsorted, last_wins: self.last_wins, bytes, extras }
    }
}

impl RowsCopy {
    /// Float samples in the order of arrival.
    pub(super) fn floats(&self) -> impl Iterator<Item = FloatRow> + '_ {
        let (mut bytes, mut before, mut row) = (self.bytes.as_slice(), Before::default(), 0u32);
        let mut starts = self.extras.iter().flat_map(|extras| extras.starts.iter().copied()).peekable();
        let mut start_ms = 0;
        std::iter::from_fn(move || {
            before.take(&mut bytes)?;
            if let Some((_, start)) = starts.next_if(|(from, _)| *from <= row) {
                start_ms = start;
            }
            row += 1;
            let value = f64::from_bits(before.value);
            Some(FloatRow { frame: before.frame, time_ms: before.time_ms, value, start_ms })
        })
    }

    /// Histograms with their frames, in the order of arrival.
    pub(super) fn histograms(&self) -> &[(u32, HistogramSample)] {
        self.extras.as_ref().map_or(&[], |extras| &extras.histograms)
    }

    /// The samples from `first_ms` to `last_ms`, both inclusive, by time, one of each instant: the first
    /// or the last that arrived. Also returns the number of samples that were left out.
    pub(super) fn columns(&self, (first_ms, last_ms): (i64, i64), frames: Wanted) -> (SampleColumns, u64) {
        let is_inside = |time_ms: i64| (first_ms..=last_ms).contains(&time_ms);
        let Some(extras) = &self.extras else { return self.floats_alone(is_inside, frames) };
        let mut floats: Vec<FloatRow> = self.floats().filter(|row| is_inside(row.time_ms)).collect();
        floats.sort_by_key(|row| row.time_ms); // stable: the first that arrived stays first
        let mut histograms: Vec<&(u32, HistogramSample)> =
            extras.histograms.iter().filter(|(_, sample)| is_inside(sample.timestamp)).collect();
        histograms.sort_by_key(|(_, sample)| sample.timestamp);
        let before = floats.len() + histograms.len();
        keep_one(&mut floats, self.last_wins, |row| row.time_ms);
        histograms.dedup_by_key(|(_, sample)| sample.timestamp);
        keep_one_of_each_instant(&mut floats, &mut histograms);
        let duplicates = (before - floats.len() - histograms.len()) as u64;
        let mut columns = SampleColumns {
            timestamps: floats.iter().map(|row| row.time_ms).collect(),
            values: floats.iter().map(|row| row.value).collect(),
            starts: Vec::new(),
            histograms: histograms.iter().map(|(_, sample)| sample.clone()).collect(),
            ..SampleColumns::default()
        };
        if frames == Wanted::Yes {
            columns.frames = floats.iter().map(|row| row.frame).collect();
            columns.histogram_frames = histograms.iter().map(|(frame, _)| *frame).collect();
        }
        if floats.iter().any(|row| row.start_ms != 0) {
            columns.starts = floats.iter().map(|row| row.start_ms).collect();
        }
        (columns, duplicates)
    }

    fn floats_alone(&self, is_inside: impl Fn(i64) -> bool, frames: Wanted) -> (SampleColumns, u64) {
        let mut columns = SampleColumns::default();
        let (mut bytes, mut before) = (self.bytes.as_slice(), Before::default());
        columns.timestamps.reserve_exact(self.floats as usize);
        columns.values.reserve_exact(self.floats as usize);
        while before.take(&mut bytes).is_some() {
            if is_inside(before.time_ms) {
                columns.timestamps.push(before.time_ms);
                columns.values.push(f64::from_bits(before.value));
                if frames == Wanted::Yes {
                    columns.frames.push(before.frame);
                }
            }
        }
        one_of_each_instant(columns, self.unsorted, self.last_wins)
    }
}

/// Sorts floats by time and keeps one of each instant. Also returns the number of floats that were left out.
fn one_of_each_instant(mut columns: SampleColumns, unsorted: bool, last_wins: bool) -> (SampleColumns, u64) {
    if !unsorted {
        return (columns, 0);
    }
    let frames = columns.frames.drain(..).map(Some).chain(std::iter::repeat(None));
    let floats = columns.timestamps.drain(..).zip(columns.values.drain(..));
    let mut all: Vec<(i64, f64, Option<u32>)> =
        floats.zip(frames).map(|((time, value), frame)| (time, value, frame)).collect();
    let before = all.len();
    all.sort_by_key(|(time, ..)| *time);
    keep_one(&mut all, last_wins, |(time, ..)| *time);
    columns.timestamps = all.iter().map(|(time, ..)| *time).collect();
    columns.values = all.iter().map(|(_, value, _)| *value).collect();
    columns.frames = all.iter().filter_map(|(.., frame)| *frame).collect();
    (columns, (before - all.len()) as u64)
}

/// Keeps one of adjacent rows of one instant.
fn keep_one<T: Copy>(rows: &mut Vec<T>, last_wins: bool, time_of: impl Fn(&T) -> i64) {
    rows.dedup_by(|later, earlier| {
        let is_same = time_of(later) == time_of(earlier);
        if is_same && last_wins {
            *earlier = *later;
        }
        is_same
    });
}

/// Of a float and a histogram at one instant, keeps the one with the earlier frame.
fn keep_one_of_each_instant(floats: &mut Vec<FloatRow>, histograms: &mut Vec<&(u32, HistogramSample)>) {
    if floats.is_empty() || histograms.is_empty() {
        return;
    }
    floats.retain(|row| {
        let same = histograms.binary_search_by_key(&row.time_ms, |(_, sample)| sample.timestamp);
        same.is_err() || same.is_ok_and(|at| histograms[at].0 >= row.frame)
    });
    histograms
        .retain(|(_, sample)| floats.binary_search_by_key(&sample.timestamp, |row| row.time_ms).is_err());
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use sandur_model::FloatHistogram;

    use super::*;

    const ALL: (i64, i64) = (i64::MIN, i64::MAX);

    fn append(rows: &mut SeriesRows, frame: u32, time_ms: i64, value: f64) -> Appended {
        rows.append(FloatRow { frame, time_ms, value, start_ms: 0 })
    }

    pub(super) fn all(rows: &SeriesRows) -> Vec<(i64, f64)> {
        let (columns, _) = rows.copy().columns(ALL, Wanted::No);
        columns.timestamps.into_iter().zip(columns.values).collect()
    }

    pub(super) fn histogram(timestamp: i64) -> HistogramSample {
        let histogram = Arc::new(FloatHistogram { count: timestamp as f64, ..FloatHistogram::default() });
        HistogramSample { timestamp, start: 0, integer: false, histogram }
    }

    #[test]
    fn samples_are_read_by_time_and_the_first_of_an_instant_stays() {
        let mut rows = SeriesRows::default();
        let far = 40 * 86_400_000;
        for (frame, (time, value)) in
            [(100, 1.0), (300, 3.0), (200, 2.0), (300, 9.0), (200, 8.0), (far, 4.0), (-far, 0.0), (400, 3.5)]
                .into_iter()
                .enumerate()
        {
            append(&mut rows, frame as u32, time, value);
        }
        let expected = [(-far, 0.0), (100, 1.0), (200, 2.0), (300, 3.0), (400, 3.5), (far, 4.0)];
        assert_eq!(all(&rows), expected);
        assert_eq!(rows.bounds_ms(), Some((-far, far)));
        assert_eq!(rows.copy().columns((150, 300), Wanted::No).0.timestamps, [200, 300]);
        assert_eq!(rows.copy().columns(ALL, Wanted::No).1, 0, "the others were left out when they arrived");
    }

    #[test]
    fn times_at_the_ends_of_the_range_are_kept() {
        let mut rows = SeriesRows::default();
        append(&mut rows, 0, i64::MIN, 1.0);
        append(&mut rows, u32::MAX, i64::MAX, 2.0);
        append(&mut rows, u32::MAX, 0, 3.0);
        assert_eq!(all(&rows), [(i64::MIN, 1.0), (0, 3.0), (i64::MAX, 2.0)]);
    }

    #[test]
    fn start_times_stay_with_their_samples() {
        let mut rows = SeriesRows::default();
        let starts = [0, 0, 7, 7, 9, 0, 9];
        for (n, start_ms) in starts.into_iter().enumerate() {
            rows.append(FloatRow { frame: 0, time_ms: 100 + n as i64, value: 1.0, start_ms });
        }
        rows.append(FloatRow { frame: 0, time_ms: 5, value: 1.0, start_ms: 3 });
        assert_eq!(rows.copy().columns(ALL, Wanted::No).0.starts, [3, 0, 0, 7, 7, 9, 0, 9]);
        assert!(rows.copy().columns((100, 101), Wanted::No).0.starts.is_empty());
    }

    #[test]
    fn the_first_of_a_float_and_a_histogram_of_one_instant_stays() {
        let mut rows = SeriesRows::default();
        append(&mut rows, 0, 10, 1.0);
        append(&mut rows, 1, 20, 1.0);
        rows.append_histogram(2, &histogram(30));
        rows.append_histogram(3, &histogram(10));
        append(&mut rows, 4, 30, 1.0);
        append(&mut rows, 5, 5, 1.0);
        append(&mut rows, 6, 30, 1.0);
        let (columns, duplicates) = rows.copy().columns(ALL, Wanted::No);
        let histograms: Vec<i64> = columns.histograms.iter().map(|sample| sample.timestamp).collect();
        assert_eq!((columns.timestamps, histograms), (vec![5, 10, 20], vec![30]));
        assert_eq!((rows.len(), duplicates), (4, 0), "three were left out when they arrived");
    }

    #[test]
    fn a_sample_of_a_scrape_takes_few_bytes_with_little_spare_capacity() {
        let mut rows = SeriesRows::default();
        let mut grown = 0;
        for n in 0..1_000 {
            let time_ms = i64::from(n) * 15_000 + i64::from(n % 3);
            let value = f64::from(n * 37);
            let Appended::New { grown: more } = append(&mut rows, n as u32 * 700, time_ms, value) else {
                panic!()
            };
            grown += more;
        }
        assert_eq!(grown, rows.taken());
        assert!((4_000..7_500).contains(&grown), "{grown}");
        let conflict = Appended::Conflict { known: Some(f64::from(999 * 37)) };
        assert_eq!(append(&mut rows, 700_000, 999 * 15_000, 0.5), conflict);
    }

    proptest! {
        #[test]
        fn the_first_or_the_last_sample_of_an_instant_stays(
            samples in prop::collection::vec((0..6i64, any::<u32>()), 0..40),
            last_wins in any::<bool>(),
        ) {
            let (mut rows, mut expected) = (SeriesRows::new(last_wins), std::collections::BTreeMap::new());
            for (frame, (time_ms, value)) in samples.into_iter().enumerate() {
                append(&mut rows, frame as u32, time_ms, value.into());
                let kept = expected.entry(time_ms).or_insert(f64::from(value));
                if last_wins {
                    *kept = value.into();
                }
            }
            prop_assert_eq!(all(&rows), expected.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn every_sample_is_read_as_it_was_appended(
            samples in prop::collection::vec(
                (prop_oneof![any::<i64>(), (0..9i64).prop_map(|n| n * 15_000)],
                 prop_oneof![any::<u64>(), (0..300u64).prop_map(|n| (n as f64).to_bits())],
                 prop_oneof![0..3u32, any::<u32>()],
                 0..2i64),
                0..60,
            ),
        ) {
            let (mut rows, mut frame, mut expected) = (SeriesRows::default(), 0u32, Vec::new());
            for (time_ms, bits, frames, start_ms) in samples {
                frame = frame.saturating_add(frames);
                let row = FloatRow { frame, time_ms, value: f64::from_bits(bits), start_ms };
                if let Appended::New { .. } = rows.append(row) {
                    expected.push((frame, time_ms, bits, start_ms));
                }
            }
            let copy = rows.copy();
            let key = |row: FloatRow| (row.frame, row.time_ms, row.value.to_bits(), row.start_ms);
            prop_assert_eq!(copy.floats().map(key).collect::<Vec<_>>(), expected);
        }
    }
}
