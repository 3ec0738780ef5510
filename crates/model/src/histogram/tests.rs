//! Tests of native histograms.

use super::*;

fn exponential(schema: i32, first: i32, counts: &[f64]) -> FloatHistogram {
    let indices = (first..).take(counts.len()).collect();
    let total = counts.iter().sum();
    let positive = Buckets { indices, counts: counts.to_vec() };
    FloatHistogram { schema, positive, count: total, sum: total, ..FloatHistogram::default() }
}

fn custom(bounds: &[f64], counts: &[f64]) -> FloatHistogram {
    FloatHistogram { bounds: bounds.into(), ..exponential(CUSTOM_SCHEMA, 0, counts) }
}

#[test]
fn buckets_convert_to_spans_and_back() {
    let spans = [Span { offset: -2, length: 2 }, Span { offset: 3, length: 1 }];
    let buckets = Buckets::from_spans(&spans, vec![1.0, 2.0, 3.0]).unwrap();
    assert_eq!(buckets.indices, [-2, -1, 3]);
    assert_eq!(buckets.spans(), spans);
    assert_eq!(Buckets::from_spans(&spans, vec![1.0]), Err(HistogramError::SpansMismatch));
    let back = [Span { offset: 1, length: 1 }, Span { offset: -1, length: 1 }];
    assert_eq!(Buckets::from_spans(&back, vec![1.0, 1.0]), Err(HistogramError::NegativeOffset));
}

#[test]
fn bounds_are_exact_at_powers_of_two() {
    for schema in SCHEMA_MIN..=SCHEMA_MAX {
        for power in [-1000i32, -512, -3, 0, 5, 1000, 1023] {
            let index = if schema >= 0 { power << schema } else { power >> -schema };
            let exact = if schema >= 0 { power } else { index << -schema };
            assert_eq!(exponential_bound(index, schema), 2f64.powi(exact), "{schema} {power}");
        }
    }
    assert_eq!(exponential_bound(1024, 0), f64::MAX);
    assert_eq!(exponential_bound(1025, 0), f64::INFINITY);
    assert_eq!(exponential_bound(1, 1), 0.7071067811865475 * 2.0);
}

#[test]
fn sums_have_the_coarser_schema_and_the_larger_zero_bucket() {
    let mut fine = exponential(1, 1, &[1.0, 2.0, 3.0]);
    let mut coarse = exponential(0, 1, &[10.0]);
    coarse.zero_threshold = 1.2;
    coarse.zero_count = 5.0;
    let added = fine.add(&coarse).unwrap();
    assert_eq!(added, Added::default());
    // The threshold splits the bucket (1, 1.41] and grows to its end; then it splits (1, 2].
    assert_eq!((fine.schema, fine.zero_threshold), (0, 2.0));
    assert_eq!(fine.zero_count, 5.0 + 10.0 + 1.0 + 2.0);
    assert_eq!(fine.compact().positive, Buckets { indices: vec![2], counts: vec![3.0] });
}

#[test]
fn sums_have_the_custom_bounds_that_both_histograms_have() {
    let mut a = custom(&[1.0, 2.0, 4.0], &[1.0, 2.0, 3.0, 4.0]);
    let b = custom(&[2.0, 3.0, 4.0], &[10.0, 20.0, 30.0, 40.0]);
    assert!(a.add(&b).unwrap().bounds_reconciled);
    assert_eq!((&*a.bounds, &a.positive.counts[..]), (&[2.0, 4.0][..], &[13.0, 53.0, 44.0][..]));
    assert_eq!(a.add(&exponential(0, 0, &[1.0])), Err(HistogramError::Incompatible));
}

#[test]
fn sums_and_means_do_not_depend_on_the_order() {
    let mut coarse = exponential(0, -3, &[0.1, 1e100, 7.0]);
    (coarse.zero_threshold, coarse.reset) = (0.5, CounterReset::Reset);
    let mut gauge = exponential(1, 1, &[0.3, -1e100, 0.7]);
    gauge.reset = CounterReset::Gauge;
    let all = [exponential(1, 1, &[0.1, 1e100, 3.0]), coarse, gauge, exponential(1, -2, &[0.2; 9])];
    let of = |order: [usize; 4]| {
        let mut sum = HistogramSum::default();
        order.iter().for_each(|n| sum.add(&all[*n]).unwrap());
        sum
    };
    let first = of([0, 1, 2, 3]);
    assert!(first.hints() != ResetHints::default() && !first.hints().collide() && !first.bounds_differ());
    for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        assert_eq!(of(order).sum(), first.sum());
        assert_eq!(of(order).mean(), first.mean());
        let (mut left, mut right) = (HistogramSum::default(), HistogramSum::default());
        order[..2].iter().for_each(|n| left.add(&all[*n]).unwrap());
        order[2..].iter().for_each(|n| right.add(&all[*n]).unwrap());
        right.merge(&left).unwrap();
        assert_eq!(right.sum(), first.sum());
        assert!(right.memory_bytes() > 0);
    }
    let sum = first.sum().unwrap();
    assert_eq!((sum.reset, sum.schema, sum.zero_threshold), (CounterReset::Gauge, 0, 0.5));
    let mut one = HistogramSum::default();
    one.add(&all[0]).unwrap();
    assert_eq!((one.sum(), one.mean()), (Some(all[0].clone()), Some(all[0].clone())));
    assert_eq!(one.add(&custom(&[1.0], &[1.0, 2.0])), Err(HistogramError::Incompatible));
    assert_eq!((HistogramSum::default().sum(), HistogramSum::default().mean()), (None, None));
}

