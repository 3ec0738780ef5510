//! Native histograms with float counts: exponential buckets (schemas -4 to 8) or custom bounds (schema
//! -53).
//!
//! Buckets are stored as sorted pairs of index and count, so that every operation on two histograms
//! merges two sorted lists. Wire formats and files use spans; [`Buckets::from_spans`] and
//! [`Buckets::spans`] convert. The arithmetic, including the order of additions, is that of Prometheus.
//! Only sums and means of many histograms ([`HistogramSum`]) are more exact, so that they do not depend on
//! the order of the histograms.

mod arithmetic;
mod bounds;
mod detect;
mod integer;
mod iterate;
mod kahan;
mod show;
mod sum;
mod trim;

use std::sync::Arc;

pub use arithmetic::Added;
pub use integer::IntegerHistogram;
pub use iterate::{Bucket, exponential_bound};
pub use kahan::kahan_add;
pub use show::GoNumber;
pub use sum::{HistogramSum, LayoutParts, ResetHints};
pub use trim::Trim;

/// The schema of histograms with custom bounds.
pub const CUSTOM_SCHEMA: i32 = -53;
/// The coarsest exponential schema.
pub const SCHEMA_MIN: i32 = -4;
/// The finest exponential schema.
pub const SCHEMA_MAX: i32 = 8;

/// What is known about a counter reset between a histogram and the sample before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CounterReset {
    /// Not known; detection must compare the samples.
    #[default]
    Unknown,
    /// The counter was reset.
    Reset,
    /// The counter was not reset.
    NotReset,
    /// A gauge, which has no resets.
    Gauge,
}

impl CounterReset {
    /// All values, by their numbers in stored and in sent histograms.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Reset, Self::NotReset, Self::Gauge];
}

/// A run of adjacent buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// For the first span, the index of its first bucket; for others, the gap to the previous span.
    pub offset: i32,
    /// Number of buckets.
    pub length: u32,
}

/// Populated buckets of one sign. **Invariant:** both lists have the same length, and indices rise
/// strictly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Index of each bucket within the schema.
    pub indices: Vec<i32>,
    /// Number of observations in each bucket.
    pub counts: Vec<f64>,
}

/// Why a histogram is not valid, or why two cannot be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// The spans describe more or fewer buckets than there are counts.
    #[error("histogram spans specify different number of buckets than provided")]
    SpansMismatch,
    /// The offset of a span other than the first is negative.
    #[error("histogram has a span whose offset is negative")]
    NegativeOffset,
    /// A count is negative.
    #[error("histogram has a bucket whose observation count is negative")]
    NegativeCount,
    /// Custom bounds do not rise strictly, or are not finite.
    #[error("histogram custom bounds must be finite and in strictly increasing order")]
    CustomBounds,
    /// There are more buckets than custom bounds permit.
    #[error("histogram custom bounds are too few")]
    TooFewBounds,
    /// The schema is neither exponential nor custom.
    #[error(
        "histogram has an invalid schema, which must be between -4 and 8 for exponential buckets, or -53 \
         for custom buckets, got schema {0}"
    )]
    Schema(i32),
    /// The histogram has parts that its schema does not permit.
    #[error("histogram with custom buckets must not have zero or negative buckets")]
    CustomParts,
    /// One histogram is exponential and the other has custom bounds.
    #[error("cannot apply this operation on histograms with a mix of exponential and custom bucket schemas")]
    Incompatible,
}

impl Buckets {
    /// Buckets from spans and absolute counts.
    pub fn from_spans(spans: &[Span], counts: Vec<f64>) -> Result<Self, HistogramError> {
        let total: u64 = spans.iter().map(|span| u64::from(span.length)).sum();
        if total != counts.len() as u64 {
            return Err(HistogramError::SpansMismatch);
        }
        let mut indices = Vec::with_capacity(counts.len());
        let mut next = 0i32;
        for (n, span) in spans.iter().enumerate() {
            if n > 0 && span.offset < 0 {
                return Err(HistogramError::NegativeOffset);
            }
            let first = next.checked_add(span.offset).ok_or(HistogramError::SpansMismatch)?;
            let end = i32::try_from(span.length).ok().and_then(|length| first.checked_add(length));
            next = end.ok_or(HistogramError::SpansMismatch)?;
            indices.extend(first..next);
        }
        Ok(Self { indices, counts })
    }

