//! Detects a counter reset between two histograms.

use super::iterate::{coarser_index, exponential_bound};
use super::{Buckets, CounterReset, FloatHistogram};

impl FloatHistogram {
    /// Whether the counter was reset between `previous` and this histogram: a count decreased, a
    /// populated bucket disappeared, or the layout changed in a way that only a reset explains. The
    /// reset hint decides if there is one.
    pub fn detect_reset(&self, previous: &Self) -> bool {
        match self.reset {
            CounterReset::Reset => return true,
            CounterReset::NotReset => return false,
            CounterReset::Unknown | CounterReset::Gauge => {}
        }
        if self.count < previous.count {
            return true;
        }
        if self.is_custom() {
            if !previous.is_custom() {
                return true;
            }
            if self.bounds != previous.bounds {
                return self.reset_between_bounds(previous);
            }
        }
        if self.schema > previous.schema || self.zero_threshold < previous.zero_threshold {
            return true;
        }
        // Custom bounds have the lowest schema number, and cannot be compared with exponential buckets.
        if self.is_custom() != previous.is_custom() {
            return true;
        }
        let (zero_count, threshold) = previous.zero_count_for(self.zero_threshold);
        if threshold != self.zero_threshold || self.zero_count < zero_count {
            return true;
        }
        self.sign_reset(&self.positive, previous, &previous.positive)
            || self.sign_reset(&self.negative, previous, &previous.negative)
    }

    fn sign_reset(&self, buckets: &Buckets, previous: &Self, before: &Buckets) -> bool {
        if self.schema == previous.schema && buckets.indices == before.indices {
            let pairs = buckets.counts.iter().zip(&before.counts).zip(&buckets.indices);
            let inside = |index: i32| {
                !self.is_custom()
                    && self.zero_threshold > 0.0
                    && exponential_bound(index, self.schema) <= self.zero_threshold
            };
            return pairs.into_iter().any(|((now, then), index)| now < then && !inside(*index));
        }
        let mut now = outside_of_zero(buckets, self.schema, self).peekable();
        let mut before = Merged { rest: before, at: 0, from: previous.schema, to: self.schema, of: self };
        std::iter::from_fn(|| before.next()).any(|(index, count)| {
            while now.next_if(|(at, _)| *at < index).is_some() {}
            match now.peek() {
                Some((at, here)) if *at == index => *here < count,
                _ => count != 0.0,
            }
        })
    }

    /// Compares the sums of counts between bounds that both histograms have.
    fn reset_between_bounds(&self, previous: &Self) -> bool {
        let (mut now, mut before) = (self.positive.iter().peekable(), previous.positive.iter().peekable());
        let upper = |of: &Self, index: i32| of.bounds.get(index as usize).copied().unwrap_or(f64::INFINITY);
        let common = intersection(&self.bounds, &previous.bounds);
        common.iter().copied().chain([f64::INFINITY]).any(|bound| {
            let (mut here, mut then) = (0.0, 0.0);
            while let Some((_, count)) = now.next_if(|(index, _)| upper(self, *index) <= bound) {
                here += count;
            }
            while let Some((_, count)) = before.next_if(|(index, _)| upper(previous, *index) <= bound) {
                then += count;
            }
            here < then
        })
    }

    /// The zero count for a larger threshold, and that threshold: it is widened to the end of a
    /// populated bucket that it would split.
    pub(super) fn zero_count_for(&self, mut threshold: f64) -> (f64, f64) {
        if threshold == self.zero_threshold {
            return (self.zero_count, threshold);
        }
        'again: loop {
            let mut count = self.zero_count;
            for bucket in self.positive_buckets() {
                if bucket.lower >= threshold {
                    break;
                }
                count += bucket.count;
                if bucket.upper > threshold {
                    if bucket.count != 0.0 {
                        threshold = bucket.upper;
                    }
                    break;
                }
            }
            for bucket in self.negative_buckets() {
                if bucket.upper <= -threshold {
                    break;
                }
                count += bucket.count;
                if bucket.lower < -threshold {
                    if bucket.count != 0.0 {
                        threshold = -bucket.lower;
                        continue 'again;
                    }
                    break;
                }
            }
            return (count, threshold);
        }
    }
}

fn outside_of_zero<'a>(
    buckets: &'a Buckets,
    schema: i32,
    of: &'a FloatHistogram,
) -> impl Iterator<Item = (i32, f64)> + 'a {
    let is_inside = move |index: i32| {
        of.zero_threshold != 0.0 && !of.is_custom() && exponential_bound(index, schema) <= of.zero_threshold
    };
    buckets.iter().skip_while(move |(index, _)| is_inside(*index))
}

/// The buckets of a histogram converted to a coarser schema, one at a time.
struct Merged<'a> {
    rest: &'a Buckets,
    at: usize,
    from: i32,
    to: i32,
    of: &'a FloatHistogram,
}

impl Merged<'_> {
    fn next(&mut self) -> Option<(i32, f64)> {
        loop {
            let index = |at: usize| match self.from == self.to {
                true => self.rest.indices[at],
                false => coarser_index(self.rest.indices[at], self.from, self.to),
            };
            if self.at >= self.rest.len() {
                return None;
            }
            let (current, mut sum) = (index(self.at), 0.0);
            let mut at = self.at;
            while at < self.rest.len() && index(at) == current {
                sum += self.rest.counts[at];
                at += 1;
            }
            self.at = at;
            let of = self.of;
            let inside = of.zero_threshold != 0.0
                && !of.is_custom()
                && exponential_bound(current, self.to) <= of.zero_threshold;
            if !inside {
                return Some((current, sum));
            }
        }
    }
}

/// The bounds that are in both sorted lists.
pub fn intersection(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut common = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        if x == y {
            common.push(*x);
        }
        (i, j) = (i + usize::from(x <= y), j + usize::from(y <= x || x.is_nan() || y.is_nan()));
    }
    common
}
