//! Iterates over buckets with their bounds, in the order of values.

use super::bounds::EIGHTH;
use super::{Buckets, CUSTOM_SCHEMA, FloatHistogram};

/// A bucket with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Lower bound of the values.
    pub lower: f64,
    /// Upper bound of the values.
    pub upper: f64,
    /// Whether the lower bound is inclusive.
    pub lower_inclusive: bool,
    /// Whether the upper bound is inclusive.
    pub upper_inclusive: bool,
    /// Number of observations.
    pub count: f64,
}

impl Bucket {
    /// The fraction (0 to 1) of the bucket that is below `value`, interpolated linearly or
    /// logarithmically. `value` is strictly between the bounds, which are finite.
    pub fn fraction_below(&self, value: f64, linear: bool) -> f64 {
        if linear {
            return (value - self.lower) / (self.upper - self.lower);
        }
        let [lower, upper, at] = [self.lower, self.upper, value].map(|bound| bound.abs().log2());
        if value > 0.0 { (at - lower) / (upper - lower) } else { 1.0 - ((at - upper) / (lower - upper)) }
    }
}

/// The upper bound of the exponential bucket `index` of a schema.
pub fn exponential_bound(index: i32, schema: i32) -> f64 {
    if schema < 0 {
        let exponent = i64::from(index) << -schema;
        // The last bucket before infinity ends at the largest number.
        return if exponent == 1024 { f64::MAX } else { power_of_two(1.0, exponent) };
    }
    let within = (index & ((1 << schema) - 1)) as usize;
    let fraction = EIGHTH[(within << (8 - schema)) & 255];
    let exponent = i64::from(index >> schema) + 1;
    if fraction == 0.5 && exponent == 1025 {
        return f64::MAX;
    }
    power_of_two(fraction, exponent)
}

/// `fraction` times two to the power of `exponent`, with a single rounding.
fn power_of_two(fraction: f64, exponent: i64) -> f64 {
    let normal = |exponent: i64| f64::from_bits(((exponent + 1023) as u64) << 52);
    match exponent {
        ..-1200 => 0.0,
        // Multiplying by a normal power of two is exact, so only the last product rounds.
        -1200..-1000 => fraction * normal(-500) * normal(exponent + 500),
        -1000..=1023 => fraction * normal(exponent),
        1024..=1100 => fraction * normal(1000) * normal(exponent - 1000),
        _ => f64::INFINITY,
    }
}

impl FloatHistogram {
    fn bound(&self, index: i32) -> f64 {
        if self.schema != CUSTOM_SCHEMA {
            return exponential_bound(index, self.schema);
        }
        match usize::try_from(index) {
            Err(_) => f64::NEG_INFINITY,
            Ok(index) => self.bounds.get(index).copied().unwrap_or(f64::INFINITY),
        }
    }

    fn positive_bucket(&self, (index, count): (i32, f64)) -> Bucket {
        let (lower, upper) = (self.bound(index - 1), self.bound(index));
        let (lower_inclusive, upper_inclusive) =
            if self.is_custom() { (index == 0, true) } else { (lower < 0.0, upper > 0.0) };
        Bucket { lower, upper, lower_inclusive, upper_inclusive, count }
    }

    fn negative_bucket(&self, (index, count): (i32, f64)) -> Bucket {
        let (lower, upper) = (-self.bound(index), -self.bound(index - 1));
        Bucket { lower, upper, lower_inclusive: lower < 0.0, upper_inclusive: upper > 0.0, count }
    }

    /// Buckets above zero, by rising distance from zero.
    pub fn positive_buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        self.positive.iter().map(|pair| self.positive_bucket(pair))
    }

    /// Buckets below zero, by rising distance from zero.
    pub fn negative_buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        self.negative.iter().map(|pair| self.negative_bucket(pair))
    }

    /// The zero bucket.
    pub fn zero_bucket(&self) -> Bucket {
        let (upper, count) = (self.zero_threshold, self.zero_count);
        Bucket { lower: -upper, upper, lower_inclusive: true, upper_inclusive: true, count }
    }

    /// All buckets by rising value. A bucket that overlaps the zero bucket is clipped at the threshold.
    pub fn all_buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        let zero = (self.zero_count > 0.0).then(|| self.zero_bucket());
        let clip = move |mut bucket: Bucket| {
            let threshold = self.zero_threshold;
            if bucket.upper < 0.0 && bucket.upper > -threshold {
                bucket.upper = -threshold;
            } else if bucket.lower > 0.0 && bucket.lower < threshold {
                bucket.lower = threshold;
            }
            bucket
        };
        let negative = self.negative_buckets().rev().map(clip);
        negative.chain(zero).chain(self.positive_buckets().map(clip))
    }
}

/// The index of a bucket in a coarser schema. If the schemas differ by 31 or more, all buckets above
/// one have the same index, and so have all others.
pub fn coarser_index(index: i32, schema: i32, coarser: i32) -> i32 {
    let apart = schema.saturating_sub(coarser).clamp(0, 31);
    (index.wrapping_sub(1) >> apart).wrapping_add(1)
}

impl Buckets {
    /// The buckets merged to a coarser schema.
    pub fn coarser(&self, schema: i32, coarser: i32) -> Self {
        let mut merged = Self::default();
        for (index, count) in self.iter() {
            let index = coarser_index(index, schema, coarser);
            match (merged.indices.last(), merged.counts.last_mut()) {
                (Some(last), Some(sum)) if *last == index => *sum += count,
                _ => merged.push(index, count),
            }
        }
        merged
    }
}
