//! Goal: sums, means and variances are those of exact arithmetic, rounded once, whatever the order.
//!
//! Method: random numbers, of all exponents too, are added in several orders, and in parts that are merged.
//! The
//! model adds whole numbers.

use proptest::prelude::*;

use super::*;

const EDGES: [f64; 9] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, -0.0, 5e-324, f64::MIN_POSITIVE, 1e300];

fn number() -> impl Strategy<Value = f64> {
    let any_finite = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite());
    prop_oneof![6 => -1e3..1e3, 2 => (-50..50i32).prop_map(f64::from), 1 => any_finite, 1 => finite_edge()]
}

fn finite_edge() -> impl Strategy<Value = f64> {
    prop::sample::select(EDGES.into_iter().filter(|edge| edge.is_finite()).collect::<Vec<_>>())
}

fn number_or_edge() -> impl Strategy<Value = f64> {
    prop_oneof![20 => number(), 1 => prop::sample::select(&EDGES[..])]
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

proptest! {
    #[test]
    fn sums_do_not_depend_on_the_order(
        mut values in prop::collection::vec(number_or_edge(), 1..60),
        cut in 0..60usize,
    ) {
        let mut sum = ExactSum::<2>::default();
        values.iter().for_each(|value| sum.add(*value));
        let (mut left, mut right) = (ExactSum::<2>::default(), ExactSum::<2>::default());
        let (first, second) = values.split_at(cut.min(values.len()));
        first.iter().for_each(|value| left.add(*value));
        second.iter().for_each(|value| right.add(*value));
        right.merge(&left);
        prop_assert!(same(sum.value(), right.value()), "{} {}", sum.value(), right.value());
        let (parts, wide) = right.parts();
        let copy = ExactSum::from_parts(*parts, wide.cloned());
        prop_assert!(same(sum.value(), copy.value()));
        values.sort_by(f64::total_cmp);
        let (mut sorted, mut column) = (ExactSum::<2>::default(), ExactSums::default());
        column.prepare(1);
        for value in &values {
            sorted.add(*value);
            column.add_run(0, &[*value]);
        }
        prop_assert!(same(sum.value(), sorted.value()));
        prop_assert!(same(sum.value(), column.values()[0]));
        let count = values.len() as f64;
        prop_assert!(same(sum.mean(count), column.means(&[count])[0]));
    }

    #[test]
    fn sums_are_those_of_whole_numbers_rounded_once(
        terms in prop::collection::vec((-(1i64 << 53)..1 << 53, 0..60u32), 0..50),
    ) {
        let whole = |(mantissa, shift): &(i64, u32)| i128::from(*mantissa) << shift;
        let total: i128 = terms.iter().map(whole).sum();
        let (mut sum, mut wide) = (ExactSum::<2>::default(), Wide::default());
        for term in &terms {
            sum.add(whole(term) as f64);
            wide.add(whole(term) as f64);
        }
        prop_assert_eq!(sum.value(), total as f64);
        prop_assert_eq!(wide.rounded(), total as f64);
        if let Ok(factor) = u64::try_from(terms.len()) && total.unsigned_abs() < 1 << 120 {
            wide.multiply(factor);
            prop_assert_eq!(wide.rounded(), (total * i128::from(factor)) as f64);
        }
    }

    #[test]
    fn variances_do_not_depend_on_the_order_and_are_near_the_definition(
        values in prop::collection::vec(-1e6..1e6f64, 1..40),
        others in prop::collection::vec(number(), 1..40),
    ) {
        let of = |values: &[f64]| {
            let mut moments = Moments::default();
            values.iter().for_each(|value| moments.add(*value));
            moments
        };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|value| (value - mean) * (value - mean));
        let expected = squares.sum::<f64>() / values.len() as f64;
        let found = of(&values).variance();
        prop_assert!((found - expected).abs() <= 1e-12 * expected.max(1e-3), "{found} {expected}");
        let (first, second) = others.split_at(others.len() / 2);
        let mut merged = of(second);
        merged.merge(&of(first));
        prop_assert_eq!(merged.variance().to_bits(), of(&others).variance().to_bits());
        prop_assert!(merged.variance() >= 0.0 && merged.count() == others.len() as u64);
    }
}

