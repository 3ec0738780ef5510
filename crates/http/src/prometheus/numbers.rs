//! Writes numbers, timestamps and histograms in JSON as Prometheus does.

use sandur_model::FloatHistogram;
use sandur_model::decimal::{push_fraction, push_whole, push_whole_float};

use crate::marshal::json;

/// Numbers are written with an exponent from `LARGE` on and below `SMALL`.
const LARGE: f64 = 1e21;
const SMALL: f64 = 1e-6;

/// Appends a number in quotes.
pub fn quoted(out: &mut Vec<u8>, value: f64) {
    out.push(b'"');
    plain(out, value);
    out.push(b'"');
}

/// Appends a number as Go prints it: the shortest decimals, and for very large and very small numbers an
/// exponent of at least two digits.
pub fn plain(out: &mut Vec<u8>, value: f64) {
    // Fast paths for most numbers.
    if push_whole_float(out, value) || push_fraction(out, value) {
        return;
    }
    let size = value.abs();
    if !value.is_finite() || size == 0.0 || (SMALL..LARGE).contains(&size) {
        return json::value(out, value);
    }
    // Rust writes `1.5e-7` and `1e21`.
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    json::push(out, format_args!("{digits}e{sign}{exponent:0>2}"));
}

/// Appends milliseconds as seconds, with three decimals unless they are zero.
pub fn seconds(out: &mut Vec<u8>, ms: i64) {
    if ms < 0 {
        out.push(b'-');
    }
    let ms = ms.unsigned_abs();
    push_whole(out, ms / 1_000);
    let rest = ms % 1_000;
    if rest != 0 {
        out.push(b'.');
        out.extend([rest / 100, rest / 10 % 10, rest % 10].map(|digit| b'0' + digit as u8));
    }
}

/// Appends a sample: timestamp and value.
pub fn sample(out: &mut Vec<u8>, ms: i64, value: f64) {
    out.push(b'[');
    seconds(out, ms);
    out.push(b',');
    quoted(out, value);
    out.push(b']');
}

/// Appends a timestamp and a histogram.
pub fn histogram_sample(out: &mut Vec<u8>, ms: i64, of: &FloatHistogram) {
    out.push(b'[');
    seconds(out, ms);
    out.push(b',');
    histogram(out, of);
    out.push(b']');
}

/// Appends a histogram with its non-empty buckets. A bucket is an array of which bounds are inclusive (0:
/// the upper one, 1: the lower one, 2: none, 3: both), lower bound, upper bound and count.
fn histogram(out: &mut Vec<u8>, of: &FloatHistogram) {
    out.extend_from_slice(b"{\"count\":");
    quoted(out, of.count);
    out.extend_from_slice(b",\"sum\":");
    quoted(out, of.sum);
    let mut is_first = true;
    for bucket in of.all_buckets().filter(|bucket| bucket.count != 0.0) {
        out.extend_from_slice(if is_first { b",\"buckets\":[[" } else { b",[" });
        is_first = false;
        out.push(match (bucket.lower_inclusive, bucket.upper_inclusive) {
            (false, true) => b'0',
            (true, false) => b'1',
            (false, false) => b'2',
            (true, true) => b'3',
        });
        for number in [bucket.lower, bucket.upper, bucket.count] {
            out.push(b',');
            quoted(out, number);
        }
        out.push(b']');
    }
    out.extend_from_slice(if is_first { b"}" } else { b"]}" });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (-7.0, "-7"),
            (999_999_999_999_999.0, "999999999999999"),
            (1e15, "1000000000000000"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.25e300, "-1.25e+300"),
            (1e-6, "0.000001"),
            (9.5e-7, "9.5e-07"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(text(|out| plain(out, value)), expected);
        }
        for (ms, expected) in [
            (0, "0"),
            (-1, "-0.001"),
            (1_500, "1.500"),
            (61_000, "61"),
            (1_020, "1.020"),
            (i64::MIN, "-9223372036854775.808"),
        ] {
            assert_eq!(text(|out| seconds(out, ms)), expected);
        }
    }
}