#[test]
fn sums_with_custom_bounds_have_the_bounds_of_all() {
    let mut sum = HistogramSum::default();
    sum.add(&custom(&[1.0, 2.0, 4.0], &[1.0, 2.0, 3.0, 4.0])).unwrap();
    assert!(!sum.bounds_differ());
    sum.add(&custom(&[2.0, 3.0, 4.0], &[10.0, 20.0, 30.0, 40.0])).unwrap();
    assert!(sum.bounds_differ());
    let found = sum.sum().unwrap();
    assert_eq!((&*found.bounds, &found.positive.counts[..]), (&[2.0, 4.0][..], &[13.0, 53.0, 44.0][..]));
    let mut large = HistogramSum::default();
    (0..2).for_each(|_| large.add(&custom(&[1.0], &[f64::MAX, 2.0])).unwrap());
    assert_eq!(large.mean().unwrap().positive.counts, [f64::MAX, 2.0]);
}

#[test]
fn resets_are_detected_from_counts_and_layouts() {
    let before = exponential(1, 1, &[1.0, 2.0, 3.0]);
    let mut after = exponential(1, 1, &[1.0, 2.0, 4.0]);
    assert!(!after.detect_reset(&before) && before.detect_reset(&after));
    after.reset = CounterReset::Reset;
    assert!(after.detect_reset(&before));
    let mut coarse = exponential(0, 1, &[3.0, 3.0]);
    assert!(!coarse.detect_reset(&before), "the merged buckets are equal");
    coarse.positive.counts[0] = 2.0;
    coarse.count = 9.0;
    assert!(coarse.detect_reset(&before), "the count of a merged bucket decreased");
    assert!(exponential(2, 1, &[9.0]).detect_reset(&before), "a finer schema");
    let wide = custom(&[1.0, 4.0], &[1.0, 5.0, 9.0]);
    assert!(!wide.detect_reset(&custom(&[1.0, 2.0, 4.0], &[1.0, 2.0, 3.0, 4.0])));
    assert!(wide.detect_reset(&custom(&[1.0, 2.0, 4.0], &[1.0, 3.0, 3.0, 4.0])));
}

#[test]
fn trimming_keeps_the_part_below_or_above() {
    let whole = custom(&[0.0, 10.0, 20.0], &[0.0, 10.0, 10.0, 0.0]);
    let mut low = whole.clone();
    low.trim(15.0, Trim::Upper);
    assert_eq!((low.count, &low.positive.counts[..]), (15.0, &[10.0, 5.0][..]));
    let mut high = whole.clone();
    high.trim(15.0, Trim::Lower);
    assert_eq!((high.count, &high.positive.indices[..]), (5.0, &[2][..]));
    let mut same = whole.clone();
    assert_eq!(*same.trim(25.0, Trim::Upper), whole);
}

#[test]
fn numbers_and_histograms_are_formatted_as_by_go() {
    let written: Vec<String> =
        [1e6, 1234567.0, 100000.0, 0.0001, 0.00001, 0.0, -0.5].map(|n| GoNumber(n).to_string()).into();
    assert_eq!(written, ["1e+06", "1.234567e+06", "100000", "0.0001", "1e-05", "0", "-0.5"]);
    let mut histogram = exponential(0, 1, &[2.0]);
    histogram.zero_count = 1.0;
    histogram.zero_threshold = 0.001;
    assert_eq!(histogram.to_string(), "{count:2, sum:2, [-0.001,0.001]:1, (1,2]:2}");
}

#[test]
fn schemas_may_differ_by_more_than_the_bits_of_an_index() {
    use super::iterate::coarser_index;
    assert_eq!(coarser_index(5, 3, 1), 2);
    for (index, expected) in [(i32::MAX, 1), (1_000, 1), (1, 1), (0, 0), (-1_000, 0)] {
        assert_eq!(coarser_index(index, 52, 8), expected, "{index}");
    }
    // The lowest index does not overflow.
    coarser_index(i32::MIN, 52, 8);
}
