//! Rates and differences over `anchored` and `smoothed` windows, which include samples around them.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::CounterReset;

use crate::functions::starts::start_reset;
use crate::functions::window::{Site, Value, Window};
use crate::notes::{HistogramOperation, Note};
use crate::timing::Extension;

/// Interpolates linearly between two samples at the time `at`. A counter that was reset between them starts
/// at zero.
pub fn interpolate(before: (i64, f64), after: (i64, f64), at: i64, counter: bool) -> f64 {
    let begin = if counter && after.1 < before.1 { 0.0 } else { before.1 };
    begin + (after.1 - begin) * (at - before.0) as f64 / (after.0 - before.0) as f64
}

/// The indexes of the first and last sample that the window uses; `None` if it uses none.
pub fn borders(times: &[i64], start: i64, end: i64, smoothed: bool) -> Option<(usize, usize)> {
    let mut last = times.len().checked_sub(1)?;
    let first = times[..last].partition_point(|time| *time <= start).saturating_sub(1);
    if smoothed {
        last = times[..last].partition_point(|time| *time < end);
    }
    (times[last] > start).then_some((first, last))
}

/// A float with its timestamp and its start timestamp, which is 0 if unknown.
#[derive(Clone, Copy)]
struct Counted {
    time: i64,
    value: f64,
    start: i64,
}

impl Counted {
    /// Whether the counter started after `time` and before this sample, by its start timestamp.
    fn began_after(&self, time: i64) -> bool {
        self.start != 0 && self.start > time && self.start < self.time
    }

    /// Whether the counter was restarted between `before` and this sample.
    fn is_reset_since(&self, before: &Self) -> bool {
        start_reset(before.start, before.time, self.start, self.time)
    }

    /// The sample with value 0 at the start of the counter.
    fn zero(&self) -> Self {
        Self { time: self.start, value: 0.0, start: self.start }
    }

    fn interpolated(before: &Self, after: &Self, at: i64, counter: bool) -> f64 {
        interpolate((before.time, before.value), (after.time, after.value), at, counter)
    }
}

/// The floats in and around an extended window.
pub struct Extended<'a> {
    /// The timestamps.
    pub times: &'a [i64],
    /// The values.
    pub values: &'a [f64],
    /// The start timestamp of each value; empty if start timestamps are not used.
    pub starts: &'a [i64],
    /// The bounds of the window.
    pub range: (i64, i64),
    /// The time after which samples are visible: the start of the window, minus the look-back.
    pub seen_from: i64,
    /// Whether values at the bounds are interpolated.
    pub smoothed: bool,
    /// Whether the values are of a counter.
    pub counter: bool,
}

impl Extended<'_> {
    fn sample(&self, n: usize) -> Counted {
        let start = self.starts.get(n).copied().unwrap_or(0);
        Counted { time: self.times[n], value: self.values[n], start }
    }

    /// The values at both bounds. `first` and `last` are the samples that the window uses.
    pub fn border_values(&self, (first, last): (usize, usize)) -> (f64, f64) {
        (self.left(first).value, self.right(last).value)
    }

    /// The value at `border` if the only sample comes after it.
    fn before(&self, sample: &Counted, border: i64) -> f64 {
        if !self.counter || !sample.began_after(self.seen_from) {
            return sample.value;
        }
        match self.smoothed && !sample.began_after(border) {
            true => Counted::interpolated(&sample.zero(), sample, border, true),
            false => 0.0,
        }
    }

    /// The start of the window as a sample.
    fn left(&self, first: usize) -> Counted {
        let time = self.range.0;
        let mut before = self.sample(first);
        if before.time == time {
            return before;
        }
        let mut start = if before.start > time { 0 } else { before.start };
        if before.time > time {
            return Counted { time, value: self.before(&before, time), start };
        }
        let mut after = self.sample(first + 1);
        if self.counter && after.began_after(time) {
            after = after.zero();
        } else if self.counter && after.is_reset_since(&before) {
            before = after.zero();
            start = after.start;
        }
        let value = match self.smoothed {
            true => Counted::interpolated(&before, &after, time, self.counter),
            false => before.value,
        };
        Counted { time, value, start }
    }

    /// The end of the window as a sample.
    fn right(&self, last: usize) -> Counted {
        let time = self.range.1;
        let mut after = self.sample(last);
        let mut start = if after.start > time { 0 } else { after.start };
        if after.time <= time {
            return Counted { time, value: after.value, start };
        }
        if last == 0 {
            return Counted { time, value: self.before(&after, time), start };
        }
        let mut before = self.sample(last - 1);
        if self.counter && after.began_after(time) {
            after = after.zero();
            start = before.start;
        } else if self.counter && after.is_reset_since(&before) {
            before = after.zero();
        }
        let value = match self.smoothed {
            true => Counted::interpolated(&before, &after, time, self.counter),
            false => before.value,
        };
        Counted { time, value, start }
    }

    /// The difference between both bounds; of a counter, plus the value lost at each reset.
    fn difference(&self) -> Option<f64> {
        let (start, end) = self.range;
        let (first, last) = borders(self.times, start, end, self.smoothed)?;
        let found = self.sample(first);
        // A selector by itself yields a sample after the window. A function over the window uses it only if
        // it is of a counter that started before the end of the window.
        let is_after = self.smoothed && found.time > end;
        if is_after && !(self.counter && found.began_after(self.seen_from) && !found.began_after(end)) {
            return None;
        }
        let (left, right) = (self.left(first), self.right(last));
        let difference = right.value - left.value;
        if !self.counter {
            return Some(difference);
        }
        // Resets around the bounds are already part of the values there.
        let from = first + usize::from(self.times[first] <= start);
        let to = if self.times[last] >= end { last } else { last + 1 };
        let (mut before, mut correction) = (left, 0.0);
        for sample in (from..to).map(|n| self.sample(n)).chain([right]) {
            if sample.value < before.value || sample.is_reset_since(&before) {
                correction += before.value;
            }
            before = sample;
        }
        Some(difference + correction)
    }
}

