//! The order of series in blocks of samples: by metric, then by the other labels, and the buckets of a
//! classic histogram next to each other by ascending bound.
//!
//! A rollup of a series with tags is directly before that series, so that a reader of the series' points
//! can write the rollup without reordering. Rollups of a path need no rule: no other path has its metric.
//!
//! Readers that merge blocks and heads series by series need the same order everywhere. It is part of the
//! format: a query of one metric reads neighbouring series, and a bucket is encoded as the difference
//! from the one below.

use std::cmp::Ordering;

use sandur_model::{GRAPHITE_ARCHIVE, GRAPHITE_MARK, GRAPHITE_ROLLUP};

/// The label that names the metric.
pub const METRIC_NAME: &str = "__name__";
/// The label that holds the upper bound of a bucket.
pub const BOUND_NAME: &str = "le";

/// Compares two label sets, given as pairs in ascending order of names.
pub fn compare_series<'a, 'b>(
    a: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    b: impl Iterator<Item = (&'b str, &'b str)> + Clone,
) -> Ordering {
    let named = |(name, _): &(&str, &str)| *name == METRIC_NAME;
    let (metric_a, metric_b) = (a.clone().find(named), b.clone().find(named));
    metric_a.map(value).cmp(&metric_b.map(value)).then_with(|| match compare_rest(a.clone(), b.clone()) {
        Some(order) => order,
        None => compare_rolled(a, b),
    })
}

/// Whether a series is a rollup that is ordered next to the series of its points; this holds for series
/// with tags.
pub fn is_apart_from_points<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let (mut is_tagged, mut is_rollup) = (false, false);
    for (name, _) in pairs {
        is_tagged |= name == GRAPHITE_MARK;
        is_rollup |= name == GRAPHITE_ROLLUP;
    }
    is_tagged && is_rollup
}

/// Whether a label describes how a series was rolled up.
pub fn is_rollup_label(name: &str) -> bool {
    name == GRAPHITE_ARCHIVE || name == GRAPHITE_ROLLUP
}

fn value<'a>((_, value): (&'a str, &'a str)) -> &'a str {
    value
}

/// Compares all labels but the metric; `None` when one of the two may be a rollup.
fn compare_rest<'a, 'b>(
    a: impl Iterator<Item = (&'a str, &'a str)>,
    b: impl Iterator<Item = (&'b str, &'b str)>,
) -> Option<Ordering> {
    let (mut bound_a, mut bound_b) = (None, None);
    let mut a = a.filter(|pair| is_plain(*pair, &mut bound_a));
    let mut b = b.filter(|pair| is_plain(*pair, &mut bound_b));
    let plain = loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if a == b && !is_rollup_label(a.0) => {}
            (None, None) => break Ordering::Equal,
            (a, b) if [a, b].into_iter().flatten().any(|(name, _)| is_rollup_label(name)) => return None,
            (a, b) => break a.cmp(&b),
        }
    };
    drop((a, b));
    Some(plain.then_with(|| compare_bounds(bound_a, bound_b)))
}

/// Compares two series of which one may be a rollup: a rollup of a series with tags is directly before
/// it.
fn compare_rolled<'a, 'b>(
    a: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    b: impl Iterator<Item = (&'b str, &'b str)> + Clone,
) -> Ordering {
    let (apart_a, apart_b) = (is_apart_from_points(a.clone()), is_apart_from_points(b.clone()));
    let (mut bound_a, mut bound_b) = (None, None);
    let is_own = |name: &str, is_apart: bool| is_apart && is_rollup_label(name);
    let plain_a = a.clone().filter(|pair| is_plain(*pair, &mut bound_a) && !is_own(pair.0, apart_a));
    let plain_b = b.clone().filter(|pair| is_plain(*pair, &mut bound_b) && !is_own(pair.0, apart_b));
    let plain = compare_pairs(plain_a, plain_b);
    let own_a = a.filter(|pair| is_own(pair.0, apart_a));
    let own_b = b.filter(|pair| is_own(pair.0, apart_b));
    let rolled = || apart_b.cmp(&apart_a).then_with(|| compare_pairs(own_a, own_b));
    plain.then_with(|| compare_bounds(bound_a, bound_b)).then_with(rolled)
}

