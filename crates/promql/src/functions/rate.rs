//! Rates of counters and differences of gauges, extrapolated to the bounds of the window.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::CounterReset;

use crate::functions::extended;
use crate::functions::starts::{start_reset, starts_overlap};
use crate::functions::window::{Site, Value, Window};
use crate::notes::{HistogramOperation, Note};
use crate::timing::Extension;

type Answer = Result<Value, String>;

pub fn rate(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    extrapolated(window, site, true, true)
}

pub fn increase(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    extrapolated(window, site, true, false)
}

pub fn delta(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    extrapolated(window, site, false, false)
}

fn extrapolated(window: &Window<'_>, site: &mut Site<'_>, counter: bool, per_second: bool) -> Answer {
    if window.is_mixed(site) {
        return Ok(Value::None);
    }
    if window.extension != Extension::None {
        return Ok(match window.histograms.is_empty() {
            true => extended::floats(window, counter, per_second),
            false => extended::histograms(window, site, counter, per_second),
        });
    }
    if window.histograms.is_empty() {
        return Ok(float_rate(window, site, counter, per_second).map_or(Value::None, Value::Float));
    }
    let mut result = None;
    if window.histograms.len() > 1 {
        result = histogram_increase(window, site, counter);
        if result.is_none() {
            return Ok(Value::None);
        }
    }
    let times = window.histogram_times;
    let first = &window.histograms[0];
    let begin = began_inside(window, window.histogram_starts, times, counter);
    if begin.is_some() {
        match &mut result {
            None => result = Some(FloatHistogram::clone(first)),
            Some(result) => {
                if site.added(result.add(first), HistogramOperation::Addition).is_none() {
                    return Ok(Value::None);
                }
            }
        }
    }
    let Some(mut result) = result else { return Ok(Value::None) };
    let zero = (counter && result.count > 0.0 && first.count >= 0.0).then(|| first.count / result.count);
    result.multiply(factor(window, times, begin, zero, per_second));
    Ok(result.into())
}

/// The start timestamp of the first sample, if it is in the window and before that sample.
fn began_inside(window: &Window<'_>, starts: &[i64], times: &[i64], counter: bool) -> Option<i64> {
    let start = *starts.first()?;
    (counter && start != 0 && start > window.start && start < times[0]).then_some(start)
}

fn float_rate(window: &Window<'_>, site: &mut Site<'_>, counter: bool, per_second: bool) -> Option<f64> {
    let (times, values) = (window.times, window.values);
    let first = *values.first()?;
    let mut result = values[values.len() - 1] - first;
    if counter {
        let starts = window.starts;
        if starts.is_empty() {
            if window.falls() > 0 {
                values.windows(2).filter(|pair| pair[1] < pair[0]).for_each(|pair| result += pair[0]);
            }
        } else {
            let mut overlap = false;
            for n in 1..values.len() {
                if !overlap && starts_overlap(starts[n - 1], times[n - 1], starts[n]) {
                    site.note(Note::StartOverlap(site.metric));
                    overlap = true;
                }
                if values[n] < values[n - 1] || start_reset(starts[n - 1], times[n - 1], starts[n], times[n])
                {
                    result += values[n - 1];
                }
            }
        }
    }
    let begin = began_inside(window, window.starts, times, counter);
    if begin.is_some() {
        result += first;
    } else if values.len() == 1 {
        return None;
    }
    let zero = (counter && result > 0.0 && first >= 0.0).then(|| first / result);
    Some(result * factor(window, times, begin, zero, per_second))
}

/// The factor that extrapolates the increase between the samples to the window. `zero` is the first
/// sample's value divided by the increase: extrapolation of a counter does not go below zero.
fn factor(
    window: &Window<'_>,
    times: &[i64],
    begin: Option<i64>,
    zero: Option<f64>,
    per_second: bool,
) -> f64 {
    let (first, last) = (times[0], times[times.len() - 1]);
    let seconds = |ms: i64| ms as f64 / 1000.0;
    let mut to_start = seconds(first - window.start);
    let mut to_end = seconds(window.end - last);
    let mut sampled = seconds(last - first);
    let average = if times.len() > 1 { sampled / (times.len() - 1) as f64 } else { 0.0 };
    let threshold = average * 1.1;
    if let Some(begin) = begin {
        to_start = 0.0;
        sampled = seconds(last - begin);
    } else {
        if to_start >= threshold {
            to_start = average / 2.0;
        }
        if let Some(part) = zero {
            let to_zero = sampled * part;
            if to_zero < to_start {
                to_start = to_zero;
            }
        }
    }
    if to_end >= threshold {
        to_end = average / 2.0;
    }
    let mut factor = if sampled == 0.0 { 1.0 } else { (sampled + to_start + to_end) / sampled };
    if per_second {
        factor /= window.seconds;
    }
    factor
}

