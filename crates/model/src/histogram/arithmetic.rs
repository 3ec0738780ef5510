//! Adds, subtracts, multiplies and divides histograms.
//!
//! Two histograms are first converted to one layout: the coarser schema and a zero bucket that covers
//! both, or the custom bounds that both have. Counts are added in the order of buckets.

use std::sync::Arc;

use super::detect::intersection;
use super::iterate::exponential_bound;
use super::{Buckets, CounterReset, FloatHistogram, HistogramError};

/// Facts about an addition that a query may report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// One histogram was marked as a counter reset, the other as no reset.
    pub reset_collision: bool,
    /// The custom bounds differed; the result has the bounds that both had.
    pub bounds_reconciled: bool,
}

impl FloatHistogram {
    /// Multiplies all counts and the sum. A negative factor turns a counter into a gauge.
    pub fn multiply(&mut self, factor: f64) -> &mut Self {
        self.each_number(|number| *number *= factor);
        if factor < 0.0 {
            self.reset = CounterReset::Gauge;
        }
        self
    }

    /// Divides all counts and the sum. Division by zero removes all buckets; a negative divisor turns a
    /// counter into a gauge.
    pub fn divide(&mut self, divisor: f64) -> &mut Self {
        self.each_number(|number| *number /= divisor);
        if divisor == 0.0 {
            self.positive = Buckets::default();
            self.negative = Buckets::default();
        } else if divisor < 0.0 {
            self.reset = CounterReset::Gauge;
        }
        self
    }

    fn each_number(&mut self, mut f: impl FnMut(&mut f64)) {
        [&mut self.zero_count, &mut self.count, &mut self.sum].into_iter().for_each(&mut f);
        self.positive.counts.iter_mut().chain(&mut self.negative.counts).for_each(f);
    }

    /// Whether any number of the histogram is infinite.
    pub fn has_overflow(&self) -> bool {
        let own = [self.zero_count, self.count, self.sum];
        let counts = self.positive.counts.iter().chain(&self.negative.counts);
        own.iter().chain(counts).chain(self.bounds.iter()).any(|number| number.is_infinite())
    }

    /// The histogram converted to a coarser schema, with an unknown reset hint; a copy if the schema is
    /// not coarser.
    pub fn to_schema(&self, schema: i32) -> Self {
        if schema >= self.schema || self.is_custom() {
            return self.clone();
        }
        Self {
            reset: CounterReset::Unknown,
            schema,
            positive: self.positive.coarser(self.schema, schema),
            negative: self.negative.coarser(self.schema, schema),
            ..self.clone()
        }
    }

    /// Adds another histogram to this one.
    pub fn add(&mut self, other: &Self) -> Result<Added, HistogramError> {
        self.combine(other, 1.0)
    }

    /// Subtracts another histogram from this one.
    pub fn subtract(&mut self, other: &Self) -> Result<Added, HistogramError> {
        self.combine(other, -1.0)
    }

    fn combine(&mut self, other: &Self, sign: f64) -> Result<Added, HistogramError> {
        let mut added = self.begin(other)?;
        if !self.is_custom() {
            let zero_count = self.reconcile_zero(other);
            self.zero_count += sign * zero_count;
        }
        self.count += sign * other.count;
        self.sum += sign * other.sum;
        if self.is_custom() && self.bounds != other.bounds {
            added.bounds_reconciled = true;
            (self.positive, self.bounds) = common_layout(self, other, sign);
            return Ok(added);
        }
        let schema = self.schema.min(other.schema);
        let custom = self.is_custom();
        let threshold = self.zero_threshold;
        let merge = |own: &mut Buckets, own_schema: i32, theirs: &Buckets| {
            if own_schema > schema && !custom {
                *own = own.coarser(own_schema, schema);
            }
            let coarse;
            let theirs = if other.schema > schema && !custom {
                coarse = theirs.coarser(other.schema, schema);
                &coarse
            } else {
                theirs
            };
            merge_buckets(own, theirs, sign, (!custom).then_some((schema, threshold)));
        };
        merge(&mut self.positive, self.schema, &other.positive);
        merge(&mut self.negative, self.schema, &other.negative);
        self.schema = schema;
        Ok(added)
    }

