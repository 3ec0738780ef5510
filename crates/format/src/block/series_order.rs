//! The order in which blocks of samples hold their series: by metric, then by the other labels, and the
//! buckets of a classic histogram side by side by rising bound.
//!
//! Readers that merge blocks and heads series by series need the same order everywhere. It is part of the
//! format: a query of one metric reads neighbours, and a bucket is coded as its distance from the one below.

use std::cmp::Ordering;

/// The label that names the metric.
pub const METRIC_NAME: &str = "__name__";
/// The label that holds the upper bound of a bucket.
pub const BOUND_NAME: &str = "le";

/// Compares two label sets, given as pairs by rising names.
pub fn compare_series<'a, 'b>(
    a: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    b: impl Iterator<Item = (&'b str, &'b str)> + Clone,
) -> Ordering {
    let named = |(name, _): &(&str, &str)| *name == METRIC_NAME;
    let (metric_a, metric_b) = (a.clone().find(named), b.clone().find(named));
    metric_a.map(value).cmp(&metric_b.map(value)).then_with(|| compare_rest(a, b))
}

fn value<'a>((_, value): (&'a str, &'a str)) -> &'a str {
    value
}

fn compare_rest<'a, 'b>(
    a: impl Iterator<Item = (&'a str, &'a str)>,
    b: impl Iterator<Item = (&'b str, &'b str)>,
) -> Ordering {
    let (mut bound_a, mut bound_b) = (None, None);
    let mut a = a.filter(|pair| is_plain(*pair, &mut bound_a));
    let mut b = b.filter(|pair| is_plain(*pair, &mut bound_b));
    let plain = loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => break Ordering::Equal,
            (a, b) => break a.cmp(&b),
        }
    };
    drop((a, b));
    plain.then_with(|| compare_bounds(bound_a, bound_b))
}

/// Whether a label is neither the metric's name nor a bucket's bound, which is kept.
fn is_plain<'a>((name, value): (&'a str, &'a str), bound: &mut Option<&'a str>) -> bool {
    if name == BOUND_NAME {
        *bound = Some(value);
    }
    name != BOUND_NAME && name != METRIC_NAME
}

/// Bounds by number; texts that are no numbers come first, and so does the lack of one.
pub(crate) fn compare_bounds(a: Option<&str>, b: Option<&str>) -> Ordering {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
    let by_number = match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    by_number.then_with(|| a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_come_by_metric_then_labels_then_bound() {
        let sorted: [&[(&str, &str)]; 9] = [
            &[("Upper", "z")],
            &[("a", "1")],
            &[("Upper", "z"), ("__name__", "m")],
            &[("__name__", "m"), ("a", "1")],
            &[("__name__", "m"), ("a", "1"), ("le", "abc")],
            &[("__name__", "m"), ("a", "1"), ("le", "0.5")],
            &[("__name__", "m"), ("a", "1"), ("le", "10")],
            &[("__name__", "m"), ("a", "1"), ("le", "+Inf")],
            &[("__name__", "m"), ("a", "1"), ("le", "0.1"), ("z", "1")],
        ];
        for (n, a) in sorted.iter().enumerate() {
            for (m, b) in sorted.iter().enumerate() {
                let found = compare_series(a.iter().copied(), b.iter().copied());
                assert_eq!(found, n.cmp(&m), "{a:?} and {b:?}");
            }
        }
    }
}
