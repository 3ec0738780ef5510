//! Adds, subtracts, multiplies and divides histograms.
//!
//! Two histograms are first converted to one layout: the coarser schema and a zero bucket that covers
//! both, or the custom bounds that both have. Counts are added in the order of buckets.

use std::sync::Arc;

use super::detect::intersection;
use super::iterate::{coarser_index, exponential_bound};
use super::kahan::kahan_add;
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
            let (zero_count, _) = self.reconcile_zero(other, None);
            self.zero_count += sign * zero_count;
        }
        self.count += sign * other.count;
        self.sum += sign * other.sum;
        if self.is_custom() && self.bounds != other.bounds {
            added.bounds_reconciled = true;
            let (buckets, _, bounds) = common_layout(self, other, sign, None);
            (self.positive, self.bounds) = (buckets, bounds);
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

    /// Adds with Kahan compensation: `lost` holds the rounding errors so far, in the layout of this
    /// histogram.
    pub fn add_compensated(
        &mut self,
        other: &Self,
        lost: &mut Option<Self>,
    ) -> Result<Added, HistogramError> {
        let mut added = self.begin(other)?;
        let lost = lost.get_or_insert_with(|| self.no_loss());
        if !self.is_custom() {
            let (theirs, _) = self.reconcile_zero(other, Some(lost));
            (self.zero_count, lost.zero_count) = kahan_add(theirs, self.zero_count, lost.zero_count);
            (self.zero_count, lost.zero_count) = kahan_add(0.0, self.zero_count, lost.zero_count);
        }
        (self.count, lost.count) = kahan_add(other.count, self.count, lost.count);
        (self.sum, lost.sum) = kahan_add(other.sum, self.sum, lost.sum);
        if self.is_custom() && self.bounds != other.bounds {
            added.bounds_reconciled = true;
            let (buckets, rest, bounds) = common_layout(self, other, 1.0, Some(&lost.positive));
            (self.positive, self.bounds) = (buckets, Arc::clone(&bounds));
            (lost.positive, lost.bounds) = (rest, bounds);
            return Ok(added);
        }
        let schema = self.schema.min(other.schema);
        let outside = (!self.is_custom()).then_some((schema, self.zero_threshold));
        let own_schema = self.schema;
        let merge = |own: &mut Buckets, rest: &mut Buckets, theirs: &Buckets| {
            if own_schema > schema {
                coarser_compensated(own, rest, own_schema, schema);
            }
            if other.schema > schema {
                let mut coarse = theirs.clone();
                let mut more = zeros(theirs);
                coarser_compensated(&mut coarse, &mut more, other.schema, schema);
                merge_compensated(own, rest, &coarse, Some(&more), outside);
            } else {
                merge_compensated(own, rest, theirs, None, outside);
            }
        };
        merge(&mut self.positive, &mut lost.positive, &other.positive);
        merge(&mut self.negative, &mut lost.negative, &other.negative);
        self.schema = schema;
        (lost.schema, lost.zero_threshold) = (schema, self.zero_threshold);
        Ok(added)
    }

    /// A histogram of the same layout in which every number is zero.
    fn no_loss(&self) -> Self {
        Self {
            reset: self.reset,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            positive: zeros(&self.positive),
            negative: zeros(&self.negative),
            bounds: Arc::clone(&self.bounds),
            ..Self::default()
        }
    }

    /// Widens the zero bucket of this histogram until both have the same threshold, at a bucket boundary
    /// of both; returns the zero count of `other` for that threshold, and the threshold.
    fn reconcile_zero(&mut self, other: &Self, mut lost: Option<&mut Self>) -> (f64, f64) {
        let (mut count, mut threshold) = (other.zero_count, other.zero_threshold);
        while threshold != self.zero_threshold {
            if self.zero_threshold > threshold {
                (count, threshold) = other.zero_count_for(self.zero_threshold);
            }
            if threshold > self.zero_threshold {
                let (own, larger, rest) = self.zero_count_with(threshold, lost.as_deref());
                (self.zero_count, self.zero_threshold) = (own, larger);
                if let Some(lost) = lost.as_deref_mut() {
                    lost.zero_count = rest;
                }
                self.drop_inside_zero(lost.as_deref_mut());
            }
            if threshold.is_nan() || self.zero_threshold.is_nan() {
                break;
            }
        }
        (count, threshold)
    }

    /// [`Self::zero_count_for`] that includes the compensation in `lost`.
    pub(super) fn zero_count_with(&self, mut threshold: f64, lost: Option<&Self>) -> (f64, f64, f64) {
        let rest = lost.map_or(0.0, |lost| lost.zero_count);
        if threshold == self.zero_threshold {
            return (self.zero_count, threshold, rest);
        }
        'again: loop {
            let (mut count, mut rest) = (self.zero_count, rest);
            let mut take = |bucket: f64, more: Option<f64>| {
                (count, rest) = kahan_add(bucket, count, rest);
                if let Some(more) = more {
                    (count, rest) = kahan_add(more, count, rest);
                }
            };
            for (n, bucket) in self.positive_buckets().enumerate() {
                if bucket.lower >= threshold {
                    break;
                }
                take(bucket.count, lost.map(|lost| lost.positive.counts[n]));
                if bucket.upper > threshold {
                    if bucket.count != 0.0 {
                        threshold = bucket.upper;
                    }
                    break;
                }
            }
            for (n, bucket) in self.negative_buckets().enumerate() {
                if bucket.upper <= -threshold {
                    break;
                }
                take(bucket.count, lost.map(|lost| lost.negative.counts[n]));
                if bucket.lower < -threshold {
                    if bucket.count != 0.0 {
                        threshold = -bucket.lower;
                        continue 'again;
                    }
                    break;
                }
            }
            return (count, threshold, rest);
        }
    }

    /// Drops the buckets that the zero bucket now covers, and empty ones.
    fn drop_inside_zero(&mut self, lost: Option<&mut Self>) {
        let (threshold, schema) = (self.zero_threshold, self.schema);
        let lower = |index: i32| exponential_bound(index - 1, schema);
        let mut none = Self::default();
        let has_lost = lost.is_some();
        let lost = lost.unwrap_or(&mut none);
        for (own, rest) in
            [(&mut self.positive, &mut lost.positive), (&mut self.negative, &mut lost.negative)]
        {
            let (mut kept, mut kept_rest) = (Buckets::default(), Buckets::default());
            for (n, (index, count)) in own.iter().enumerate() {
                let more = if has_lost { rest.counts[n] } else { 0.0 };
                if lower(index) >= threshold && (count != 0.0 || more != 0.0) {
                    kept.push(index, count);
                    kept_rest.push(index, more);
                }
            }
            *own = kept;
            if has_lost {
                *rest = kept_rest;
            }
        }
    }
}

