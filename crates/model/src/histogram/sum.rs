//! The exact sum and the mean of histograms, which do not depend on the order of the histograms.
//!
//! Histograms of one layout (schema, zero threshold and custom bounds) are added bucket by bucket
//! ([`crate::exact`]). The sums of different layouts are converted to one layout when the result is read, in
//! the order of layouts.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::{Buckets, CounterReset, FloatHistogram, HistogramError};
use crate::exact::ExactSum;

/// The buckets of one sign: sorted by index.
#[derive(Clone, Debug, Default)]
struct BucketSums {
    indices: Vec<i32>,
    counts: Vec<ExactSum>,
}

/// What two histograms must have in common to be added bucket by bucket.
#[derive(Clone, Debug)]
struct Layout {
    schema: i32,
    zero_threshold: f64,
    bounds: Arc<[f64]>,
}

/// The sum of the histograms of one layout.
#[derive(Clone, Debug, Default)]
struct LayoutSum {
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
    layouts: BTreeMap<Layout, LayoutSum>,
    count: u64,
    hints: ResetHints,
    /// The bytes of the layouts.
    bytes: u64,
}

impl ResetHints {
    /// Adds the hint of a histogram.
    pub fn see(&mut self, hint: CounterReset) {
        self.0 |= 1 << hint as u8;
    }

    fn has(self, hint: CounterReset) -> bool {
        self.0 >> hint as u8 & 1 == 1
    }

    /// Whether one histogram was marked as a counter reset and another as no reset.
    pub fn collide(self) -> bool {
        self.has(CounterReset::Reset) && self.has(CounterReset::NotReset)
    }

    /// The hint of the sum.
    fn of_sum(self) -> CounterReset {
        match CounterReset::ALL.into_iter().filter(|hint| self.has(*hint)).collect::<Vec<_>>().as_slice() {
            [only] => *only,
            several if several.contains(&CounterReset::Gauge) => CounterReset::Gauge,
            _ => CounterReset::Unknown,
        }
    }
}

/// The bytes of a bucket, and those of a layout without its buckets and bounds.
const BUCKET_BYTES: u64 = (size_of::<i32>() + size_of::<ExactSum>()) as u64;
const LAYOUT_BYTES: u64 = (size_of::<Layout>() + size_of::<LayoutSum>()) as u64 + 32;

/// Adds a term, and to `bytes` what the sum takes more.
fn add(sum: &mut ExactSum, term: f64, bytes: &mut u64) {
    let before = sum.heap_bytes();
    sum.add(term);
    *bytes = *bytes + sum.heap_bytes() - before;
}

/// Adds another sum, and to `bytes` what the sum takes more.
fn merge(sum: &mut ExactSum, other: &ExactSum, bytes: &mut u64) {
    let before = sum.heap_bytes();
    sum.merge(other);
    *bytes = *bytes + sum.heap_bytes() - before;
}

impl BucketSums {
    fn add(&mut self, buckets: &Buckets, bytes: &mut u64) {
        self.cover(&buckets.indices, bytes);
        let mut at = 0;
        for (index, count) in buckets.iter() {
            at += self.indices[at..].partition_point(|own| *own < index);
            add(&mut self.counts[at], count, bytes);
        }
    }

    /// Inserts the buckets that are missing.
    fn cover(&mut self, indices: &[i32], bytes: &mut u64) {
        if self.indices == indices {
            return;
        }
        let missing: Vec<i32> =
            indices.iter().copied().filter(|index| self.indices.binary_search(index).is_err()).collect();
        if missing.is_empty() {
            return;
        }
        *bytes += missing.len() as u64 * BUCKET_BYTES;
        let own = std::mem::take(&mut self.indices).into_iter().zip(std::mem::take(&mut self.counts));
        let mut all: Vec<(i32, ExactSum)> =
            own.chain(missing.into_iter().map(|index| (index, ExactSum::default()))).collect();
        all.sort_by_key(|(index, _)| *index);
        (self.indices, self.counts) = all.into_iter().unzip();
    }

    fn merge(&mut self, other: &Self, bytes: &mut u64) {
        self.cover(&other.indices, bytes);
        let mut at = 0;
        for (index, sum) in other.indices.iter().zip(&other.counts) {
            at += self.indices[at..].partition_point(|own| own < index);
            merge(&mut self.counts[at], sum, bytes);
        }
    }

    fn read(&self, number: impl Fn(&ExactSum) -> f64) -> Buckets {
        Buckets { indices: self.indices.clone(), counts: self.counts.iter().map(number).collect() }
    }
}

impl Layout {
    fn of(histogram: &FloatHistogram) -> Self {
        let FloatHistogram { schema, zero_threshold, bounds, .. } = histogram;
        Self { schema: *schema, zero_threshold: *zero_threshold, bounds: Arc::clone(bounds) }
    }