fn histogram_increase(window: &Window<'_>, site: &mut Site<'_>, counter: bool) -> Option<FloatHistogram> {
    let (all, times, starts) = (window.histograms, window.histogram_times, window.histogram_starts);
    let (first, last) = (&all[0], &all[all.len() - 1]);
    let is_gauge = |histogram: &FloatHistogram| histogram.reset == CounterReset::Gauge;
    if counter && (is_gauge(first) || is_gauge(last)) {
        site.note(Note::NotCounter(site.metric));
    }
    let reset_at =
        |n: usize| !starts.is_empty() && start_reset(starts[n - 1], times[n - 1], starts[n], times[n]);
    // If there was a reset after the first histogram, nothing of it counts, including its layout.
    let mut begin = Arc::clone(first);
    if counter && (reset_at(1) || all[1].detect_reset(first)) {
        let second = &all[1];
        begin = Arc::new(FloatHistogram {
            schema: second.schema,
            bounds: Arc::clone(&second.bounds),
            ..FloatHistogram::default()
        });
    }
    let custom = begin.is_custom();
    let mixed = |site: &mut Site<'_>| {
        site.note(Note::MixedExponentialCustom(site.metric));
        None
    };
    if last.is_custom() != custom {
        return mixed(site);
    }
    let mut schema = last.schema.min(begin.schema);
    for histogram in &all[1..all.len() - 1] {
        if !counter {
            break;
        }
        if is_gauge(histogram) {
            site.note(Note::NotCounter(site.metric));
        }
        schema = schema.min(histogram.schema);
        if histogram.is_custom() != custom {
            return mixed(site);
        }
    }
    let mut result = last.to_schema(schema);
    site.added(result.subtract(&begin), HistogramOperation::Subtraction)?;
    if counter {
        let mut overlap = false;
        let mut before = &begin;
        for n in 1..all.len() {
            if !overlap && !starts.is_empty() && starts_overlap(starts[n - 1], times[n - 1], starts[n]) {
                site.note(Note::StartOverlap(site.metric));
                overlap = true;
            }
            if reset_at(n) || all[n].detect_reset(before) {
                site.added(result.add(before), HistogramOperation::Addition)?;
            }
            before = &all[n];
        }
    } else if !(is_gauge(first) && is_gauge(last)) {
        site.note(Note::NotGauge(site.metric));
    }
    result.reset = CounterReset::Gauge;
    result.compact();
    Some(result)
}

/// A float or a histogram with its timestamp and start timestamp.
struct Point<'a> {
    time: i64,
    start: i64,
    value: f64,
    histogram: Option<&'a Arc<FloatHistogram>>,
}

/// The last two samples of the window, of either kind.
fn last_two<'a>(window: &'a Window<'_>) -> Option<[Point<'a>; 2]> {
    let start = |starts: &[i64], n: usize| starts.get(n).copied().unwrap_or(0);
    let (mut floats, mut histograms) = (window.times.len(), window.histogram_times.len());
    let mut take = || {
        let float = floats.checked_sub(1).map(|n| window.times[n]);
        let histogram = histograms.checked_sub(1).map(|n| window.histogram_times[n]);
        // Of two samples with the same timestamp, the float is the later one.
        if float.is_some() && float >= histogram {
            floats -= 1;
            let (time, value) = (window.times[floats], window.values[floats]);
            return Some(Point { time, start: start(window.starts, floats), value, histogram: None });
        }
        histograms = histograms.checked_sub(1)?;
        let histogram = Some(&window.histograms[histograms]);
        let time = window.histogram_times[histograms];
        Some(Point { time, start: start(window.histogram_starts, histograms), value: 0.0, histogram })
    };
    let last = take()?;
    Some([take()?, last])
}

pub fn irate(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    instant(window, site, true)
}

pub fn idelta(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    instant(window, site, false)
}

fn instant(window: &Window<'_>, site: &mut Site<'_>, counter: bool) -> Answer {
    let Some([before, last]) = last_two(window) else { return Ok(Value::None) };
    let interval = last.time - before.time;
    if interval == 0 {
        return Ok(Value::None);
    }
    let seconds = interval as f64 / 1000.0;
    let began = start_reset(before.start, before.time, last.start, last.time);
    Ok(match (before.histogram, last.histogram) {
        (None, None) => {
            let is_reset = counter && (last.value < before.value || began);
            let value = if is_reset { last.value } else { last.value - before.value };
            Value::Float(if counter { value / seconds } else { value })
        }
        (Some(before), Some(last)) => {
            let is_gauge = |histogram: &FloatHistogram| histogram.reset == CounterReset::Gauge;
            if counter && (is_gauge(before) || is_gauge(last)) {
                site.note(Note::NotCounter(site.metric));
            }
            if !(counter || is_gauge(before) && is_gauge(last)) {
                site.note(Note::NotGauge(site.metric));
            }
            let mut result = FloatHistogram::clone(last);
            if (!counter || !(began || last.detect_reset(before)))
                && site.added(result.subtract(before), HistogramOperation::Subtraction).is_none()
            {
                return Ok(Value::None);
            }
            result.reset = CounterReset::Gauge;
            result.compact();
            if counter {
                result.divide(seconds);
            }
            result.into()
        }
        _ => {
            site.note(Note::MixedFloatsHistograms(site.metric));
            Value::None
        }
    })
}
