//! Converts samples at any times to values at equal steps. In the finest archive the last sample of a step
//! counts. Each coarser archive is aggregated from the previous one by the rule's method and fraction.
//!
//! **Invariants.** Memory is proportional to the values that are read, not to the steps of the archives in
//! between. Stale markers and NaN are not values.

use sandur_memory::{Stopped, job};
use sandur_model::is_stale;

use crate::column::Column;
use crate::schemas::{Method, Reading, Rule};

/// The values of the archive that a window is read from.
pub(super) fn bucketed(
    rule: Rule<'_>,
    reading: Reading,
    times: &[i64],
    values: &[f64],
) -> Result<Column, Stopped> {
    let steps = &rule.archives[..=reading.archive];
    let (finest, step) = (steps[0].step, steps[reading.archive].step);
    let count = usize::try_from((reading.end - reading.start) / step).unwrap_or(usize::MAX);
    let mut column = Column::filled(None, count)?;
    job::spend(times.len())?;
    let pairs = steps.windows(2).map(|pair| (pair[0].step, pair[1].step));
    let mut levels: Vec<Level> = pairs.map(|(from, to)| Level::new(from, to)).collect();
    let mut place = |time: i64, value: f64| {
        if let Ok(place) = usize::try_from((time - reading.start) / step) {
            column.set(place, Some(value));
        }
    };
    let first = times.partition_point(|time| time.div_euclid(1000) < reading.start);
    let mut last: Option<(i64, f64)> = None;
    for (time, value) in times.iter().zip(values).skip(first) {
        let time = time.div_euclid(1000);
        if time >= reading.end {
            break;
        }
        if value.is_nan() || is_stale(*value) {
            continue;
        }
        let bucket = time - time.rem_euclid(finest);
        if let Some((before, value)) = last.filter(|(before, _)| *before != bucket) {
            raise(&mut levels, rule, (before, value), &mut place);
        }
        last = Some((bucket, *value));
    }
    if let Some(last) = last {
        raise(&mut levels, rule, last, &mut place);
    }
    // Open buckets are complete as far as the window reaches.
    for level in 0..levels.len() {
        if let Some(value) = levels[level].close(rule) {
            raise(&mut levels[level + 1..], rule, value, &mut place);
        }
    }
    Ok(column)
}

/// Adds a value to the first level; values that this completes are added to the next levels.
fn raise(levels: &mut [Level], rule: Rule<'_>, mut value: (i64, f64), place: &mut impl FnMut(i64, f64)) {
    for level in levels {
        match level.add(rule, value) {
            Some(complete) => value = complete,
            None => return,
        }
    }
    place(value.0, value.1);
}

/// A level: aggregates values of one archive to those of the next.
struct Level {
    to: i64,
    places: usize,
    open: Option<Open>,
}

/// The aggregate of an incomplete bucket.
#[derive(Clone, Copy)]
struct Open {
    bucket: i64,
    count: usize,
    sum: f64,
    min: f64,
    max: f64,
    abs_min: f64,
    abs_max: f64,
    last: f64,
}

impl Level {
    fn new(from: i64, to: i64) -> Self {
        Self { to, places: usize::try_from(to / from).unwrap_or(usize::MAX), open: None }
    }

    /// Adds a value; returns the value of the bucket that this completes, if there is one.
    fn add(&mut self, rule: Rule<'_>, (time, value): (i64, f64)) -> Option<(i64, f64)> {
        let bucket = time - time.rem_euclid(self.to);
        if let Some(open) = self.open.as_mut().filter(|open| open.bucket == bucket) {
            open.add(value);
            return None;
        }
        let complete = self.close(rule);
        self.open = Some(Open::new(bucket, value));
        complete
    }

