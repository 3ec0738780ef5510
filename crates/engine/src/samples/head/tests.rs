//! The head against plain expectations, and against a naive map over random samples.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use sandur_base::{Id, MemoryBudget};
use sandur_model::{Labels, MatchOp, Matcher, SampleBatch, TenantId, TimeRange};

use super::{SampleHead, push_bytes};

fn labels(name: &str, pod: &str) -> Arc<Labels> {
    Arc::new(Labels::from_pairs([("__name__", name), ("pod", pod)]))
}

fn batch(samples: &[(&str, &str, i64, f64)]) -> SampleBatch {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for (name, pod, time, value) in samples {
        batch.push(labels(name, pod), [(*time, *value)]);
    }
    batch
}

/// A head of these batches, one a frame, and the budget that pays.
fn head_of(batches: &[SampleBatch]) -> (SampleHead, MemoryBudget) {
    let budget = MemoryBudget::root("test", 1 << 30);
    let head = SampleHead::new(Id(1), 7);
    for (n, batch) in batches.iter().enumerate() {
        let memory = budget.reserve(push_bytes(batch)).unwrap();
        head.insert(7 + n as u64, batch, memory);
    }
    (head, budget)
}

type Found = Vec<(String, Vec<(i64, f64)>)>;

fn found(head: &SampleHead, matchers: &[Matcher], range: TimeRange) -> Found {
    let selected = head.select(&TenantId::default_tenant(), matchers, range);
    let series = |at: usize| {
        let (columns, _) = selected.samples(at, range.milliseconds());
        let samples = columns.timestamps.into_iter().zip(columns.values).collect();
        (selected.labels(at).to_string(), samples)
    };
    (0..selected.len()).map(series).collect()
}

