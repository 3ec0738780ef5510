//! Text forms: of histograms, as users and `count_values` see them, and of numbers, as Go's `%g` writes
//! them.

use std::fmt;

use super::{Bucket, FloatHistogram};

/// Numbers from this power of ten on are written with an exponent.
const SHORT: i32 = 6;

/// Formats a number as Go's `%g` does: the shortest digits, with an exponent if it is small or large.
#[derive(Clone, Copy, Debug)]
pub struct GoNumber(pub f64);

impl fmt::Display for GoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        if number.is_nan() {
            return f.write_str("NaN");
        }
        if number.is_infinite() {
            return f.write_str(if number > 0.0 { "+Inf" } else { "-Inf" });
        }
        let text = format!("{number:e}");
        let Some((digits, exponent)) = text.split_once('e') else { return f.write_str(&text) };
        let exponent: i32 = exponent.parse().unwrap_or(0);
        if (-4..SHORT).contains(&exponent) {
            return write!(f, "{number}");
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{digits}e{sign}{:02}", exponent.abs())
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = if self.lower_inclusive { '[' } else { '(' };
        let close = if self.upper_inclusive { ']' } else { ')' };
        let [lower, upper, count] = [self.lower, self.upper, self.count].map(GoNumber);
        write!(f, "{open}{lower},{upper}{close}:{count}")
    }
}

impl fmt::Display for FloatHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{count:{}, sum:{}", GoNumber(self.count), GoNumber(self.sum))?;
        let populated = |bucket: &Bucket| bucket.count != 0.0;
        for bucket in self.negative_buckets().rev().filter(populated) {
            write!(f, ", {bucket}")?;
        }
        if self.zero_count != 0.0 && !self.is_custom() {
            write!(f, ", {}", self.zero_bucket())?;
        }
        for bucket in self.positive_buckets().filter(populated) {
            write!(f, ", {bucket}")?;
        }
        f.write_str("}")
    }
}
