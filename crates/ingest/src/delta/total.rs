//! The total of the points of a series.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::{CounterReset, SCHEMA_MIN};

/// Most buckets of a total on each side of zero: the default of OpenTelemetry's SDKs.
const SIDE_BUCKETS_MAX: usize = 160;
/// Observations from which a count in an `f64` loses increments of one: a new total starts.
const COUNT_MAX: f64 = (1u64 << 53) as f64;

/// The sum of all points of a series.
#[derive(Clone, Debug)]
pub(super) enum Total {
    Number(Sum),
    Native(Arc<FloatHistogram>),
}

/// A point of delta temporality.
pub(super) enum Difference<'p> {
    Number(f64),
    Native(&'p Arc<FloatHistogram>),
}

/// A histogram has too many buckets even in the coarsest schema.
pub(super) struct TooManyBuckets;

/// A sum of numbers with its rounding error: integers stay exact up to 2^106.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    sum: f64,
    rest: f64,
}

impl Sum {
    pub(super) fn of(value: f64) -> Self {
        Self { sum: value, rest: 0.0 }
    }

    pub(super) fn value(self) -> f64 {
        self.sum
    }

    fn plus(self, value: f64) -> Self {
        let sum = self.sum + value;
        if !sum.is_finite() {
            return Self { sum, rest: 0.0 };
        }
        let shown = sum - self.sum;
        let lost = (self.sum - (sum - shown)) + (value - shown);
        let rest = self.rest + lost;
        let settled = sum + rest;
        Self { sum: settled, rest: rest - (settled - sum) }
    }
}

impl Total {
    /// Returns the total of one point.
    pub(super) fn of(point: &Difference<'_>, buckets_max: u64) -> Result<Self, TooManyBuckets> {
        match point {
            Difference::Number(value) => Ok(Self::Number(Sum::of(*value))),
            Difference::Native(histogram) => Ok(Self::Native(within(Arc::clone(histogram), buckets_max)?)),
        }
    }

