//! The exact sum and the mean of histograms, which do not depend on the order of the histograms.
//!
//! Histograms of one layout (schema, zero threshold and custom bounds) are added bucket by bucket
//! ([`crate::exact`]). The sums of different layouts are converted to one layout when the result is read, in
//! the order of layouts.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Buckets, CounterReset, FloatHistogram, HistogramError};
use crate::exact::ExactSum;

/// The buckets of one sign: sorted by index.
#[derive(Clone, Debug, Default)]
struct BucketSums {
    indices: Vec<i32>,
    counts: Vec<ExactSum>,
}

/// The sum of the histograms of one layout.
#[derive(Clone, Debug)]
struct LayoutSum {
    schema: i32,
    zero_threshold: f64,
    bounds: Arc<[f64]>,
    zero_count: ExactSum,
    count: ExactSum,
    sum: ExactSum,
    positive: BucketSums,
    negative: BucketSums,
}

/// The reset hints of the added histograms, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResetHints(u8);

/// The sum of the histograms of one layout, for another process.
#[derive(Clone, Debug)]
pub struct LayoutParts {
    /// The schema.
    pub schema: i32,
    /// The width of the zero bucket.
    pub zero_threshold: f64,
    /// The custom bounds.
    pub bounds: Arc<[f64]>,
    /// The indices of positive buckets.
    pub positive: Vec<i32>,
    /// The indices of negative buckets.
    pub negative: Vec<i32>,
    /// The zero count, the count, the sum of observations, then the counts of positive and negative buckets.
    pub sums: Vec<ExactSum>,
}

/// The exact sum of histograms.
#[derive(Clone, Debug, Default)]
pub struct HistogramSum {
    /// Sorted by layout.
    layouts: Vec<LayoutSum>,
    count: u64,
    hints: ResetHints,
}

impl ResetHints {
    const ALL: [CounterReset; 4] =
        [CounterReset::Unknown, CounterReset::Reset, CounterReset::NotReset, CounterReset::Gauge];

    /// Adds the hint of a histogram.
    pub fn see(&mut self, hint: CounterReset) {
        let place = Self::ALL.iter().position(|one| *one == hint).unwrap_or_default();
        self.0 |= 1 << place;
    }

    fn has(self, hint: CounterReset) -> bool {
        Self::ALL.iter().zip(0..).any(|(one, place)| *one == hint && self.0 >> place & 1 == 1)
    }

    /// Whether one histogram was marked as a counter reset and another as no reset.
    pub fn collide(self) -> bool {
        self.has(CounterReset::Reset) && self.has(CounterReset::NotReset)
    }

    /// The hint of the sum.
    fn of_sum(self) -> CounterReset {
        match Self::ALL.into_iter().filter(|hint| self.has(*hint)).collect::<Vec<_>>().as_slice() {
            [only] => *only,
            several if several.contains(&CounterReset::Gauge) => CounterReset::Gauge,
            _ => CounterReset::Unknown,
        }
    }
}

impl BucketSums {
    fn add(&mut self, buckets: &Buckets) {
        if self.indices != buckets.indices {
            self.cover(&buckets.indices);
        }
        let mut at = 0;
        for (index, count) in buckets.iter() {
            at += self.indices[at..].partition_point(|own| *own < index);
            self.counts[at].add(count);
        }
    }

    /// Inserts the buckets that are missing.
    fn cover(&mut self, indices: &[i32]) {
        let missing: Vec<i32> =
            indices.iter().copied().filter(|index| self.indices.binary_search(index).is_err()).collect();
        if missing.is_empty() {
            return;
        }
        let own = std::mem::take(&mut self.indices).into_iter().zip(std::mem::take(&mut self.counts));
        let mut all: Vec<(i32, ExactSum)> =
            own.chain(missing.into_iter().map(|index| (index, ExactSum::default()))).collect();
        all.sort_by_key(|(index, _)| *index);
        (self.indices, self.counts) = all.into_iter().unzip();
    }

