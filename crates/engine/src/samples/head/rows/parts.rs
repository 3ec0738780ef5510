//! Divides the samples of a long series into parts, so that some are read without the others. A flush
//! reads a series once for each window with its samples, and late samples may be in hundreds of windows.
//!
//! **Invariant.** A series with parts gets no more samples: its head is sealed.

use super::encoding::Before;
use super::{SeriesRows, one_of_each_instant};
use crate::samples::head::columns::{SampleColumns, Wanted};

/// Samples per part. A part takes at most a fiftieth of the memory of its samples.
const PART_ROWS: u32 = 256;

/// The parts of a series' samples, in the order of arrival.
#[derive(Debug)]
pub struct SeriesParts(Box<[Part]>);

#[derive(Debug)]
struct Part {
    earliest_ms: i64,
    latest_ms: i64,
    /// The offset of its first byte.
    start: usize,
    /// The state against which its first sample is encoded.
    before: Before,
}

impl SeriesRows {
    /// Makes parts of the samples; `None` if there are few samples, or some are histograms or have start
    /// times.
    pub(in super::super) fn parts(&self) -> Option<SeriesParts> {
        if self.extra_samples().is_some() || self.floats <= 2 * PART_ROWS {
            return None;
        }
        let (mut bytes, mut before) = (self.bytes.as_slice(), Before::default());
        let mut parts = Vec::with_capacity(self.floats.div_ceil(PART_ROWS) as usize);
        while !bytes.is_empty() {
            let start = self.bytes.len() - bytes.len();
            let mut part = Part { earliest_ms: i64::MAX, latest_ms: i64::MIN, start, before };
            for _ in 0..PART_ROWS {
                if before.take(&mut bytes).is_none() {
                    break;
                }
                part.earliest_ms = part.earliest_ms.min(before.time_ms);
                part.latest_ms = part.latest_ms.max(before.time_ms);
            }
            parts.push(part);
        }
        Some(SeriesParts(parts.into()))
    }

    /// Does the same as [`columns`](super::RowsCopy::columns), and reads only the necessary parts.
    pub(in super::super) fn columns_of(
        &self,
        SeriesParts(parts): &SeriesParts,
        (first_ms, last_ms): (i64, i64),
        frames: Wanted,
    ) -> (SampleColumns, u64) {
        let mut columns = SampleColumns::default();
        for (n, part) in parts.iter().enumerate() {
            if part.latest_ms < first_ms || last_ms < part.earliest_ms {
                continue;
            }
            let end = parts.get(n + 1).map_or(self.bytes.len(), |next| next.start);
            let mut bytes = self.bytes.get(part.start..end).unwrap_or_default();
            let mut before = part.before;
            while before.take(&mut bytes).is_some() {
                if (first_ms..=last_ms).contains(&before.time_ms) {
                    columns.timestamps.push(before.time_ms);
                    columns.values.push(f64::from_bits(before.value));
                    if frames == Wanted::Yes {
                        columns.frames.push(before.frame);
                    }
                }
            }
        }
        one_of_each_instant(columns, self.unsorted, self.last_wins)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::head::rows::FloatRow;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// In whatever order samples arrive, reading a window from parts equals reading it from all samples.
        #[test]
        fn windows_read_from_parts_equal_those_read_from_all_samples(
            steps in prop::collection::vec((-40i64..100, 0u32..3, any::<u8>()), 600..2_000),
            windows in prop::collection::vec((0i64..60_000, 0i64..9_000), 1..20),
            last_wins in any::<bool>(),
        ) {
            let mut rows = SeriesRows::new(last_wins);
            let (mut time_ms, mut frame) = (0, 0);
            for (step, frames, value) in steps {
                (time_ms, frame) = (time_ms + step, frame + frames);
                rows.append(FloatRow { frame, time_ms, value: f64::from(value), start_ms: 0 });
            }
            let parts = rows.parts();
            prop_assert_eq!(parts.is_some(), rows.floats > 512);
            for (first, length) in windows.into_iter().filter(|_| parts.is_some()) {
                let window = (first, first + length);
                let (found, repeated) = rows.columns_of(parts.as_ref().unwrap(), window, Wanted::Yes);
                let (expected, left_out) = rows.copy().columns(window, Wanted::Yes);
                prop_assert_eq!(found.timestamps, expected.timestamps);
                prop_assert_eq!((found.values, repeated), (expected.values, left_out));
                prop_assert_eq!(found.frames, expected.frames);
            }
        }
    }

    #[test]
    fn short_series_and_those_with_start_times_have_no_parts() {
        let rows_of = |count: u32, start_ms| {
            let mut rows = SeriesRows::new(true);
            for frame in 0..count {
                rows.append(FloatRow { frame, time_ms: i64::from(frame), value: 1.0, start_ms });
            }
            rows.parts().is_some()
        };
        assert_eq!([rows_of(512, 0), rows_of(513, 0), rows_of(513, 7)], [false, true, false]);
    }
}
