//! Functions that fold the samples of a window: counts, sums, extremes, first and last.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::{CounterReset, kahan_add};

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
    let mut hints = Hints::default();
    let mut sum = FloatHistogram::clone(&window.histograms[0]);
    hints.see(&sum);
    let (mut lost, mut reconciled) = (None, false);
    for histogram in &window.histograms[1..] {
        hints.see(histogram);
        match sum.add_compensated(histogram, &mut lost) {
            Ok(added) => reconciled |= added.bounds_reconciled,
            Err(_) => return Ok(incompatible(site)),
        }
    }
    if let Some(lost) = lost
        && let Ok(added) = sum.add(&lost)
    {
        reconciled |= added.bounds_reconciled;
    }
    hints.note(reconciled, site);
    Ok(sum.into())
}

fn incompatible(site: &mut Site<'_>) -> Value {
    site.note(Note::MixedExponentialCustom(site.metric));
    Value::None
}

/// The counter reset hints seen in a sum of histograms.
#[derive(Default)]
struct Hints {
    reset: bool,
    not_reset: bool,
}

impl Hints {
    fn see(&mut self, histogram: &FloatHistogram) {
        self.reset |= histogram.reset == CounterReset::Reset;
        self.not_reset |= histogram.reset == CounterReset::NotReset;
    }

    fn note(&self, reconciled: bool, site: &mut Site<'_>) {
        if self.reset && self.not_reset {
            site.note(Note::ResetCollision(HistogramOperation::Aggregation));
        }
        if reconciled {
            site.note(Note::MismatchedBounds(HistogramOperation::Aggregation));
        }
    }
}

/// The mean: from the sum while that does not overflow, then as a running mean.
pub fn average(window: &Window<'_>, site: &mut Site<'_>) -> Answer {
    if window.is_mixed(site) {
        return Ok(Value::None);
    }
    if !window.histograms.is_empty() {
        return Ok(average_histogram(window, site));
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

fn average_histogram(window: &Window<'_>, site: &mut Site<'_>) -> Value {
    let mut hints = Hints::default();
    let mut mean = HistogramMean::new(&window.histograms[0]);
    hints.see(&window.histograms[0]);
    let mut reconciled = false;
    for histogram in &window.histograms[1..] {
        hints.see(histogram);
        match mean.add(histogram) {
            Ok(more) => reconciled |= more,
            Err(()) => return incompatible(site),
        }
    }
    hints.note(reconciled, site);
    mean.result().into()
}

/// A mean of histograms: from the sum while that does not overflow, then as a running mean.
#[derive(Clone, Debug)]
pub struct HistogramMean {
    sum: FloatHistogram,
    lost: Option<FloatHistogram>,
    count: f64,
    running: bool,
}

impl HistogramMean {
    /// The mean of one histogram.
    pub fn new(first: &FloatHistogram) -> Self {
        Self { sum: first.clone(), lost: None, count: 1.0, running: false }
    }

    /// Adds a histogram. Returns whether bucket bounds were reconciled; fails if the buckets are
    /// incompatible.
    pub fn add(&mut self, next: &FloatHistogram) -> Result<bool, ()> {
        self.count += 1.0;
        if !self.running {
            let (mut sum, mut lost) = (self.sum.clone(), self.lost.clone());
            let added = sum.add_compensated(next, &mut lost).map_err(|_| ())?;
            if !sum.has_overflow() {
                (self.sum, self.lost) = (sum, lost);
                return Ok(added.bounds_reconciled);
            }
            self.running = true;
            self.sum.divide(self.count - 1.0);
            if let Some(lost) = &mut self.lost {
                lost.divide(self.count - 1.0);
            }
        }
        let part = (self.count - 1.0) / self.count;
        if let Some(lost) = &mut self.lost {
            lost.multiply(part);
        }
        let mut next = next.clone();
        next.divide(self.count);
        self.sum.multiply(part);
        let added = self.sum.add_compensated(&next, &mut self.lost).map_err(|_| ())?;
        Ok(added.bounds_reconciled)
    }

    /// The bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        self.sum.memory_bytes() + self.lost.as_ref().map_or(0, FloatHistogram::memory_bytes)
    }

    /// The mean.
    pub fn result(mut self) -> FloatHistogram {
        if !self.running {
            self.sum.divide(self.count);
        }
        if let Some(mut lost) = self.lost {
            if !self.running {
                lost.divide(self.count);
            }
            // Both have the same layout.
            let _ = self.sum.add(&lost);
        }
        self.sum
    }
}