    fn merge(&mut self, other: &Self) {
        self.cover(&other.indices);
        let mut at = 0;
        for (index, sum) in other.indices.iter().zip(&other.counts) {
            at += self.indices[at..].partition_point(|own| own < index);
            self.counts[at].merge(sum);
        }
    }

    fn read(&self, number: impl Fn(&ExactSum) -> f64) -> Buckets {
        Buckets { indices: self.indices.clone(), counts: self.counts.iter().map(number).collect() }
    }
}

impl LayoutSum {
    fn of(histogram: &FloatHistogram) -> Self {
        Self {
            schema: histogram.schema,
            zero_threshold: histogram.zero_threshold,
            bounds: Arc::clone(&histogram.bounds),
            zero_count: ExactSum::default(),
            count: ExactSum::default(),
            sum: ExactSum::default(),
            positive: BucketSums::default(),
            negative: BucketSums::default(),
        }
    }

    fn compare(&self, (schema, zero_threshold, bounds): (i32, f64, &[f64])) -> Ordering {
        let of_bounds = || {
            let pairs = self.bounds.iter().zip(bounds);
            let first = pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| self.bounds.len().cmp(&bounds.len()))
        };
        let of_threshold = || self.zero_threshold.total_cmp(&zero_threshold);
        self.schema.cmp(&schema).then_with(of_threshold).then_with(of_bounds)
    }

    fn sums(&self) -> impl Iterator<Item = &ExactSum> {
        let own = [&self.zero_count, &self.count, &self.sum];
        own.into_iter().chain(&self.positive.counts).chain(&self.negative.counts)
    }

    fn read(&self, number: impl Fn(&ExactSum) -> f64) -> FloatHistogram {
        FloatHistogram {
            reset: CounterReset::Unknown,
            schema: self.schema,
            zero_threshold: self.zero_threshold,
            zero_count: number(&self.zero_count),
            count: number(&self.count),
            sum: number(&self.sum),
            positive: self.positive.read(&number),
            negative: self.negative.read(&number),
            bounds: Arc::clone(&self.bounds),
        }
    }
}

impl HistogramSum {
    /// Adds a histogram. Fails if some histograms are exponential and others have custom bounds.
    pub fn add(&mut self, histogram: &FloatHistogram) -> Result<(), HistogramError> {
        let layout = self.layout(histogram)?;
        layout.zero_count.add(histogram.zero_count);
        layout.count.add(histogram.count);
        layout.sum.add(histogram.sum);
        layout.positive.add(&histogram.positive);
        layout.negative.add(&histogram.negative);
        self.count += 1;
        self.hints.see(histogram.reset);
        Ok(())
    }

    /// The sum of the layout of a histogram, which is created if it is new.
    fn layout(&mut self, like: &FloatHistogram) -> Result<&mut LayoutSum, HistogramError> {
        let is_custom = |schema| schema == super::CUSTOM_SCHEMA;
        if self.layouts.first().is_some_and(|first| is_custom(first.schema) != like.is_custom()) {
            return Err(HistogramError::Incompatible);
        }
        let key = (like.schema, like.zero_threshold, &*like.bounds);
        let place = match self.layouts.binary_search_by(|own| own.compare(key)) {
            Ok(place) => place,
            Err(place) => {
                self.layouts.insert(place, LayoutSum::of(like));
                place
            }
        };
        Ok(&mut self.layouts[place])
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) -> Result<(), HistogramError> {
        for theirs in &other.layouts {
            let like = FloatHistogram {
                schema: theirs.schema,
                zero_threshold: theirs.zero_threshold,
                bounds: Arc::clone(&theirs.bounds),
                ..FloatHistogram::default()
            };
            let own = self.layout(&like)?;
            own.zero_count.merge(&theirs.zero_count);
            own.count.merge(&theirs.count);
            own.sum.merge(&theirs.sum);
            own.positive.merge(&theirs.positive);
            own.negative.merge(&theirs.negative);
        }
        self.count += other.count;
        self.hints.0 |= other.hints.0;
        Ok(())
    }