    /// Closes the open bucket; returns its value if enough values are present.
    fn close(&mut self, rule: Rule<'_>) -> Option<(i64, f64)> {
        let open = self.open.take()?;
        let is_enough = open.count as f64 / self.places as f64 >= rule.x_files_factor;
        is_enough.then(|| (open.bucket, open.value(rule.method, self.places)))
    }
}

impl Open {
    fn new(bucket: i64, value: f64) -> Self {
        let (min, max, abs_min, abs_max, last) = (value, value, value, value, value);
        Self { bucket, count: 1, sum: value, min, max, abs_min, abs_max, last }
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.last = value;
        if value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        if value.abs() < self.abs_min.abs() {
            self.abs_min = value;
        }
        if value.abs() > self.abs_max.abs() {
            self.abs_max = value;
        }
    }

    fn value(&self, method: Method, places: usize) -> f64 {
        match method {
            Method::Average => self.sum / self.count as f64,
            Method::Sum => self.sum,
            Method::Last => self.last,
            Method::Max => self.max,
            Method::Min => self.min,
            Method::AvgZero => self.sum / places as f64,
            Method::AbsMax => self.abs_max,
            Method::AbsMin => self.abs_min,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas::Archive;

    fn column(method: Method, share: f64, archive: usize, samples: &[(i64, f64)]) -> Vec<Option<f64>> {
        let archives = [10, 30, 60].map(|step| Archive { step, retention: step * 1000 });
        let rule = Rule { archives: &archives, method, x_files_factor: share };
        let times: Vec<i64> = samples.iter().map(|(time, _)| *time).collect();
        let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
        let reading = Reading { start: 60, end: 180, archive };
        bucketed(rule, reading, &times, &values).unwrap().iter().collect()
    }

    #[test]
    fn the_last_sample_of_a_step_counts() {
        let samples =
            [(59_999, 9.0), (60_000, 1.0), (69_999, 2.0), (80_000, f64::NAN), (175_000, 3.0), (180_000, 4.0)];
        let found = column(Method::Average, 0.5, 0, &samples);
        assert_eq!((found.len(), found[0], found[1], found[2]), (12, Some(2.0), None, None));
        assert_eq!(found[11], Some(3.0));
        assert!(found[1..11].iter().all(Option::is_none));
    }

    #[test]
    fn a_coarser_archive_is_aggregated_from_the_finer_one() {
        let samples: Vec<(i64, f64)> =
            [(60, -4.0), (70, 1.0), (80, 3.0), (90, 5.0), (120, 6.0), (130, 8.0), (150, 1.0), (160, 2.0)]
                .map(|(time, value)| (time * 1000, value))
                .to_vec();
        let of = |method, share, archive| column(method, share, archive, &samples);
        assert_eq!(of(Method::Sum, 0.5, 1), [Some(0.0), None, Some(14.0), Some(3.0)]);
        // In the first bucket half of the values are present; the second one is the mean of two means.
        assert_eq!(of(Method::Average, 0.5, 2), [Some(0.0), Some(4.25)]);
        assert_eq!(of(Method::Average, 0.6, 2), [None, Some(4.25)]);
        assert_eq!(of(Method::Average, 0.0, 2), [Some(2.5), Some(4.25)]);
        assert_eq!(of(Method::AvgZero, 0.0, 1), [Some(0.0), Some(5.0 / 3.0), Some(14.0 / 3.0), Some(1.0)]);
        assert_eq!(of(Method::AbsMax, 0.0, 2), [Some(5.0), Some(8.0)]);
        assert_eq!(of(Method::AbsMin, 0.0, 2), [Some(1.0), Some(1.0)]);
        assert_eq!(of(Method::Max, 0.0, 2), [Some(5.0), Some(8.0)]);
        assert_eq!(of(Method::Min, 0.0, 2), [Some(-4.0), Some(1.0)]);
        assert_eq!(of(Method::Last, 0.0, 2), [Some(5.0), Some(2.0)]);
        assert_eq!(column(Method::Last, 0.0, 2, &[]), [None, None]);
    }
}