    fn is_custom(&self) -> bool {
        self.schema == super::CUSTOM_SCHEMA
    }
}

impl Ord for Layout {
    fn cmp(&self, other: &Self) -> Ordering {
        let of_bounds = || {
            let pairs = self.bounds.iter().zip(&*other.bounds);
            let first = pairs.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| self.bounds.len().cmp(&other.bounds.len()))
        };
        let of_threshold = || self.zero_threshold.total_cmp(&other.zero_threshold);
        self.schema.cmp(&other.schema).then_with(of_threshold).then_with(of_bounds)
    }
}

impl PartialOrd for Layout {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Layout {}

impl LayoutSum {
    fn sums(&self) -> impl Iterator<Item = &ExactSum> {
        let own = [&self.zero_count, &self.count, &self.sum];
        own.into_iter().chain(&self.positive.counts).chain(&self.negative.counts)
    }

    fn read(&self, layout: &Layout, number: impl Fn(&ExactSum) -> f64) -> FloatHistogram {
        FloatHistogram {
            reset: CounterReset::Unknown,
            schema: layout.schema,
            zero_threshold: layout.zero_threshold,
            zero_count: number(&self.zero_count),
            count: number(&self.count),
            sum: number(&self.sum),
            positive: self.positive.read(&number),
            negative: self.negative.read(&number),
            bounds: Arc::clone(&layout.bounds),
        }
    }
}

impl HistogramSum {
    /// Adds a histogram. Fails if some histograms are exponential and others have custom bounds.
    pub fn add(&mut self, histogram: &FloatHistogram) -> Result<(), HistogramError> {
        let (own, bytes) = self.of_layout(Layout::of(histogram))?;
        add(&mut own.zero_count, histogram.zero_count, bytes);
        add(&mut own.count, histogram.count, bytes);
        add(&mut own.sum, histogram.sum, bytes);
        own.positive.add(&histogram.positive, bytes);
        own.negative.add(&histogram.negative, bytes);
        self.count += 1;
        self.hints.see(histogram.reset);
        Ok(())
    }

    /// The sum of a layout, which is created if it is new, and the bytes of all layouts.
    fn of_layout(&mut self, layout: Layout) -> Result<(&mut LayoutSum, &mut u64), HistogramError> {
        if self.layouts.keys().next().is_some_and(|first| first.is_custom() != layout.is_custom()) {
            return Err(HistogramError::Incompatible);
        }
        let bounds = size_of_val(&*layout.bounds) as u64;
        let own = match self.layouts.entry(layout) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.bytes += LAYOUT_BYTES + bounds;
                new.insert(LayoutSum::default())
            }
        };
        Ok((own, &mut self.bytes))
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) -> Result<(), HistogramError> {
        for (layout, theirs) in &other.layouts {
            let (own, bytes) = self.of_layout(layout.clone())?;
            merge(&mut own.zero_count, &theirs.zero_count, bytes);
            merge(&mut own.count, &theirs.count, bytes);
            merge(&mut own.sum, &theirs.sum, bytes);
            own.positive.merge(&theirs.positive, bytes);
            own.negative.merge(&theirs.negative, bytes);
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
        self.layouts.len() > 1 && self.layouts.keys().next().is_some_and(Layout::is_custom)
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
        let mut layouts = self.layouts.iter().map(|(layout, sum)| sum.read(layout, &number));
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
        self.layouts.iter().map(|(layout, of)| LayoutParts {
            schema: layout.schema,
            zero_threshold: layout.zero_threshold,
            bounds: Arc::clone(&layout.bounds),
            positive: of.positive.indices.clone(),
            negative: of.negative.indices.clone(),
            sums: of.sums().cloned().collect(),
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
            let of_buckets = (positive.len() + negative.len()) as u64 * BUCKET_BYTES;
            let of_wide: u64 = sums.iter().map(ExactSum::heap_bytes).sum();
            let layout = Layout { schema, zero_threshold, bounds };
            if sum.layouts.contains_key(&layout) {
                return None;
            }
            let (own, bytes) = sum.of_layout(layout).ok()?;
            *bytes += of_buckets + of_wide;
            let mut sums = sums.into_iter();
            for own in [&mut own.zero_count, &mut own.count, &mut own.sum] {
                *own = sums.next()?;
            }
            let counts = sums.by_ref().take(positive.len()).collect();
            own.positive = BucketSums { indices: positive, counts };
            own.negative = BucketSums { indices: negative, counts: sums.collect() };
        }
        (hints < 1 << CounterReset::ALL.len()).then_some(sum)
    }

    /// The bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.bytes
    }
}
