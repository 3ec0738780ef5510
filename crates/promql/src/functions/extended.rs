//! Rates and differences of `anchored` and `smoothed` windows, which see samples around them.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::CounterReset;

use crate::ast::Extension;
use crate::functions::window::{Site, Value, Window};
use crate::notes::{HistogramOperation, Note};

/// The value at `at` on the line between two samples. A counter that was reset begins at zero.
pub fn interpolate(before: (i64, f64), after: (i64, f64), at: i64, counter: bool) -> f64 {
    let begin = if counter && after.1 < before.1 { 0.0 } else { before.1 };
    begin + (after.1 - begin) * (at - before.0) as f64 / (after.0 - before.0) as f64
}

/// The first and last sample that count for a window, and whether any does.
pub fn borders(times: &[i64], start: i64, end: i64, smoothed: bool) -> Option<(usize, usize)> {
    let mut last = times.len().checked_sub(1)?;
    let first = times[..last].partition_point(|time| *time <= start).saturating_sub(1);
    if smoothed {
        last = times[..last].partition_point(|time| *time < end);
    }
    (times[last] > start).then_some((first, last))
}

/// Values at both borders.
pub fn border_values(
    (times, values): (&[i64], &[f64]),
    (first, last): (usize, usize),
    (start, end): (i64, i64),
    smoothed: bool,
    counter: bool,
) -> (f64, f64) {
    let point = |n: usize| (times[n], values[n]);
    let left = match smoothed && times[first] < start {
        true => interpolate(point(first), point(first + 1), start, counter),
        false => values[first],
    };
    let right = match smoothed && last > 0 && times[last] > end {
        true => interpolate(point(last - 1), point(last), end, counter),
        false => values[last],
    };
    (left, right)
}

/// Of a window of floats.
pub fn floats(window: &Window<'_>, counter: bool, per_second: bool) -> Value {
    let (times, values) = (window.times, window.values);
    let smoothed = window.extension == Extension::Smoothed;
    let found = borders(times, window.start, window.end, smoothed);
    // A window alone goes on to samples behind it, a function over it does not.
    let Some((first, last)) = found.filter(|(first, _)| !(smoothed && times[*first] > window.end)) else {
        return Value::None;
    };
    let range = (window.start, window.end);
    let (left, right) = border_values((times, values), (first, last), range, smoothed, counter);
    let mut result = right - left;
    if counter {
        // Resets at the borders are in their values already.
        let from = first + usize::from(times[first] <= window.start);
        let to = if times[last] >= window.end { last } else { last + 1 };
        let (mut before, mut correction) = (left, 0.0);
        for value in values.get(from..to).unwrap_or_default() {
            if *value < before {
                correction += before;
            }
            before = *value;
        }
        if right < before {
            correction += before;
        }
        result += correction;
    }
    Value::Float(if per_second { result / window.seconds } else { result })
}

type Point<'a> = (i64, &'a Arc<FloatHistogram>);

/// The histogram at `at` on the line between two; `None` when they do not fit together.
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

/// Of a window of histograms.
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

/// What resets between the borders took away; `None` when something does not fit together.
#[allow(clippy::option_option)] // nothing to correct, and nothing that can be, are different things
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
        // The value at the left border has this reset in it.
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