fn zeros(of: &Buckets) -> Buckets {
    Buckets { indices: of.indices.clone(), counts: vec![0.0; of.len()] }
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

fn merge_compensated(
    own: &mut Buckets,
    lost: &mut Buckets,
    theirs: &Buckets,
    more: Option<&Buckets>,
    outside: Option<(i32, f64)>,
) {
    let (mut merged, mut rest) = (Buckets::default(), Buckets::default());
    let mut left = own.iter().zip(lost.counts.iter().copied()).peekable();
    for (n, (index, count)) in theirs.iter().enumerate().skip_while(|(_, (i, _))| is_inside(*i, outside)) {
        let more = more.map_or(0.0, |more| more.counts[n]);
        while let Some(((at, own), lost)) = left.next_if(|((at, _), _)| *at < index) {
            merged.push(at, own);
            rest.push(at, lost);
        }
        let (sum, lost) = match left.next_if(|((at, _), _)| *at == index) {
            Some(((_, own), lost)) => {
                let (sum, lost) = kahan_add(count, own, lost);
                if more == 0.0 { (sum, lost) } else { kahan_add(more, sum, lost) }
            }
            None => (count, more),
        };
        merged.push(index, sum);
        rest.push(index, lost);
    }
    left.for_each(|((index, count), lost)| {
        merged.push(index, count);
        rest.push(index, lost);
    });
    (*own, *lost) = (merged, rest);
}

fn coarser_compensated(own: &mut Buckets, lost: &mut Buckets, schema: i32, coarser: i32) {
    let (mut merged, mut rest) = (Buckets::default(), Buckets::default());
    for ((index, count), more) in own.iter().zip(lost.counts.iter().copied()) {
        let index = coarser_index(index, schema, coarser);
        match (merged.indices.last(), merged.counts.last_mut(), rest.counts.last_mut()) {
            (Some(last), Some(sum), Some(lost)) if *last == index => {
                (*sum, *lost) = kahan_add(count, *sum, *lost);
                (*sum, *lost) = kahan_add(more, *sum, *lost);
            }
            _ => {
                merged.push(index, count);
                rest.push(index, more);
            }
        }
    }
    (*own, *lost) = (merged, rest);
}

/// The sum of both histograms in the layout of the custom bounds that both have: counts, compensation
/// and bounds.
fn common_layout(
    own: &FloatHistogram,
    other: &FloatHistogram,
    sign: f64,
    lost: Option<&Buckets>,
) -> (Buckets, Buckets, Arc<[f64]>) {
    let common = intersection(&own.bounds, &other.bounds);
    let mut sums = vec![(0.0, 0.0); common.len() + 1];
    let mut take = |buckets: &Buckets, bounds: &[f64], sign: f64, lost: Option<&Buckets>| {
        let mut target = 0;
        for (n, (index, count)) in buckets.iter().enumerate() {
            match bounds.get(index as usize) {
                Some(bound) => {
                    while common.get(target).is_some_and(|common| common < bound) {
                        target += 1;
                    }
                }
                None => target = common.len(),
            }
            let (sum, rest) = sums[target];
            sums[target] = kahan_add(sign * count, sum, rest);
            if let Some(lost) = lost {
                let (sum, rest) = sums[target];
                sums[target] = kahan_add(lost.counts[n], sum, rest);
            }
        }
    };
    take(&own.positive, &own.bounds, 1.0, lost);
    take(&other.positive, &other.bounds, sign, None);
    let (mut buckets, mut rest) = (Buckets::default(), Buckets::default());
    for (index, (sum, lost)) in (0i32..).zip(sums) {
        if sum != 0.0 || lost != 0.0 {
            buckets.push(index, sum);
            rest.push(index, lost);
        }
    }
    (buckets, rest, common.into())
}
