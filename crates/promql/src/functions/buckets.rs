//! Quantiles and fractions of classic and native histograms.

use std::cmp::Ordering;

use sandur_model::FloatHistogram;
use sandur_model::histogram::{Bucket, kahan_add};

use crate::labels::Text;
use crate::notes::Note;

/// Relative differences of neighbouring buckets below this are taken for rounding errors.
const SMALL_DELTA: f64 = 1e-12;

/// A bucket of a classic histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Classic {
    /// The upper bound, inclusive.
    pub upper: f64,
    /// The number of observations up to the bound.
    pub count: f64,
}

/// The range of buckets that were made monotonic, and the largest difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForcedBuckets {
    /// The lowest upper bound.
    pub lowest: f64,
    /// The highest upper bound.
    pub highest: f64,
    /// The largest difference that was corrected.
    pub difference: f64,
}

/// Whether two numbers are equal except for rounding.
pub fn almost_equal(a: f64, b: f64, epsilon: f64) -> bool {
    if a.is_nan() && b.is_nan() || a == b {
        return true;
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < epsilon * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < epsilon
}

/// Sorts buckets and merges those with the same bound; `None` if there is no bucket up to `+Inf`.
fn prepared(buckets: &mut Vec<Classic>) -> Option<()> {
    buckets.sort_by(|a, b| a.upper.partial_cmp(&b.upper).unwrap_or(Ordering::Equal));
    if buckets.last()?.upper != f64::INFINITY {
        return None;
    }
    buckets.dedup_by(|next, kept| {
        let same = next.upper == kept.upper;
        kept.count += if same { next.count } else { 0.0 };
        same
    });
    Some(())
}

fn force_monotonic(buckets: &mut [Classic]) -> Option<ForcedBuckets> {
    let mut forced: Option<ForcedBuckets> = None;
    let mut before = buckets[0].count;
    for bucket in &mut buckets[1..] {
        let count = bucket.count;
        if count == before {
            continue;
        }
        if almost_equal(before, count, SMALL_DELTA) {
            bucket.count = before;
        } else if count < before {
            bucket.count = before;
            let forced = forced.get_or_insert(ForcedBuckets {
                lowest: f64::INFINITY,
                highest: f64::NEG_INFINITY,
                difference: 0.0,
            });
            forced.lowest = forced.lowest.min(bucket.upper);
            forced.highest = forced.highest.max(bucket.upper);
            forced.difference = forced.difference.max(before - count);
        } else {
            before = count;
        }
    }
    forced
}

/// The quantile of a classic histogram, interpolated linearly within a bucket.
pub fn classic_quantile(q: f64, buckets: &mut Vec<Classic>) -> (f64, Option<ForcedBuckets>) {
    if q.is_nan() {
        return (f64::NAN, None);
    }
    if !(0.0..=1.0).contains(&q) {
        return (if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY }, None);
    }
    if prepared(buckets).is_none() {
        return (f64::NAN, None);
    }
    let forced = force_monotonic(buckets);
    let last = buckets.len() - 1;
    let total = buckets[last].count;
    if last == 0 || total == 0.0 {
        return (f64::NAN, forced);
    }
    let mut rank = q * total;
    // NaN compares as not less than any number.
    let at = buckets[..last]
        .partition_point(|bucket| bucket.count < rank || bucket.count.is_nan() || rank.is_nan());
    let quantile = if at == last {
        buckets[last - 1].upper
    } else if at == 0 && buckets[0].upper <= 0.0 {
        buckets[0].upper
    } else {
        let Classic { upper: end, mut count } = buckets[at];
        let mut begin = 0.0;
        if at > 0 {
            let before = buckets[at - 1];
            begin = before.upper;
            count -= before.count;
            rank -= before.count;
        }
        begin + (end - begin) * (rank / count)
    };
    (quantile, forced)
}

/// The ranks of the two bounds of a fraction, found while buckets are scanned.
struct Ranks {
    lower: Option<f64>,
    upper: Option<f64>,
}