/// Evaluates a window of floats.
pub fn floats(window: &Window<'_>, counter: bool, per_second: bool) -> Value {
    let extended = Extended {
        times: window.times,
        values: window.values,
        starts: window.starts,
        range: (window.start, window.end),
        seen_from: window.seen_from,
        smoothed: window.extension == Extension::Smoothed,
        counter,
    };
    let result = extended.difference();
    result
        .map_or(Value::None, |result| Value::Float(if per_second { result / window.seconds } else { result }))
}

type Point<'a> = (i64, &'a Arc<FloatHistogram>);

/// Interpolates linearly between two histograms at the time `at`; `None` if their buckets are incompatible.
pub fn interpolate_histogram(
    (before_at, before): Point<'_>,
    (after_at, after): Point<'_>,
    at: i64,
    counter: bool,
    site: &mut Site<'_>,
) -> Option<FloatHistogram> {
    if at == before_at {
        return Some(FloatHistogram::clone(before));
    }
    let mut result = FloatHistogram::clone(after);
    if at == after_at {
        return Some(result);
    }
    let fraction = (at - before_at) as f64 / (after_at - before_at) as f64;
    if counter && after.detect_reset(before) {
        result.multiply(fraction);
        return Some(result);
    }
    site.added(result.subtract(before), HistogramOperation::Subtraction)?;
    result.multiply(fraction);
    site.added(result.add(before), HistogramOperation::Addition)?;
    Some(result)
}

/// Evaluates a window of histograms.
pub fn histograms(window: &Window<'_>, site: &mut Site<'_>, counter: bool, per_second: bool) -> Value {
    try_histograms(window, site, counter, per_second).map_or(Value::None, Value::from)
}

fn try_histograms(
    window: &Window<'_>,
    site: &mut Site<'_>,
    counter: bool,
    per_second: bool,
) -> Option<FloatHistogram> {
    let (times, all) = (window.histogram_times, window.histograms);
    let smoothed = window.extension == Extension::Smoothed;
    let (first, last) = borders(times, window.start, window.end, smoothed)?;
    if smoothed && times[first] > window.end {
        return None;
    }
    let custom = all[first].is_custom();
    for histogram in &all[first..=last] {
        if histogram.is_custom() != custom {
            site.note(Note::MixedExponentialCustom(site.metric));
            return None;
        }
        if counter && histogram.reset == CounterReset::Gauge {
            site.note(Note::NotCounter(site.metric));
        }
    }
    let point = |n: usize| (times[n], &all[n]);
    let left = match smoothed && times[first] < window.start {
        true => interpolate_histogram(point(first), point(first + 1), window.start, counter, site)?,
        false => FloatHistogram::clone(&all[first]),
    };
    let right = match smoothed && last > 0 && times[last] > window.end {
        true => interpolate_histogram(point(last - 1), point(last), window.end, counter, site)?,
        false => FloatHistogram::clone(&all[last]),
    };
    if !counter && (left.reset != CounterReset::Gauge || right.reset != CounterReset::Gauge) {
        site.note(Note::NotGauge(site.metric));
    }
    let mut result = right.clone();
    site.added(result.subtract(&left), HistogramOperation::Subtraction)?;
    if counter && let Some(correction) = correction(window, site, (first, last), &left, &right)? {
        site.added(result.add(&correction), HistogramOperation::Addition)?;
    }
    if per_second {
        result.divide(window.seconds);
    }
    result.reset = CounterReset::Gauge;
    result.compact();
    Some(result)
}