    /// Returns the total with one more point; `None` when they cannot be added.
    pub(super) fn plus(
        &self,
        point: &Difference<'_>,
        buckets_max: u64,
    ) -> Result<Option<Self>, TooManyBuckets> {
        match (self, point) {
            (Self::Number(sum), Difference::Number(value)) => Ok(Some(Self::Number(sum.plus(*value)))),
            (Self::Native(total), Difference::Native(histogram)) if can_add(total, histogram) => {
                let mut sum = FloatHistogram::clone(total);
                match sum.add(histogram) {
                    Ok(_) => Ok(Some(Self::Native(within(Arc::new(sum), buckets_max)?))),
                    Err(_) => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    /// Bytes on the heap.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Self::Number(_) => 0,
            Self::Native(histogram) => {
                histogram.memory_bytes() + size_of_val::<[f64]>(&histogram.bounds) as u64
            }
        }
    }
}

fn can_add(total: &FloatHistogram, point: &FloatHistogram) -> bool {
    total.is_custom() == point.is_custom()
        && total.bounds == point.bounds
        && total.count + point.count < COUNT_MAX
}

/// Returns the histogram in the finest schema in which it has no more buckets than allowed. Custom
/// buckets are not changed: a sum has only the bounds that its points have in common.
fn within(histogram: Arc<FloatHistogram>, buckets_max: u64) -> Result<Arc<FloatHistogram>, TooManyBuckets> {
    let fits = |histogram: &FloatHistogram| {
        let (positive, negative) = (histogram.positive.len(), histogram.negative.len());
        (histogram.is_custom() || positive.max(negative) <= SIDE_BUCKETS_MAX)
            && (buckets_max == 0 || (positive + negative) as u64 <= buckets_max)
    };
    if fits(&histogram) {
        return Ok(histogram);
    }
    let schemas = if histogram.is_custom() { 0..0 } else { SCHEMA_MIN..histogram.schema };
    let mut coarse = FloatHistogram::clone(&histogram);
    for schema in schemas.rev() {
        coarse = coarse.to_schema(schema);
        if fits(&coarse) {
            coarse.reset = CounterReset::Unknown;
            return Ok(Arc::new(coarse));
        }
    }
    Err(TooManyBuckets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA};

    use super::*;

    fn exponential(schema: i32, indices: impl IntoIterator<Item = i32>) -> Arc<FloatHistogram> {
        let indices: Vec<i32> = indices.into_iter().collect();
        let counts = vec![1.0; indices.len()];
        let count = counts.len() as f64;
        let positive = Buckets { indices, counts };
        Arc::new(FloatHistogram { schema, count, sum: count, positive, ..FloatHistogram::default() })
    }

    fn sum(points: &[Arc<FloatHistogram>], buckets_max: u64) -> Option<Arc<FloatHistogram>> {
        let mut total = Total::of(&Difference::Native(&points[0]), buckets_max).ok()?;
        for point in &points[1..] {
            total = total.plus(&Difference::Native(point), buckets_max).ok()??;
        }
        let Total::Native(histogram) = total else { panic!("points are histograms") };
        Some(histogram)
    }

    proptest! {
        #[test]
        fn whole_numbers_add_up_exactly(values in prop::collection::vec(any::<i64>(), 1..200)) {
            let total = values.iter().fold(Sum::of(0.0), |sum, value| sum.plus(*value as f64));
            // A number that is sent has a value as `f64`; the sum of these values is exact.
            let exact: i128 = values.iter().map(|value| (*value as f64) as i128).sum();
            prop_assert_eq!(total.value(), exact as f64);
        }
    }

    #[test]
    fn a_large_sum_does_not_lose_increments_of_one() {
        let large = (1u64 << 60) as f64;
        let total = (0..1_000).fold(Sum::of(large), |sum, _| sum.plus(1.0));
        assert_eq!(total.value(), ((1u64 << 60) + 1_000) as f64);
        assert!(Sum::of(f64::MAX).plus(f64::MAX).value().is_infinite());
        assert!(Sum::of(f64::INFINITY).plus(1.0).value().is_infinite());
    }

    #[test]
    fn histograms_of_two_scales_add_up_in_the_coarser_one() {
        let total = sum(&[exponential(3, [1, 2, 3, 17]), exponential(1, [1, 5])], 0).unwrap();
        assert_eq!((total.schema, total.count), (1, 6.0));
        assert_eq!((&total.positive.indices[..], &total.positive.counts[..]), (&[1, 5][..], &[4.0, 2.0][..]));
        let finer = sum(&[exponential(1, [1]), exponential(3, [1, 2])], 0).unwrap();
        assert_eq!((finer.schema, &finer.positive.counts[..]), (1, &[3.0][..]));
    }

    #[test]
    fn the_total_has_the_widest_zero_bucket_of_its_points() {
        let mut wide = FloatHistogram::clone(&exponential(0, [5]));
        (wide.zero_threshold, wide.zero_count, wide.count) = (2.0, 3.0, 4.0);
        let total = sum(&[exponential(0, [0, 1, 5]), Arc::new(wide)], 0).unwrap();
        assert_eq!((total.zero_threshold, total.zero_count, total.count), (2.0, 5.0, 7.0));
        assert_eq!((&total.positive.indices[..], &total.positive.counts[..]), (&[5][..], &[2.0][..]));
    }

    #[test]
    fn a_total_with_too_many_buckets_changes_to_a_coarser_schema() {
        let total = sum(&[exponential(8, 0..160), exponential(8, 160..320)], 0).unwrap();
        assert_eq!((total.schema, total.count), (6, 320.0));
        assert!(total.positive.len() <= SIDE_BUCKETS_MAX);
        let total = sum(&[exponential(8, 0..100), exponential(8, 100..200)], 10).unwrap();
        assert!(total.positive.len() <= 10 && total.count == 200.0);
        let scattered: Vec<i32> = (0..200).map(|n| n * 1_000_000).collect();
        assert!(sum(&[exponential(-4, scattered)], 0).is_none(), "no schema has so few");
    }

    #[test]
    fn custom_buckets_are_added_only_if_their_bounds_are_equal() {
        let custom = |bounds: &[f64]| {
            let positive = Buckets { indices: vec![0, 1], counts: vec![1.0, 2.0] };
            let bounds = Arc::from(bounds);
            Arc::new(FloatHistogram {
                schema: CUSTOM_SCHEMA,
                count: 3.0,
                positive,
                bounds,
                ..Default::default()
            })
        };
        let total = sum(&[custom(&[1.0, 2.0]), custom(&[1.0, 2.0])], 0).unwrap();
        assert_eq!((total.count, &total.positive.counts[..]), (6.0, &[2.0, 4.0][..]));
        assert!(sum(&[custom(&[1.0, 2.0]), custom(&[1.0, 3.0])], 0).is_none());
        assert!(sum(&[custom(&[1.0, 2.0]), exponential(0, [1])], 0).is_none());
    }

    #[test]
    fn a_new_total_starts_before_a_count_loses_observations() {
        let many = |count: f64| {
            let positive = Buckets { indices: vec![1], counts: vec![count] };
            Arc::new(FloatHistogram { count, positive, ..FloatHistogram::default() })
        };
        assert!(sum(&[many(COUNT_MAX - 2.0), many(1.0)], 0).is_some());
        assert!(sum(&[many(COUNT_MAX - 1.0), many(1.0)], 0).is_none());
    }
}