fn compare_pairs<'a, 'b>(
    mut a: impl Iterator<Item = (&'a str, &'a str)>,
    mut b: impl Iterator<Item = (&'b str, &'b str)>,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) if a == b => {}
            (a, b) => return a.cmp(&b),
        }
    }
}

/// Whether a label is neither the metric's name nor a bucket's bound; stores the bound.
fn is_plain<'a>((name, value): (&'a str, &'a str), bound: &mut Option<&'a str>) -> bool {
    if name == BOUND_NAME {
        *bound = Some(value);
    }
    name != BOUND_NAME && name != METRIC_NAME
}

/// Compares bounds by number. Texts that are not numbers, and absent bounds, come first.
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn series_are_ordered_by_metric_then_labels_then_bound() {
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

    const TAGGED: (&str, &str) = (GRAPHITE_MARK, "tagged");
    const ARCHIVE: (&str, &str) = (GRAPHITE_ARCHIVE, "60");

    #[test]
    fn rollups_of_series_with_tags_are_before_their_points() {
        let name = ("__name__", "m");
        let rollup = |of| (GRAPHITE_ROLLUP, of);
        let sorted: [&[(&str, &str)]; 12] = [
            // A rollup of a path, an archive imported from whisper, and a series with a prefix of the
            // labels.
            &[ARCHIVE, ("__g0__", "m"), name, rollup("count_1s")],
            &[ARCHIVE, TAGGED, name, ("a", "1")],
            &[("__g0__", "m"), name],
            &[TAGGED, name],
            &[ARCHIVE, TAGGED, name, rollup("count_1s"), ("a", "1")],
            &[(GRAPHITE_ARCHIVE, "600"), TAGGED, name, rollup("count_1s"), ("a", "1")],
            &[TAGGED, name, rollup("count_1s"), ("a", "1")],
            &[TAGGED, name, ("a", "1")],
            &[ARCHIVE, TAGGED, name, rollup("sum_1s"), ("a", "1"), ("le", "2")],
            &[TAGGED, name, ("a", "1"), ("le", "2")],
            &[TAGGED, name, ("a", "1"), ("b", "1")],
            &[ARCHIVE, TAGGED, name, rollup("count_1s"), ("a", "2")],
        ];
        let found = |a: &[(&'static str, &'static str)], b: &[(&'static str, &'static str)]| {
            compare_series(a.iter().copied(), b.iter().copied())
        };
        for a in &sorted {
            for b in &sorted {
                assert_eq!(found(a, b), found(b, a).reverse(), "{a:?} and {b:?}");
            }
        }
        let mut again = sorted;
        again.sort_by(|a, b| found(a, b));
        assert_eq!(again[..], sorted[..]);
    }

    proptest! {
        /// The order is total, whichever label differs first.
        #[test]
        fn the_order_is_total(series in prop::collection::vec(prop::collection::vec(0..9usize, 0..6), 3)) {
            let some = [
                ARCHIVE, (GRAPHITE_ARCHIVE, "600"), ("__g0__", "m"), TAGGED, ("__name__", "m"),
                (GRAPHITE_ROLLUP, "sum_1s"), (GRAPHITE_ROLLUP, "min_1s"), ("a", "1"), ("le", "2"),
            ];
            let labels = |chosen: &Vec<usize>| {
                let mut pairs: Vec<_> = chosen.iter().map(|at| some[*at]).collect();
                pairs.sort_unstable();
                pairs.dedup_by_key(|pair| pair.0);
                pairs
            };
            let [a, b, c] = [0, 1, 2].map(|at| labels(&series[at]));
            let found = |a: &[(&'static str, &'static str)], b: &[(&'static str, &'static str)]| {
                compare_series(a.iter().copied(), b.iter().copied())
            };
            prop_assert_eq!(found(&a, &b).is_eq(), a == b);
            prop_assert_eq!(found(&a, &b), found(&b, &a).reverse());
            if found(&a, &b).is_le() && found(&b, &c).is_le() {
                prop_assert!(found(&a, &c).is_le(), "{:?} {:?} {:?}", a, b, c);
            }
        }
    }
}