/// The sum of the values lost at resets between the bounds. `None` in the outer option if histograms are
/// incompatible, in the inner one if there was no reset.
#[allow(clippy::option_option)] // no correction and an impossible one differ
fn correction(
    window: &Window<'_>,
    site: &mut Site<'_>,
    (first, last): (usize, usize),
    left: &FloatHistogram,
    right: &FloatHistogram,
) -> Option<Option<FloatHistogram>> {
    let (times, all) = (window.histogram_times, window.histograms);
    let (mut from, mut before) = (first + 1, left);
    let smoothed = window.extension == Extension::Smoothed;
    if smoothed && times[first] < window.start && all[first + 1].detect_reset(&all[first]) {
        // The value at the left bound already includes this reset.
        before = &all[first + 1];
        from += 1;
    }
    if from > last {
        return Some(None);
    }
    let mut total: Option<FloatHistogram> = None;
    let mut take = |lost: &FloatHistogram, site: &mut Site<'_>| match &mut total {
        None => {
            total = Some(lost.clone());
            Some(())
        }
        Some(total) => site.added(total.add(lost), HistogramOperation::Addition).map(|_| ()),
    };
    for histogram in &all[from..last] {
        if histogram.detect_reset(before) {
            take(before, site)?;
        }
        before = histogram;
    }
    if right.detect_reset(before) {
        take(before, site)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The increase of a counter over the 100 s up to 1100 s. Samples are tuples of timestamp in seconds,
    /// value, and start timestamp in seconds.
    fn increase(samples: &[(i64, f64, i64)], smoothed: bool) -> Option<f64> {
        let times: Vec<i64> = samples.iter().map(|(time, _, _)| time * 1000).collect();
        let values: Vec<f64> = samples.iter().map(|(_, value, _)| *value).collect();
        let starts: Vec<i64> = samples.iter().map(|(_, _, start)| start * 1000).collect();
        let (range, seen_from) = ((1_000_000, 1_100_000), 700_000);
        let (times, values, starts) = (&times[..], &values[..], &starts[..]);
        Extended { times, values, starts, range, seen_from, smoothed, counter: true }.difference()
    }

    #[test]
    fn a_counter_that_began_in_the_window_counts_from_zero() {
        for smoothed in [false, true] {
            assert_eq!(increase(&[(1050, 6.0, 1040)], smoothed), Some(6.0), "smoothed: {smoothed}");
            assert_eq!(increase(&[(1050, 6.0, 0)], smoothed), Some(0.0), "the start is unknown");
            assert_eq!(
                increase(&[(1050, 6.0, 600)], smoothed),
                Some(0.0),
                "the start is before the window and its look-back"
            );
        }
        // The counter started as long before the window's start as the sample is after it.
        assert_eq!(increase(&[(1050, 6.0, 950)], false), Some(6.0));
        assert_eq!(increase(&[(1050, 6.0, 950)], true), Some(3.0));
    }

    #[test]
    fn a_restarted_counter_is_reset_even_if_its_value_did_not_fall() {
        for smoothed in [false, true] {
            let anew = [(1000, 5.0, 900), (1050, 5.0, 1010), (1100, 9.0, 1010)];
            assert_eq!(increase(&anew, smoothed), Some(9.0));
            let goes_on = [(1000, 5.0, 900), (1050, 5.0, 900), (1100, 9.0, 900)];
            assert_eq!(increase(&goes_on, smoothed), Some(4.0));
        }
    }

    #[test]
    fn a_reset_around_the_begin_of_the_window_is_counted() {
        // After the reset the counter grew from 960 s to 1060 s, two fifths of it before the window.
        let before = [(900, 4.0, 800), (1060, 10.0, 960), (1100, 10.0, 960)];
        assert_eq!(increase(&before, true), Some(6.0));
        assert_eq!(increase(&before, false), Some(10.0));
        let after = [(900, 4.0, 800), (1060, 10.0, 1010), (1100, 10.0, 1010)];
        assert_eq!(increase(&after, false), Some(10.0));
    }

    #[test]
    fn a_smoothed_window_before_its_only_sample_needs_a_counter_started_before_its_end() {
        assert_eq!(increase(&[(1150, 10.0, 1050)], true), Some(5.0));
        assert_eq!(increase(&[(1150, 10.0, 1120)], true), None, "the counter started after the end");
        assert_eq!(increase(&[(1150, 10.0, 0)], true), None);
    }

    #[test]
    fn windows_without_samples_have_no_difference() {
        assert_eq!(increase(&[], false), None);
        assert_eq!(increase(&[(990, 1.0, 900)], true), None);
    }
}