impl Ranks {
    /// Scans a bucket. `inside` computes the rank of a value in it. Returns whether both ranks are known.
    fn see(
        &mut self,
        (lower, upper): (f64, f64),
        (begin, end): (f64, f64),
        rank: f64,
        inside: impl Fn(f64) -> f64,
    ) -> bool {
        for (slot, bound) in [(&mut self.lower, lower), (&mut self.upper, upper)] {
            if slot.is_none() && begin >= bound {
                *slot = Some(rank);
            }
        }
        if self.lower.is_some() && self.upper.is_some() {
            return true;
        }
        for (slot, bound) in [(&mut self.lower, lower), (&mut self.upper, upper)] {
            if slot.is_none() && begin < bound && end > bound {
                *slot = Some(inside(bound));
            }
        }
        self.lower.is_some() && self.upper.is_some()
    }

    fn fraction(self, count: f64, total: f64) -> f64 {
        let [lower, upper] = [self.lower, self.upper]
            .map(|rank| rank.map_or(count, |rank| if rank > count { count } else { rank }));
        (upper - lower) / total
    }
}

/// The fraction of a classic histogram's observations between two values.
pub fn classic_fraction(lower: f64, upper: f64, buckets: &mut Vec<Classic>) -> f64 {
    if prepared(buckets).is_none() {
        return f64::NAN;
    }
    let count = buckets[buckets.len() - 1].count;
    if count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let mut begin = if buckets[0].upper <= 0.0 { f64::NEG_INFINITY } else { 0.0 };
    let (mut rank, mut ranks) = (0.0, Ranks { lower: None, upper: None });
    for bucket in &*buckets {
        let end = bucket.upper;
        let inside = |value: f64| match begin == f64::NEG_INFINITY {
            true => bucket.count,
            false => rank + (bucket.count - rank) * (value - begin) / (end - begin),
        };
        if ranks.see((lower, upper), (begin, end), rank, inside) {
            break;
        }
        (rank, begin) = (bucket.count, end);
    }
    ranks.fraction(count, count)
}

/// Cuts the zero bucket at zero if the histogram has no observations on one side of it.
fn narrowed(histogram: &FloatHistogram, bucket: &mut Bucket) {
    match (histogram.negative.is_empty(), histogram.positive.is_empty()) {
        (true, false) => bucket.lower = 0.0,
        (false, true) => bucket.upper = 0.0,
        _ => {}
    }
}