    /// The reset hints of the added histograms.
    pub fn hints(&self) -> ResetHints {
        self.hints
    }

    /// Whether the histograms have custom bounds that differ; the result has those that all had.
    pub fn bounds_differ(&self) -> bool {
        self.layouts.len() > 1 && self.layouts[0].schema == super::CUSTOM_SCHEMA
    }

    /// The sum; `None` if nothing was added.
    pub fn sum(&self) -> Option<FloatHistogram> {
        self.joined(ExactSum::value)
    }

    /// The mean; `None` if nothing was added. It is finite even if the sum is too large for floats.
    pub fn mean(&self) -> Option<FloatHistogram> {
        let count = self.count as f64;
        let sum = self.sum()?;
        if self.layouts.len() == 1 || sum.has_overflow() {
            return self.joined(|number| number.mean(count));
        }
        let mut mean = sum;
        mean.divide(count);
        Some(mean)
    }

    /// The numbers of all layouts, read by `number` and converted to one layout.
    fn joined(&self, number: impl Fn(&ExactSum) -> f64) -> Option<FloatHistogram> {
        let mut layouts = self.layouts.iter().map(|layout| layout.read(&number));
        let mut joined = layouts.next()?;
        for next in layouts {
            // All are exponential, or all have custom bounds, so they can be added.
            joined.add(&next).ok()?;
        }
        joined.reset = self.hints.of_sum();
        Some(joined)
    }

    /// The number of histograms and their reset hints as bits, for another process.
    pub fn count_and_hints(&self) -> (u64, u8) {
        (self.count, self.hints.0)
    }

    /// The sums of each layout, for another process.
    pub fn layouts(&self) -> impl Iterator<Item = LayoutParts> {
        self.layouts.iter().map(|layout| LayoutParts {
            schema: layout.schema,
            zero_threshold: layout.zero_threshold,
            bounds: Arc::clone(&layout.bounds),
            positive: layout.positive.indices.clone(),
            negative: layout.negative.indices.clone(),
            sums: layout.sums().cloned().collect(),
        })
    }

    /// The sum with these parts; `None` if they are the parts of no sum.
    pub fn from_layouts((count, hints): (u64, u8), layouts: Vec<LayoutParts>) -> Option<Self> {
        let mut sum = Self { count, hints: ResetHints(hints), ..Self::default() };
        let rises = |indices: &[i32]| indices.is_sorted_by(|a, b| a < b);
        for LayoutParts { schema, zero_threshold, bounds, positive, negative, sums } in layouts {
            let of_sums = 3 + positive.len() + negative.len();
            let is_schema =
                schema == super::CUSTOM_SCHEMA || (super::SCHEMA_MIN..=super::SCHEMA_MAX).contains(&schema);
            if sums.len() != of_sums || !is_schema || !rises(&positive) || !rises(&negative) {
                return None;
            }
            let like = FloatHistogram { schema, zero_threshold, bounds, ..FloatHistogram::default() };
            let layout = sum.layout(&like).ok()?;
            let mut sums = sums.into_iter();
            for own in [&mut layout.zero_count, &mut layout.count, &mut layout.sum] {
                *own = sums.next()?;
            }
            let counts = sums.by_ref().take(positive.len()).collect();
            layout.positive = BucketSums { indices: positive, counts };
            layout.negative = BucketSums { indices: negative, counts: sums.collect() };
        }
        (hints < 1 << ResetHints::ALL.len()).then_some(sum)
    }

    /// The bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        let of_layout = |layout: &LayoutSum| {
            let buckets = layout.positive.indices.capacity() + layout.negative.indices.capacity();
            let each = size_of::<i32>() + size_of::<ExactSum>();
            let wide: u64 = layout.sums().map(ExactSum::heap_bytes).sum();
            (size_of::<LayoutSum>() + buckets * each + layout.bounds.len() * size_of::<f64>()) as u64 + wide
        };
        size_of::<Self>() as u64 + self.layouts.iter().map(of_layout).sum::<u64>()
    }
}