    /// Checks that both histograms can be combined, and sets the reset hint of the result.
    fn begin(&mut self, other: &Self) -> Result<Added, HistogramError> {
        use CounterReset::{Gauge, Unknown};
        if self.is_custom() != other.is_custom() {
            return Err(HistogramError::Incompatible);
        }
        let mut added = Added::default();
        self.reset = match (self.reset, other.reset) {
            (own, theirs) if own == theirs => own,
            (Gauge, _) | (_, Gauge) => Gauge,
            (Unknown, _) | (_, Unknown) => Unknown,
            _ => {
                added.reset_collision = true;
                Unknown
            }
        };
        Ok(added)
    }

    /// Widens the zero bucket of this histogram until both have the same threshold, at a bucket boundary
    /// of both; returns the zero count of `other` for that threshold.
    fn reconcile_zero(&mut self, other: &Self) -> f64 {
        let (mut count, mut threshold) = (other.zero_count, other.zero_threshold);
        while threshold != self.zero_threshold {
            if self.zero_threshold > threshold {
                (count, threshold) = other.zero_count_for(self.zero_threshold);
            }
            if threshold > self.zero_threshold {
                (self.zero_count, self.zero_threshold) = self.zero_count_for(threshold);
                self.drop_inside_zero();
            }
            if threshold.is_nan() || self.zero_threshold.is_nan() {
                break;
            }
        }
        count
    }

    /// Drops the buckets that the zero bucket now covers, and empty ones.
    fn drop_inside_zero(&mut self) {
        let (threshold, schema) = (self.zero_threshold, self.schema);
        for own in [&mut self.positive, &mut self.negative] {
            let mut kept = Buckets::default();
            for (index, count) in own.iter() {
                if exponential_bound(index - 1, schema) >= threshold && count != 0.0 {
                    kept.push(index, count);
                }
            }
            *own = kept;
        }
    }
}

/// Adds `sign` times the buckets of `theirs`, without its first buckets that are inside the zero bucket
/// (`outside`: schema and threshold).
fn merge_buckets(own: &mut Buckets, theirs: &Buckets, sign: f64, outside: Option<(i32, f64)>) {
    if own.indices == theirs.indices && outside.is_none_or(|(_, threshold)| threshold == 0.0) {
        own.counts.iter_mut().zip(&theirs.counts).for_each(|(own, count)| *own += sign * count);
        return;
    }
    let mut merged = Buckets::default();
    merged.indices.reserve(own.len() + theirs.len());
    merged.counts.reserve(own.len() + theirs.len());
    let mut left = own.iter().peekable();
    for (index, count) in theirs.iter().skip_while(|(index, _)| is_inside(*index, outside)) {
        while let Some((at, own)) = left.next_if(|(at, _)| *at < index) {
            merged.push(at, own);
        }
        match left.next_if(|(at, _)| *at == index) {
            Some((_, own)) => merged.push(index, own + sign * count),
            None => merged.push(index, sign * count),
        }
    }
    left.for_each(|(index, count)| merged.push(index, count));
    *own = merged;
}

fn is_inside(index: i32, outside: Option<(i32, f64)>) -> bool {
    outside.is_some_and(|(schema, threshold)| exponential_bound(index, schema) <= threshold)
}

/// The sum of both histograms in the layout of the custom bounds that both have: counts and bounds.
fn common_layout(own: &FloatHistogram, other: &FloatHistogram, sign: f64) -> (Buckets, Arc<[f64]>) {
    let common = intersection(&own.bounds, &other.bounds);
    let mut sums = vec![0.0; common.len() + 1];
    for (from, sign) in [(own, 1.0), (other, sign)] {
        let mut target = 0;
        for (index, count) in from.positive.iter() {
            match from.bounds.get(index as usize) {
                Some(bound) => {
                    while common.get(target).is_some_and(|common| common < bound) {
                        target += 1;
                    }
                }
                None => target = common.len(),
            }
            sums[target] += sign * count;
        }
    }
    let mut buckets = Buckets::default();
    for (index, sum) in (0i32..).zip(sums).filter(|(_, sum)| *sum != 0.0) {
        buckets.push(index, sum);
    }
    (buckets, common.into())
}
