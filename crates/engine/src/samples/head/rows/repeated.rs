//! Finds the sample of a series at an instant, so that a second sample of that instant is recognized as
//! a copy or as a conflict.
//!
//! Most samples arrive in order. A sample that is later than all others needs no search. For a late
//! sample, the indexes of histograms and of late floats are searched, and then the floats that arrived
//! in order, of which only those after the last earlier mark are decoded ([`Mark`]), up to the first that
//! is later than the sample.
//!
//! **Invariant.** Series whose last sample of an instant stays have no marks and no indexes.

use std::cmp::Ordering;

use sandur_model::HistogramSample;

use super::encoding::{Before, Mark};
use super::{Appended, Extras, NewValue, SeriesRows};

impl SeriesRows {
    /// Compares a new sample with the series' sample of this instant; `None` if there is none.
    pub(in super::super) fn repeats(&self, time_ms: i64, new: NewValue<'_>) -> Option<Appended> {
        if self.len() == 0 || !(self.earliest_ms..=self.latest_ms).contains(&time_ms) {
            return None;
        }
        if self.floats > 0 && self.before.time_ms == time_ms {
            return Some(against_float(self.before.value, new));
        }
        if let Some(known) = self.extras.as_deref().and_then(|extras| extras.histogram_at(time_ms)) {
            return Some(against_histogram(known, new));
        }
        let late = self.extras.as_ref().and_then(|extras| extras.late.get(&time_ms).copied());
        late.or_else(|| self.in_order(time_ms)).map(|bits| against_float(bits, new))
    }

    /// The bits of the float of this instant among those that arrived in order.
    fn in_order(&self, time_ms: i64) -> Option<u64> {
        let marks = self.extras.as_ref().map_or(&[][..], |extras| &extras.marks);
        // A float that arrived in order follows the last mark whose samples are all earlier.
        let next = marks.partition_point(|mark| mark.latest_ms < time_ms);
        let from = next.checked_sub(1).map(|at| &marks[at]);
        let (start, mut before) = from.map_or((0, Before::default()), |mark| (mark.start, mark.before));
        let end = marks.get(next).map_or(self.bytes.len(), |mark| mark.start);
        let mut bytes = self.bytes.get(start..end)?;
        while before.take(&mut bytes).is_some() {
            match before.time_ms.cmp(&time_ms) {
                Ordering::Less => {}
                Ordering::Equal => return Some(before.value),
                // All floats that arrive in order after this one are later still.
                Ordering::Greater => return None,
            }
        }
        None
    }

    /// Marks the position after the last float.
    #[cold]
    pub(super) fn mark(&mut self) {
        let mark = Mark { start: self.bytes.len(), before: self.before, latest_ms: self.latest_ms };
        self.extras.get_or_insert_default().marks.push(mark);
    }
}

impl Extras {
    /// The histogram of this instant.
    fn histogram_at(&self, time_ms: i64) -> Option<&HistogramSample> {
        let position = *self.histogram_positions.get(&time_ms)?;
        self.histograms.get(position as usize).map(|(_, sample)| sample)
    }
}

fn against_float(known: u64, new: NewValue<'_>) -> Appended {
    match new {
        NewValue::Float(value) if value.to_bits() == known => Appended::Copy,
        _ => Appended::Conflict { known: Some(f64::from_bits(known)) },
    }
}

fn against_histogram(known: &HistogramSample, new: NewValue<'_>) -> Appended {
    match new {
        NewValue::Histogram(new) if new.histogram.same_data(&known.histogram) => Appended::Copy,
        _ => Appended::Conflict { known: None },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::samples::head::rows::FloatRow;
    use crate::samples::head::rows::encoding::MARK_ROWS;
    use crate::samples::head::rows::tests::{all, histogram};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// In whatever order samples arrive, a sample of a known instant is a copy or a conflict, and
        /// another sample is neither.
        #[test]
        fn every_repeated_sample_is_a_copy_or_a_conflict(
            steps in prop::collection::vec((-40i64..100, 0u8..3, 0u8..9), 1..900),
        ) {
            let (mut rows, mut known) = (SeriesRows::default(), BTreeMap::new());
            let mut time_ms = 0;
            for (step, value, kind) in steps {
                time_ms += step;
                // One sample in nine is a histogram, identified by its count.
                let is_histogram = kind == 0;
                let row = FloatRow { frame: 0, time_ms, value: f64::from(value), start_ms: 0 };
                let mut sample = histogram(time_ms);
                std::sync::Arc::make_mut(&mut sample.histogram).count = f64::from(value);
                let appended = match is_histogram {
                    true => rows.append_histogram(0, &sample),
                    false => rows.append(row),
                };
                let expected = match known.insert(time_ms, (is_histogram, value)) {
                    None => None,
                    Some(same) if same == (is_histogram, value) => Some(Appended::Copy),
                    Some(first) => {
                        known.insert(time_ms, first);
                        let (is_histogram, value) = first;
                        Some(Appended::Conflict { known: (!is_histogram).then_some(f64::from(value)) })
                    }
                };
                match expected {
                    None => prop_assert!(matches!(appended, Appended::New { .. }), "a new instant"),
                    Some(expected) => prop_assert_eq!(appended, expected),
                }
            }
            let floats = known.iter().filter(|(_, (is_histogram, _))| !is_histogram);
            let floats: Vec<_> = floats.map(|(time, (_, value))| (*time, f64::from(*value))).collect();
            prop_assert_eq!(all(&rows), floats);
        }
    }

    #[test]
    fn a_late_sample_of_a_long_series_is_compared_with_few_samples() {
        let mut rows = SeriesRows::default();
        for n in 0..10_000 {
            rows.append(FloatRow { frame: 0, time_ms: n * 10, value: n as f64, start_ms: 0 });
        }
        let extras = rows.extras.as_ref().unwrap();
        assert_eq!((extras.marks.len(), extras.late.len()), (10_000 / MARK_ROWS as usize, 0));
        for n in [0, 1, 127, 128, 129, 5_000, 9_998, 9_999] {
            let of = |time_ms, value| rows.repeats(time_ms, NewValue::Float(value));
            assert_eq!(of(n * 10, n as f64), Some(Appended::Copy), "{n}");
            assert_eq!(of(n * 10, -1.0), Some(Appended::Conflict { known: Some(n as f64) }), "{n}");
            assert_eq!(of(n * 10 + 5, -1.0), None, "{n}");
        }
    }
}
