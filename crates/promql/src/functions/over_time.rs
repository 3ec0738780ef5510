//! Functions that fold the samples of a window: counts, sums, extremes, first and last.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::{HistogramSum, kahan_add};

use crate::functions::window::{Site, Value, Window};
use crate::notes::{HistogramOperation, Note};

type Answer = Result<Value, String>;

pub fn count(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    Ok(((window.times.len() + window.histograms.len()) as f64).into())
}

pub fn present(_: &Window<'_>, _: &mut Site<'_>) -> Answer {
    Ok(1.0.into())
}

fn either(float: Option<f64>, histogram: Option<&Arc<FloatHistogram>>, float_wins: bool) -> Value {
    match (float, histogram) {
        (Some(float), None) => Value::Float(float),
        (Some(float), Some(_)) if float_wins => Value::Float(float),
        (_, Some(histogram)) => Value::Histogram(Arc::clone(histogram)),
        (None, None) => Value::None,
    }
}

pub fn first(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    let wins = window.times.first() < window.histogram_times.first();
    Ok(either(window.values.first().copied(), window.histograms.first(), wins))
}

pub fn last(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    let wins = window.times.last() > window.histogram_times.last();
    Ok(either(window.values.last().copied(), window.histograms.last(), wins))
}

pub fn time_of_first(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    let firsts = window.times.first().into_iter().chain(window.histogram_times.first());
    Ok(firsts.min().map_or(Value::None, |time| Value::Float(*time as f64 / 1000.0)))
}

pub fn time_of_last(window: &Window<'_>, _: &mut Site<'_>) -> Answer {
    let lasts = window.times.last().into_iter().chain(window.histogram_times.last());
    Ok(lasts.max().map_or(Value::None, |time| Value::Float(*time as f64 / 1000.0)))
}

/// The index of the float that wins against all floats before it.
fn winner(window: &Window<'_>, site: &mut Site<'_>, wins: impl Fn(f64, f64) -> bool) -> Option<usize> {
    let first = *window.values.first()?;
    window.ignore_histograms(site);
    let (mut best, mut at) = (first, 0);
    for (n, value) in window.values.iter().enumerate() {
        if wins(*value, best) || best.is_nan() {
            (best, at) = (*value, n);
        }
    }
    Some(at)
}

pub fn max(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    let at = winner(window, site, |value, best| value > best);
    Ok(at.map_or(Value::None, |at| Value::Float(window.values[at])))
}

pub fn min(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    let at = winner(window, site, |value, best| value < best);
    Ok(at.map_or(Value::None, |at| Value::Float(window.values[at])))
}

pub fn time_of_max(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    let at = winner(window, site, |value, best| value >= best);
    Ok(at.map_or(Value::None, |at| Value::Float(window.times[at] as f64 / 1000.0)))
}

pub fn time_of_min(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    let at = winner(window, site, |value, best| value <= best);
    Ok(at.map_or(Value::None, |at| Value::Float(window.times[at] as f64 / 1000.0)))
}

pub fn sum(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    if window.is_mixed(site) {
        return Ok(Value::None);
    }
    if window.histograms.is_empty() {
        let (mut sum, mut lost) = (0.0, 0.0);
        for value in window.values {
            (sum, lost) = kahan_add(*value, sum, lost);
        }
        return Ok(if sum.is_infinite() { sum } else { sum + lost }.into());
    }
    Ok(total(window, site).and_then(|total| total.sum()).map_or(Value::None, Value::from))
}

/// The exact sum of the window's histograms; adds notes about it. `None` if they are incompatible.
fn total(window: &Window<'_>, site: &mut Site<'_>) -> Option<HistogramSum> {
    let mut total = HistogramSum::default();
    for histogram in window.histograms {
        if total.add(histogram).is_err() {
            site.note(Note::MixedExponentialCustom(site.metric));
            return None;
        }
    }
    if total.hints().collide() {
        site.note(Note::ResetCollision(HistogramOperation::Aggregation));
    }
    if total.bounds_differ() {
        site.note(Note::MismatchedBounds(HistogramOperation::Aggregation));
    }
    Some(total)
}

/// The mean: from the sum while that does not overflow, then as a running mean.
pub fn average(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    if window.is_mixed(site) {
        return Ok(Value::None);
    }
    if !window.histograms.is_empty() {
        return Ok(total(window, site).and_then(|total| total.mean()).map_or(Value::None, Value::from));
    }
    let Some((first, rest)) = window.values.split_first() else { return Ok(Value::None) };
    let (mut sum, mut lost, mut mean, mut running, mut count) = (*first, 0.0, 0.0, false, 1.0);
    for value in rest {
        count += 1.0;
        if !running {
            let (new, rest) = kahan_add(*value, sum, lost);
            if !new.is_infinite() {
                (sum, lost) = (new, rest);
                continue;
            }
            running = true;
            mean = sum / (count - 1.0);
            lost /= count - 1.0;
        }
        let part = (count - 1.0) / count;
        (mean, lost) = kahan_add(value / count, part * mean, part * lost);
    }
    Ok(if running { mean + lost } else { sum / count + lost / count }.into())
}
