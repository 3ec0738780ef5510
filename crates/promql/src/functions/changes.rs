//! `changes` and `resets`: how often a value changed or a counter was reset.

use std::sync::Arc;

use sandur_model::FloatHistogram;

use crate::functions::starts::start_reset;
use crate::functions::window::{Site, Value, Window, is_change};
use crate::timing::Extension;

type Answer = Result<Value, String>;

struct Point<'a> {
    time: i64,
    start: i64,
    value: f64,
    histogram: Option<&'a Arc<FloatHistogram>>,
}

/// The indexes of the first float and the first histogram of the window; `None` if it is empty. An anchored
/// window begins with the last sample at or before its start, of either kind.
fn first_places(window: &Window<'_>) -> Option<(usize, usize)> {
    if window.extension != Extension::Anchored {
        return Some((0, 0));
    }
    let before = |times: &[i64]| times.partition_point(|time| *time <= window.start);
    let (floats, histograms) = (before(window.times), before(window.histogram_times));
    if floats >= window.times.len() && histograms >= window.histogram_times.len() {
        return None;
    }
    let float = floats.checked_sub(1).map(|n| window.times[n]);
    let histogram = histograms.checked_sub(1).map(|n| window.histogram_times[n]);
    Some(match (float, histogram) {
        (None, None) => (0, 0),
        (Some(_), None) => (floats - 1, histograms),
        (Some(float), Some(histogram)) if float >= histogram => (floats - 1, histograms),
        _ => (floats, histograms - 1),
    })
}

/// Counts pairs of neighbouring samples for which `f` is true.
fn count(window: &Window<'_>, f: impl Fn(&Point<'_>, &Point<'_>) -> bool) -> Value {
    let Some((mut float, mut histogram)) = first_places(window) else { return Value::None };
    let (mut before, mut count): (Option<Point<'_>>, u64) = (None, 0);
    loop {
        let times = (window.times.get(float), window.histogram_times.get(histogram));
        let start = |starts: &[i64], n: usize| starts.get(n).copied().unwrap_or(0);
        let point = match times {
            (None, None) => return Value::Float(count as f64),
            (Some(time), other) if other.is_none_or(|other| time <= other) => {
                float += 1;
                let (start, value) = (start(window.starts, float - 1), window.values[float - 1]);
                Point { time: *time, start, value, histogram: None }
            }
            (_, Some(time)) => {
                histogram += 1;
                let start = start(window.histogram_starts, histogram - 1);
                Point { time: *time, start, value: 0.0, histogram: Some(&window.histograms[histogram - 1]) }
            }
            (Some(_), None) => return Value::Float(count as f64),
        };
        count += u64::from(before.as_ref().is_some_and(|before| f(before, &point)));
        before = Some(point);
    }
}

/// Whether the window has only floats without start timestamps, so that prefix counts can be used.
fn is_plain(window: &Window<'_>) -> bool {
    let plain = window.extension == Extension::None && window.starts.is_empty();
    plain && window.histograms.is_empty() && !window.values.is_empty()
}

pub fn resets(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    if is_plain(window) {
        return Ok(f64::from(window.falls()).into());
    }
    Ok(count(window, |before, point| match (before.histogram, point.histogram) {
        (None, None) => {
            point.value < before.value || start_reset(before.start, before.time, point.start, point.time)
        }
        (Some(then), Some(now)) => {
            start_reset(before.start, before.time, point.start, point.time) || now.detect_reset(then)
        }
        _ => true,
    }))
}

pub fn changes(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    if is_plain(window) {
        return Ok(f64::from(window.changes()).into());
    }
    Ok(count(window, |before, point| match (before.histogram, point.histogram) {
        (None, None) => is_change(before.value, point.value),
        (Some(then), Some(now)) => !now.same_data(then),
        _ => true,
    }))
}