    /// The buckets as spans.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut next = 0;
        for &index in &self.indices {
            match spans.last_mut() {
                Some(last) if index == next => last.length += 1,
                _ => spans.push(Span { offset: index - next, length: 1 }),
            }
            next = index + 1;
        }
        spans
    }

    /// The number of buckets, including empty ones.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Index and count of each bucket, by rising index.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (i32, f64)> + ExactSizeIterator {
        self.indices.iter().copied().zip(self.counts.iter().copied())
    }

    fn push(&mut self, index: i32, count: f64) {
        self.indices.push(index);
        self.counts.push(count);
    }

    fn drop_empty(&mut self) {
        if self.counts.contains(&0.0) {
            let (indices, counts) = self.iter().filter(|(_, count)| *count != 0.0).unzip();
            *self = Self { indices, counts };
        }
    }

    fn bits_equal(&self, other: &Self) -> bool {
        let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
        self.indices == other.indices && self.counts.iter().zip(&other.counts).all(same)
    }
}

/// A native histogram with float counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FloatHistogram {
    /// What is known about a counter reset before this histogram.
    pub reset: CounterReset,
    /// Exponential: each power of two has `2^schema` buckets. Otherwise [`CUSTOM_SCHEMA`].
    pub schema: i32,
    /// The zero bucket contains values from `-zero_threshold` to `zero_threshold`.
    pub zero_threshold: f64,
    /// Number of observations in the zero bucket.
    pub zero_count: f64,
    /// Number of all observations.
    pub count: f64,
    /// Sum of all observed values; a stale marker has the stale bits here.
    pub sum: f64,
    /// Buckets above zero; with custom bounds, all buckets.
    pub positive: Buckets,
    /// Buckets below zero.
    pub negative: Buckets,
    /// Upper bounds of the custom buckets without the last one, which is infinite; empty for exponential
    /// buckets.
    pub bounds: Arc<[f64]>,
}

impl FloatHistogram {
    /// Whether the histogram has custom bounds.
    pub fn is_custom(&self) -> bool {
        self.schema == CUSTOM_SCHEMA
    }

    /// Removes empty buckets.
    pub fn compact(&mut self) -> &mut Self {
        self.positive.drop_empty();
        self.negative.drop_empty();
        self
    }

    /// Whether both contain the same data bit for bit, ignoring reset hints.
    pub fn same_data(&self, other: &Self) -> bool {
        let bits = |h: &Self| [h.count, h.sum, h.zero_count].map(f64::to_bits);
        self.schema == other.schema
            && bits(self) == bits(other)
            && self.zero_threshold == other.zero_threshold
            && (!self.is_custom() || self.bounds == other.bounds)
            && self.negative.bits_equal(&other.negative)
            && self.positive.bits_equal(&other.positive)
    }

    /// Bytes of memory that the histogram uses.
    pub fn memory_bytes(&self) -> u64 {
        let buckets = self.positive.len() + self.negative.len();
        (size_of::<Self>() + 12 * buckets) as u64
    }

    /// Fails when the parts of the histogram do not fit each other.
    pub fn validate(&self) -> Result<(), HistogramError> {
        if self.is_custom() {
            let rises = self.bounds.windows(2).all(|pair| pair[0] < pair[1]);
            if !rises || self.bounds.iter().any(|bound| bound.is_nan() || *bound == f64::INFINITY) {
                return Err(HistogramError::CustomBounds);
            }
            if self.positive.indices.first().is_some_and(|index| *index < 0) {
                return Err(HistogramError::NegativeOffset);
            }
            if self.positive.indices.last().is_some_and(|last| *last as usize > self.bounds.len()) {
                return Err(HistogramError::TooFewBounds);
            }
            if self.zero_count != 0.0 || self.zero_threshold != 0.0 || !self.negative.is_empty() {
                return Err(HistogramError::CustomParts);
            }
        } else if !(SCHEMA_MIN..=SCHEMA_MAX).contains(&self.schema) {
            return Err(HistogramError::Schema(self.schema));
        } else if !self.bounds.is_empty() {
            return Err(HistogramError::CustomParts);
        }
        // Without an early end, so that several counts are compared at a time.
        let has_negative = |counts: &[f64]| counts.iter().fold(false, |any, count| any | (*count < 0.0));
        let lists = [&self.positive.counts[..], &self.negative.counts, &[self.zero_count, self.count]];
        match lists.into_iter().any(has_negative) {
            true => Err(HistogramError::NegativeCount),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