#[test]
fn sums_of_numbers_far_apart_are_exact() {
    let sum = |terms: &[f64]| {
        let mut sum = ExactSum::<2>::default();
        terms.iter().for_each(|term| sum.add(*term));
        sum
    };
    assert_eq!(sum(&[1.0, 1e100, 1.0, -1e100]).value(), 2.0);
    assert_eq!(sum(&[1e300, 1.0, 1e-300, -1e300, -1.0]).value(), 1e-300);
    assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]).value(), f64::MAX);
    assert_eq!(sum(&[f64::MAX, f64::MAX]).value(), f64::INFINITY);
    assert_eq!(sum(&[f64::MAX, f64::MAX]).mean(2.0), f64::MAX);
    assert_eq!(sum(&[f64::MIN, f64::MIN, f64::MIN]).mean(3.0), f64::MIN);
    assert_eq!(sum(&[5e-324, 5e-324, -5e-324]).value(), 5e-324);
    assert_eq!(sum(&[1.0, f64::EPSILON / 2.0]).value(), 1.0, "a tie is rounded to even");
    assert_eq!(sum(&[1.0, f64::EPSILON / 2.0, 1e-300]).value(), 1.0 + f64::EPSILON, "more than a tie");
    assert!(sum(&[f64::INFINITY, 1e308, f64::NEG_INFINITY]).value().is_nan());
    assert_eq!(sum(&[1.0, 1e100, f64::INFINITY, 1e-100]).value(), f64::INFINITY);
    assert_eq!(sum(&[-0.0, -0.0]).value().to_bits(), 0);
}

#[test]
fn the_variance_of_numbers_near_each_other_is_exact() {
    let of = |values: &[f64]| {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.add(*value));
        moments
    };
    assert_eq!(of(&[1e15, 1e15 + 1.0, 1e15 + 2.0]).variance(), 2.0 / 3.0);
    assert_eq!(of(&[1e-200, 3e-200]).variance(), 0.0, "the result is below the smallest float");
    assert_eq!(of(&[1e200, -1e200]).variance(), f64::INFINITY);
    assert_eq!(of(&[0.1, 0.1, 0.1]).variance(), 0.0);
    assert!(of(&[f64::INFINITY, 1.0]).variance().is_nan() && of(&[]).variance().is_nan());
    assert!(of(&[0.1, 0.7, 1e3 + 0.1]).heap_bytes() == 0, "three floats hold these squares");
}

#[test]
fn digits_of_another_process_are_checked() {
    let mut wide = Wide::default();
    [1e300, -3.5, 1e-300].into_iter().for_each(|value| wide.add(value));
    let negative = [-1e300, 7.0, -((1u64 << 40) as f64)].map(|value| {
        let mut wide = Wide::default();
        wide.add(value);
        wide
    });
    for wide in negative.iter().chain([&wide]) {
        let (first, digits) = wide.clone().to_digits();
        let copy = Wide::from_digits(first, digits.clone()).unwrap();
        assert_eq!((copy.rounded(), copy.to_digits()), (wide.rounded(), (first, digits)));
    }
    let (first, digits) = wide.clone().to_digits();
    let copy = Wide::from_digits(first, digits.clone()).unwrap();
    assert_eq!(copy.rounded(), wide.rounded());
    assert!(Wide::from_digits(first, Vec::new()).is_none());
    assert!(Wide::from_digits(first, vec![1; DIGITS_MAX + 1]).is_none());
    assert!(Wide::from_digits(FIRST_MIN - 1, digits.clone()).is_none());
    assert!(Wide::from_digits(first, vec![-1, 1]).is_none(), "a digit that is not the last has no sign");
    assert!(Wide::from_digits(first, vec![1 << 32]).is_none());
}