#[test]
fn series_come_sorted_and_selected_by_matchers_and_time() {
    let (head, _) = head_of(&[
        batch(&[("up", "b", 1_000, 1.0), ("up", "a", 1_000, 0.0), ("go", "a", 1_000, 7.0)]),
        batch(&[("up", "a", 2_000, 1.0)]),
    ]);
    let up = Matcher::new("__name__", MatchOp::Equal, "up").unwrap();
    let all = found(&head, std::slice::from_ref(&up), TimeRange::ALL);
    let expected = [
        (r#"{__name__="up", pod="a"}"#.to_owned(), vec![(1_000, 0.0), (2_000, 1.0)]),
        (r#"{__name__="up", pod="b"}"#.to_owned(), vec![(1_000, 1.0)]),
    ];
    assert_eq!(all, expected);
    let late = found(&head, &[up], TimeRange::new(1_000_000_001, i64::MAX));
    assert_eq!(late, [(r#"{__name__="up", pod="a"}"#.to_owned(), vec![(2_000, 1.0)])]);
    let without = Matcher::new("pod", MatchOp::Equal, "").unwrap();
    assert!(found(&head, &[without], TimeRange::ALL).is_empty());
    assert_eq!(head.bounds(&TenantId::default_tenant()), Some((1_000_000_000, 2_000_000_000)));
    assert!(head.select(&TenantId::new("other").unwrap(), &[], TimeRange::ALL).is_empty());
}

#[test]
fn a_floor_cuts_at_its_frame_and_takes_its_memory_along() {
    let frames: Vec<_> = (0..10).map(|n| batch(&[("up", "a", n * 1_000, n as f64)])).collect();
    let (head, budget) = head_of(&frames);
    let before = budget.used();
    let rest = head.since_floor(13);
    let expected: Vec<(i64, f64)> = (6..10).map(|n| (n * 1_000, n as f64)).collect();
    assert_eq!(found(&rest, &[], TimeRange::ALL)[0].1, expected);
    assert_eq!((rest.totals().rows, budget.used()), (4, before));
    let again = rest.since_floor(15);
    assert_eq!(again.totals().rows, 2);
    drop(head);
    drop(rest);
    assert_eq!(again.totals().memory_bytes, budget.used());
    drop(again);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_sample_changes_the_version_of_what_holds_it() {
    let (head, budget) = head_of(&[batch(&[("up", "a", 1_000, 1.0)])]);
    let tenant = TenantId::default_tenant();
    let before = head.holdings(&tenant, TimeRange::ALL);
    assert_eq!(before, head.holdings(&tenant, TimeRange::ALL));
    let more = batch(&[("up", "a", 2_000, 1.0)]);
    head.insert(8, &more, budget.reserve(push_bytes(&more)).unwrap());
    assert_ne!(before[0].version, head.holdings(&tenant, TimeRange::ALL)[0].version);
    assert!(head.holdings(&tenant, TimeRange::new(0, 1_000_000_000)).is_empty());
}

/// What a series of ten labels takes with twenty samples, as of a scrape each 15 s and a flush each 5 min.
#[test]
fn an_active_series_takes_less_than_600_bytes() {
    let series = 5_000;
    let label_sets: Vec<Arc<Labels>> = (0..series)
        .map(|n| {
            let (pod, path) = (format!("api-{:04}", n / 50), format!("/v1/items/{}", n % 50));
            let fixed = [
                ("__name__", "http_requests_total"),
                ("job", "api"),
                ("cluster", "eu-1"),
                ("method", "GET"),
                ("namespace", "prod"),
                ("code", "200"),
                ("zone", "b"),
                ("team", "shop"),
            ];
            let own = [("pod", pod.as_str()), ("path", path.as_str())];
            Arc::new(Labels::from_pairs(fixed.into_iter().chain(own)))
        })
        .collect();
    let frames: Vec<SampleBatch> = (0..20)
        .map(|scrape| {
            let mut batch = SampleBatch::new(TenantId::default_tenant());
            for (n, labels) in label_sets.iter().enumerate() {
                batch.push(Arc::clone(labels), [(scrape * 15_000 + n as i64 % 7, scrape as f64)]);
            }
            batch
        })
        .collect();
    let (head, budget) = head_of(&frames);
    assert_eq!(head.totals().rows, 20 * series as u64);
    let each = budget.used() / series as u64;
    assert!(each < 600, "{each} bytes");
    assert_eq!(head.totals().memory_bytes, budget.used());
}

proptest! {
    #[test]
    fn every_head_is_as_a_map_that_keeps_the_first(
        frames in prop::collection::vec(prop::collection::vec((0..3usize, 0..20i64), 1..8), 1..20),
        floor in 0..20u64,
    ) {
        let pods = ["a", "b", "c"];
        let mut value = 0.0;
        let batches: Vec<SampleBatch> = frames.iter().map(|frame| {
            let rows: Vec<_> = frame.iter().map(|(pod, time)| {
                value += 1.0;
                ("up", pods[*pod], *time, value)
            }).collect();
            batch(&rows)
        }).collect();
        let (head, budget) = head_of(&batches);
        let naive = |from: usize| -> Found {
            let mut all: BTreeMap<String, BTreeMap<i64, f64>> = BTreeMap::new();
            for batch in batches.iter().skip(from) {
                for series in &batch.series {
                    for (time, value) in batch.samples_of(series) {
                        all.entry(series.labels.to_string()).or_default().entry(time).or_insert(value);
                    }
                }
            }
            all.into_iter().map(|(labels, samples)| (labels, samples.into_iter().collect())).collect()
        };
        prop_assert_eq!(found(&head, &[], TimeRange::ALL), naive(0));
        // A sample that was refused because the head had one before the cut is in a block by then.
        let rest = head.since_floor(7 + floor);
        let times = |found: Found| -> Vec<(String, Vec<i64>)> {
            let times_of = |samples: Vec<(i64, f64)>| samples.into_iter().map(|s| s.0).collect();
            found.into_iter().map(|(labels, samples)| (labels, times_of(samples))).collect()
        };
        for (labels, found) in times(found(&rest, &[], TimeRange::ALL)) {
            let all = times(naive(floor as usize));
            let of = all.iter().find(|(known, _)| *known == labels).expect("a series of these frames");
            prop_assert!(found.iter().all(|time| of.1.contains(time)));
        }
        drop((head, rest));
        prop_assert_eq!(budget.used(), 0);
    }
}