/// The quantile of a native histogram.
pub fn native_quantile(q: f64, histogram: &FloatHistogram, metric: Text, note: &mut dyn FnMut(Note)) -> f64 {
    if !q.is_nan() && !(0.0..=1.0).contains(&q) {
        return if q < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    if histogram.count == 0.0 || q.is_nan() {
        return f64::NAN;
    }
    // NaN observations are in no bucket, so that ranks are known only from the lowest bucket upwards.
    let up = histogram.sum.is_nan() || q < 0.5;
    let mut rank = if up { q } else { 1.0 - q } * histogram.count;
    let mut buckets = histogram.all_buckets();
    let mut next = || if up { buckets.next() } else { buckets.next_back() };
    let none = Bucket { lower: 0.0, upper: 0.0, lower_inclusive: false, upper_inclusive: false, count: 0.0 };
    let (mut bucket, mut count) = (none, 0.0);
    while let Some(current) = next() {
        bucket = current;
        count += bucket.count;
        if bucket.count != 0.0 && count >= rank {
            break;
        }
    }
    let custom = histogram.is_custom();
    if !custom && bucket.lower < 0.0 && bucket.upper > 0.0 {
        narrowed(histogram, &mut bucket);
    } else if custom && bucket.lower == f64::NEG_INFINITY {
        if bucket.upper <= 0.0 {
            return bucket.upper;
        }
        bucket.lower = 0.0;
    } else if custom && bucket.upper == f64::INFINITY {
        return bucket.lower;
    }
    count = count.min(histogram.count);
    if count < rank {
        if histogram.sum.is_nan() {
            note(Note::QuantileNan(metric));
            return f64::NAN;
        }
        return bucket.upper;
    }
    rank = if up { rank - (count - bucket.count) } else { count - rank };
    if histogram.sum.is_nan() {
        // The sum is NaN either from NaN observations, which are in no bucket, or from infinities of both
        // signs.
        let all = std::iter::from_fn(next).fold(count, |count, bucket| count + bucket.count);
        if all < histogram.count {
            note(Note::QuantileSkew(metric));
        }
    }
    let fraction = rank / bucket.count;
    if custom || (bucket.lower <= 0.0 && bucket.upper >= 0.0) {
        return bucket.lower + (bucket.upper - bucket.lower) * fraction;
    }
    let (lower, upper) = (bucket.lower.abs().log2(), bucket.upper.abs().log2());
    if bucket.lower > 0.0 {
        return (lower + (upper - lower) * fraction).exp2();
    }
    -(upper + (lower - upper) * (1.0 - fraction)).exp2()
}

/// The fraction of a native histogram's observations between two values.
pub fn native_fraction(
    lower: f64,
    upper: f64,
    histogram: &FloatHistogram,
    metric: Text,
    note: &mut dyn FnMut(Note),
) -> f64 {
    if histogram.count == 0.0 || lower.is_nan() || upper.is_nan() {
        return f64::NAN;
    }
    if lower >= upper {
        return 0.0;
    }
    let (mut count, mut rank, mut ranks) = (0.0, 0.0, Ranks { lower: None, upper: None });
    let mut buckets = histogram.all_buckets();
    for mut bucket in buckets.by_ref() {
        count += bucket.count;
        let custom = histogram.is_custom();
        let is_zero = !custom && bucket.lower <= 0.0 && bucket.upper >= 0.0;
        if is_zero {
            narrowed(histogram, &mut bucket);
        } else if custom && bucket.lower == f64::NEG_INFINITY && bucket.upper > 0.0 {
            // As in a classic histogram, whose first bucket has no lower bound either.
            bucket.lower = 0.0;
        }
        let linear = custom || is_zero;
        let inside = |value: f64| match linear && bucket.lower == f64::NEG_INFINITY {
            true => bucket.count,
            false => rank + bucket.count * bucket.fraction_below(value, linear),
        };
        if ranks.see((lower, upper), (bucket.lower, bucket.upper), rank, inside) {
            break;
        }
        rank += bucket.count;
    }
    if histogram.sum.is_nan() {
        count += buckets.map(|bucket| bucket.count).sum::<f64>();
        if count < histogram.count {
            note(Note::FractionNans(metric));
        }
    } else {
        count = histogram.count;
    }
    ranks.fraction(count, histogram.count)
}

/// The variance of a native histogram, with each observation at the middle of its bucket.
pub fn variance(histogram: &FloatHistogram) -> f64 {
    let mean = histogram.sum / histogram.count;
    let (mut variance, mut lost) = (0.0, 0.0);
    for bucket in histogram.all_buckets().filter(|bucket| bucket.count != 0.0) {
        let value = if histogram.is_custom() {
            (bucket.upper + bucket.lower) / 2.0
        } else if bucket.lower <= 0.0 && bucket.upper >= 0.0 {
            0.0
        } else {
            let middle = (bucket.upper * bucket.lower).sqrt();
            if bucket.upper < 0.0 { -middle } else { middle }
        };
        let delta = value - mean;
        (variance, lost) = kahan_add(bucket.count * delta * delta, variance, lost);
    }
    (variance + lost) / histogram.count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: &[(f64, f64)]) -> Vec<Classic> {
        counts.iter().map(|(upper, count)| Classic { upper: *upper, count: *count }).collect()
    }

    #[test]
    fn classic_buckets_are_interpolated_and_made_monotonic() {
        let whole = [(1.0, 10.0), (2.0, 20.0), (f64::INFINITY, 20.0)];
        assert_eq!(classic_quantile(0.25, &mut buckets(&whole)), (0.5, None));
        assert_eq!(classic_quantile(1.0, &mut buckets(&whole)).0, 2.0);
        assert!(classic_quantile(0.5, &mut buckets(&whole[..2])).0.is_nan(), "there is no bucket up to +Inf");
        let falling = [(1.0, 10.0), (2.0, 8.0), (f64::INFINITY, 20.0)];
        let forced = classic_quantile(0.5, &mut buckets(&falling)).1;
        assert_eq!(forced, Some(ForcedBuckets { lowest: 2.0, highest: 2.0, difference: 2.0 }));
        assert_eq!(classic_fraction(0.5, 1.5, &mut buckets(&whole)), 0.5);
    }

    fn exponential(count: f64, sum: f64, counts: &[f64]) -> FloatHistogram {
        let indices = (1i32..).take(counts.len()).collect();
        let positive = sandur_model::histogram::Buckets { indices, counts: counts.to_vec() };
        FloatHistogram { count, sum, positive, ..FloatHistogram::default() }
    }

    fn custom(bounds: &[f64], counts: &[f64]) -> FloatHistogram {
        let indices = (0i32..).take(counts.len()).collect();
        let positive = sandur_model::histogram::Buckets { indices, counts: counts.to_vec() };
        let (schema, count) = (sandur_model::histogram::CUSTOM_SCHEMA, counts.iter().sum());
        FloatHistogram {
            schema,
            count,
            sum: 1.0,
            positive,
            bounds: bounds.into(),
            ..FloatHistogram::default()
        }
    }

    fn quantile_and_notes(q: f64, histogram: &FloatHistogram) -> (f64, Vec<Note>) {
        let mut notes = Vec::new();
        (native_quantile(q, histogram, Text::EMPTY, &mut |note| notes.push(note)), notes)
    }

    #[test]
    fn a_quantile_with_nan_observations_is_interpolated_in_its_bucket() {
        // Buckets up to 2, 4 and 8 hold four of five observations; one is NaN.
        let with_nan = exponential(5.0, f64::NAN, &[1.0, 2.0, 1.0]);
        let (found, notes) = quantile_and_notes(0.4, &with_nan);
        assert!((found - 1.5f64.exp2()).abs() < 1e-12, "{found}");
        assert_eq!(notes, [Note::QuantileSkew(Text::EMPTY)]);
        let (found, notes) = quantile_and_notes(0.9, &with_nan);
        assert!(found.is_nan() && notes == [Note::QuantileNan(Text::EMPTY)], "{found} {notes:?}");
        // Infinities of both signs make the sum NaN, but no observation is missing in the buckets.
        let infinite = exponential(4.0, f64::NAN, &[1.0, 2.0, 1.0]);
        let (found, notes) = quantile_and_notes(0.5, &infinite);
        assert!((found - 1.5f64.exp2()).abs() < 1e-12 && notes.is_empty(), "{found} {notes:?}");
    }

    #[test]
    fn custom_buckets_around_zero_are_not_a_zero_bucket() {
        let fraction = |lower, upper, bounds: &[f64], counts: &[f64]| {
            native_fraction(lower, upper, &custom(bounds, counts), Text::EMPTY, &mut |_| {})
        };
        let (down, up) = (f64::NEG_INFINITY, f64::INFINITY);
        // Observations in a bucket up to zero are below zero.
        assert_eq!(fraction(down, 0.0, &[0.0, 1.0], &[4.0, 3.0, 3.0]), 0.4);
        assert_eq!(fraction(0.0, up, &[0.0, 1.0], &[4.0, 3.0, 3.0]), 0.6);
        // A bucket from -2 to 2 is not cut at zero.
        assert_eq!(fraction(down, 0.0, &[-2.0, 2.0], &[1.0, 2.0, 1.0]), 0.5);
        // The first bucket begins at zero if its upper bound is above zero.
        assert_eq!(fraction(down, 1.0, &[2.0, 4.0], &[2.0, 2.0, 0.0]), 0.25);
    }

    #[test]
    fn a_histogram_without_buckets_has_no_quantile_and_no_fraction() {
        assert!(classic_quantile(0.5, &mut Vec::new()).0.is_nan());
        assert!(classic_fraction(0.0, 1.0, &mut Vec::new()).is_nan());
    }
}
