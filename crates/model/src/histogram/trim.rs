//! Removes the observations above or below a value.
//!
//! A bucket that the value splits keeps the interpolated part on the remaining side. When anything was
//! removed, the sum is estimated from the midpoints of what remains.

use super::{Bucket, FloatHistogram};

/// Which side of a value is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// Values above it.
    Upper,
    /// Values below it.
    Lower,
}

/// What remains of a bucket: the number of observations and the midpoint of the values.
struct Left {
    count: f64,
    middle: f64,
}

impl FloatHistogram {
    /// Removes the observations on one side of `at`.
    pub fn trim(&mut self, at: f64, trim: Trim) -> &mut Self {
        let custom = self.is_custom();
        let (mut count, mut sum, mut cut) = (0.0, 0.0, false);
        let mut sides = [false, false];
        for (side, positive) in [(0, true), (1, false)] {
            let buckets: Vec<Bucket> =
                if positive { self.positive_buckets().collect() } else { self.negative_buckets().collect() };
            let counts = if positive { &mut self.positive.counts } else { &mut self.negative.counts };
            for (bucket, kept) in buckets.iter().zip(counts).filter(|(bucket, _)| bucket.count != 0.0) {
                sides[side] = true;
                let left = left_of(bucket, at, trim, positive, custom);
                let Some(left) = left else {
                    *kept = 0.0;
                    cut = true;
                    continue;
                };
                count += left.count;
                sum += left.middle * left.count;
                if *kept != left.count {
                    *kept = left.count;
                    cut = true;
                }
            }
        }
        if self.zero_count > 0.0 {
            let left = left_of_zero(&self.zero_bucket(), at, trim, sides);
            cut |= self.zero_count != left.count;
            self.zero_count = left.count;
            sum += left.middle * left.count;
            count += left.count;
        }
        if cut {
            (self.count, self.sum) = (count, sum);
            self.compact();
        }
        self
    }
}

/// What remains of a bucket; `None` if nothing does.
fn left_of(bucket: &Bucket, at: f64, trim: Trim, positive: bool, linear: bool) -> Option<Left> {
    let (whole, parted) = match trim {
        Trim::Upper => (bucket.upper <= at, bucket.lower < at),
        Trim::Lower => (bucket.lower >= at, bucket.upper > at),
    };
    if whole {
        let middle = middle_of(bucket.lower, bucket.upper, positive, linear);
        return Some(Left { count: bucket.count, middle });
    }
    if !parted {
        return None;
    }
    if bucket.lower == f64::NEG_INFINITY {
        return Some(left_of_lowest(bucket, at, trim));
    }
    if bucket.upper == f64::INFINITY {
        return Some(left_of_highest(bucket, at, trim));
    }
    let under = if at <= bucket.lower {
        0.0
    } else if at >= bucket.upper {
        bucket.count
    } else {
        bucket.count * bucket.fraction_below(at, linear)
    };
    Some(match trim {
        Trim::Upper => Left { count: under, middle: middle_of(bucket.lower, at, positive, linear) },
        Trim::Lower => {
            Left { count: bucket.count - under, middle: middle_of(at, bucket.upper, positive, linear) }
        }
    })
}

/// For a bucket without a lower bound. If its upper bound is positive, it is assumed to begin at zero.
fn left_of_lowest(bucket: &Bucket, at: f64, trim: Trim) -> Left {
    let Bucket { upper, count, .. } = *bucket;
    let finite = |number: f64| if number.is_infinite() { 0.0 } else { number };
    let bounded = upper < f64::INFINITY;
    match trim {
        Trim::Upper if at >= upper => Left { count, middle: 0.0 },
        Trim::Upper if at > 0.0 && upper > 0.0 && bounded => {
            Left { count: count * at / upper, middle: at / 2.0 }
        }
        Trim::Upper if upper <= 0.0 => Left { count, middle: at },
        Trim::Upper => Left { count: 0.0, middle: finite(upper) },
        Trim::Lower if at <= f64::NEG_INFINITY => Left { count, middle: 0.0 },
        Trim::Lower if at >= 0.0 && upper > at && bounded => {
            Left { count: count * (1.0 - at / upper), middle: (at + upper) / 2.0 }
        }
        Trim::Lower => Left { count: 0.0, middle: finite(upper) },
    }
}

/// For a bucket without an upper bound.
fn left_of_highest(bucket: &Bucket, at: f64, trim: Trim) -> Left {
    if trim == Trim::Lower && at >= bucket.lower {
        return Left { count: bucket.count, middle: at };
    }
    Left { count: 0.0, middle: if bucket.lower.is_infinite() { 0.0 } else { bucket.lower } }
}

/// For the zero bucket. It extends only to zero on a side that has no other buckets.
fn left_of_zero(bucket: &Bucket, at: f64, trim: Trim, [positive, negative]: [bool; 2]) -> Left {
    let upper = if negative && !positive { 0.0 } else { bucket.upper };
    let lower = if positive && !negative { 0.0 } else { bucket.lower };
    let whole = Left { count: bucket.count, middle: (lower + upper) / 2.0 };
    let nothing = Left { count: 0.0, middle: 0.0 };
    match trim {
        Trim::Upper if at <= lower => nothing,
        Trim::Upper if at >= upper => whole,
        Trim::Upper => {
            Left { count: bucket.count * ((at - lower) / (upper - lower)), middle: (lower + at) / 2.0 }
        }
        Trim::Lower if at <= lower => whole,
        Trim::Lower if at >= upper => nothing,
        Trim::Lower => {
            Left { count: bucket.count * ((upper - at) / (upper - lower)), middle: (at + upper) / 2.0 }
        }
    }
}

fn middle_of(lower: f64, upper: f64, positive: bool, linear: bool) -> f64 {
    match (lower.is_infinite(), upper.is_infinite()) {
        (true, true) => 0.0,
        (true, false) if upper > 0.0 => upper / 2.0,
        (true, false) => upper,
        (false, true) => lower,
        (false, false) if linear => (lower + upper) / 2.0,
        (false, false) => {
            let mean = (lower * upper).abs().sqrt();
            if positive { mean } else { -mean }
        }
    }
}
