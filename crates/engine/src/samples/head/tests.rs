//! Compares the head with explicit expectations, and with a naive map over random samples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use sandur_base::Id;
use sandur_memory::MemoryBudget;
use sandur_model::{
    Exemplar, FloatHistogram, HistogramSample, Labels, MatchOp, Matcher, MetricMetadata, SampleBatch, Span,
    StreamId, TenantId, TimeRange, matches_all,
};
use sandur_query::{JoinedLabels, SeriesRequest};

use super::{JoinedValues, SampleHead, Wanted, push_bytes};
use crate::path_labels::{ARCHIVE, label_of_level, labels_of_path};

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

/// A head with one frame per batch, and the budget that pays for it.
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
        let (columns, _) = selected.samples(at, range.milliseconds(), Wanted::No);
        let samples = columns.timestamps.into_iter().zip(columns.values).collect();
        (selected.labels(at).to_string(), samples)
    };
    (0..selected.len()).map(series).collect()
}

#[test]
fn series_are_sorted_and_selected_by_matchers_and_time() {
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
fn a_cut_at_a_floor_moves_later_frames_and_their_memory() {
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
fn a_sample_changes_only_the_version_of_its_minute() {
    let (head, budget) = head_of(&[batch(&[("up", "a", 1_000, 1.0)])]);
    let tenant = TenantId::default_tenant();
    let before = head.holdings(&tenant, TimeRange::ALL);
    assert_eq!(before, head.holdings(&tenant, TimeRange::ALL));
    let insert = |sequence, more: SampleBatch| {
        head.insert(sequence, &more, budget.reserve(push_bytes(&more)).unwrap());
        head.holdings(&tenant, TimeRange::ALL)
    };
    let after = insert(8, batch(&[("up", "a", 2_000, 1.0)]));
    assert_ne!(before[0].version, after[0].version);
    assert!(head.holdings(&tenant, TimeRange::new(0, 1_000_000_000)).is_empty());
    let later = insert(9, batch(&[("up", "a", 61_000, 1.0)]));
    assert_eq!((later.len(), later[0].version), (2, after[0].version));
    let same = insert(10, batch(&[("up", "a", 61_000, 2.0)]));
    assert_eq!(same, later, "a sample that was left out changes nothing");
}

fn matcher(name: &str, op: MatchOp, value: &str) -> Matcher {
    Matcher::new(name, op, value).unwrap()
}

#[test]
fn exemplars_and_metadata_are_found_and_cut_at_floors() {
    let mut frames: Vec<SampleBatch> = (0..4).map(|n| batch(&[("up", "a", n * 1_000, 1.0)])).collect();
    let exemplar = |timestamp, id: &str| Exemplar {
        labels: Labels::from_pairs([("trace_id", id)]),
        value: 0.5,
        timestamp,
    };
    frames[0].push_exemplar(exemplar(500, "first"));
    for frame in [1, 3] {
        frames[frame].push_exemplar(exemplar(700, "second"));
        let metadata = MetricMetadata { family: "up".into(), ..MetricMetadata::default() };
        frames[frame].metadata.push(metadata);
    }
    frames[3].begin_series(labels("bare", "b").stream_id(), labels("bare", "b"), Span::default());
    frames[3].push_exemplar(exemplar(900, "third"));
    let (head, budget) = head_of(&frames);
    let tenant = TenantId::default_tenant();
    let ids = |head: &SampleHead, any_of: &[Vec<Matcher>], range| -> Vec<String> {
        let mut memory = MemoryBudget::root("query", 1 << 20).reserve(0).unwrap();
        let wanted = SeriesRequest::any_of(any_of.to_vec(), range);
        let mut found = head.exemplars(&tenant, &wanted, &mut memory).unwrap();
        assert_eq!(memory.bytes(), found.iter().map(|of| of.memory_bytes()).sum::<u64>());
        found.sort_by(|a, b| a.labels.cmp(&b.labels));
        found.iter_mut().for_each(|of| Exemplar::sort(&mut of.exemplars));
        let all = found.into_iter().flat_map(|of| of.exemplars);
        all.map(|one| one.labels.get("trace_id").unwrap().to_owned()).collect()
    };
    let told = |head: &SampleHead| {
        let mut told = 0;
        let each = |_: &MetricMetadata| -> Result<(), ()> {
            told += 1;
            Ok(())
        };
        head.each_metadata(&tenant, each).unwrap();
        told
    };
    assert_eq!(ids(&head, &[], TimeRange::ALL), ["third", "first", "second"]);
    let up = vec![matcher("__name__", MatchOp::Equal, "up")];
    assert_eq!(ids(&head, &[up], TimeRange::new(0, 600_000_000)), ["first"]);
    assert_eq!(told(&head), 1);
    assert_eq!(found(&head, &[], TimeRange::ALL).len(), 1, "a series without samples is not selected");
    let rest = head.since_floor(9);
    assert_eq!(ids(&rest, &[], TimeRange::ALL), ["third", "second"]);
    assert_eq!(told(&rest), 1);
    assert_eq!(told(&head.since_floor(11)), 0);
    drop((head, rest));
    assert_eq!(budget.used(), 0);
}

#[test]
fn exemplars_outside_of_the_block_range_are_dropped_and_others_widen_the_bounds() {
    let mut frame = batch(&[("up", "a", 1_000, 1.0)]);
    for timestamp in [i64::MIN, i64::MAX, -5_000, 9_000] {
        frame.push_exemplar(Exemplar { labels: Labels::default(), value: 1.0, timestamp });
    }
    let (head, _) = head_of(&[frame]);
    let tenant = TenantId::default_tenant();
    assert_eq!(head.bounds(&tenant), Some((-5_000_000_000, 9_000_000_000)));
    let flushed = head.flushed_exemplars(&tenant, 7_200_000);
    assert_eq!(flushed.slots().iter().copied().collect::<Vec<_>>(), [-1, 0]);
    let mut at = 0;
    let first = flushed.next(&mut at, (0, 7_199_999)).unwrap();
    assert_eq!(first.exemplars.iter().map(|one| one.timestamp).collect::<Vec<_>>(), [9_000]);
    assert!(flushed.next(&mut at, (0, 7_199_999)).is_none());
}

#[test]
fn histograms_and_start_times_survive_a_cut() {
    let mut one = batch(&[("up", "a", 1_000, 1.0)]);
    one.set_start(400);
    let histogram = Arc::new(FloatHistogram { count: 3.0, ..FloatHistogram::default() });
    one.push_histogram(HistogramSample { timestamp: 2_000, start: 1, integer: true, histogram });
    let (head, _) = head_of(&[batch(&[("up", "a", 0, 1.0)]), one]);
    let rest = head.since_floor(8);
    let selected = rest.select(&TenantId::default_tenant(), &[], TimeRange::ALL);
    let (columns, _) = selected.samples(0, (0, 9_000), Wanted::No);
    assert_eq!((columns.timestamps, columns.starts), (vec![1_000], vec![400]));
    assert_eq!((columns.histograms.len(), columns.histograms[0].histogram.count), (1, 3.0));
    assert_eq!((selected.rows(0), selected.bounds_ms(0)), (2, Some((1_000, 2_000))));
    assert!(columns.histograms[0].integer);
}

/// More series than are sorted directly. `between` is called after some of them.
fn many(between: impl Fn(&SampleHead)) -> (SampleHead, Vec<Arc<Labels>>) {
    let label_sets: Vec<Arc<Labels>> = (0..5_000u32)
        .map(|n| {
            let n = n.wrapping_mul(2_654_435_761) % 5_003;
            let (name, pod, le) = (format!("m{}", n % 7), format!("p{}", n % 501), (n / 13).to_string());
            let pairs = [("__name__", name.as_str()), ("pod", &pod), ("le", &le)];
            let pairs = pairs.into_iter().take(if n % 11 == 0 { 2 } else { 3 });
            // Rollups of series with tags, rollups of other series, and points of the former.
            let labels = ["__graphite__", "__archive__", "__rollup__"].iter().enumerate();
            let more = labels.filter(|(at, _)| n % 17 == 0 && n >> at & 1 == 1).map(|(_, name)| (*name, "v"));
            Arc::new(Labels::from_pairs(pairs.chain(more)))
        })
        .collect();
    let (head, _) = head_of(&[]);
    for (sequence, part) in (7..).zip(label_sets.chunks(4_500)) {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        part.iter().for_each(|labels| batch.push(Arc::clone(labels), [(1_000, 1.0)]));
        head.insert(
            sequence,
            &batch,
            MemoryBudget::root("test", u64::MAX).reserve(push_bytes(&batch)).unwrap(),
        );
        between(&head);
    }
    (head, label_sets)
}

/// Goal: series have the same order before and after requests for few of them have made the order of all.
#[test]
fn few_series_are_sorted_the_same_way_with_and_without_ranks() {
    let selected = |head: &SampleHead| {
        let some = [matcher("pod", MatchOp::Regex, "p[1-3].")];
        let series = head.select(&TenantId::default_tenant(), &some, TimeRange::ALL);
        (0..series.len()).map(|at| series.labels(at)).collect::<Vec<Labels>>()
    };
    let (head, _) = many(|head| {
        let first = selected(head);
        assert!(first.len() > 100);
        let is_sorted =
            |a: &Labels, b: &Labels| sandur_format::block::compare_series(a.iter(), b.iter()).is_le();
        for _ in 0..200 {
            let again = selected(head);
            assert!(again == first && again.is_sorted_by(is_sorted));
        }
    });
    let all = head.select(&TenantId::default_tenant(), &[], TimeRange::ALL);
    assert_eq!(all.len(), head.series(&TenantId::default_tenant()));
}

#[test]
fn many_series_are_sorted_for_every_selection() {
    // The order is cached in between, and later series are merged into it.
    let all = |head: &SampleHead| drop(head.select(&TenantId::default_tenant(), &[], TimeRange::ALL));
    let (head, label_sets) = many(all);
    let tenant = TenantId::default_tenant();
    let all = |op: fn() -> Vec<Matcher>| {
        let matchers = op();
        let mut expected: Vec<&Arc<Labels>> =
            label_sets.iter().filter(|labels| matches_all(&matchers, labels)).collect();
        expected.sort_by(|a, b| sandur_format::block::compare_series(a.iter(), b.iter()));
        expected.dedup();
        let selected = head.select(&tenant, &matchers, TimeRange::ALL);
        let found: Vec<Labels> = (0..selected.len()).map(|at| selected.labels(at)).collect();
        assert!(found.iter().eq(expected.iter().map(|labels| &***labels)), "{matchers:?}");
        let matching = head.matching(&tenant, &matchers, TimeRange::ALL);
        assert_eq!(matching.len(), found.len());
        for name in ["__name__", "pod", "le", "other"] {
            let mut values: Vec<&str> = matching.label_values(name).collect();
            values.sort_unstable();
            let expected: BTreeSet<&str> = found.iter().filter_map(|labels| labels.get(name)).collect();
            assert!(values.into_iter().eq(expected), "{name}");
        }
        let names: BTreeSet<&str> = matching.label_names().collect();
        let expected: BTreeSet<&str> = found.iter().flat_map(|labels| labels.iter().map(|l| l.0)).collect();
        assert_eq!(names, expected);
    };
    all(Vec::new);
    all(|| vec![matcher("__name__", MatchOp::Equal, "m3")]);
    all(|| vec![matcher("__name__", MatchOp::NotEqual, "m3"), matcher("pod", MatchOp::Regex, "p[12].*")]);
    all(|| vec![matcher("le", MatchOp::Equal, "")]);
    all(|| vec![matcher("le", MatchOp::NotEqual, "")]);
    all(|| vec![matcher("le", MatchOp::Regex, "1.*|"), matcher("pod", MatchOp::Equal, "p7")]);
    all(|| vec![matcher("le", MatchOp::NotRegex, "1.*")]);
    all(|| vec![matcher("other", MatchOp::NotRegex, ".+")]);
    all(|| vec![matcher("other", MatchOp::Regex, ".+")]);
    all(|| vec![matcher("pod", MatchOp::Equal, "p1"), matcher("pod", MatchOp::Equal, "p2")]);
}

/// Two readers read while samples and series are inserted. They always see a series as it was at some
/// moment, and never fewer samples than before.
#[test]
fn readers_see_prefixes_during_inserts() {
    let pods: Vec<String> = (0..600).map(|n| format!("p{n}")).collect();
    let head = SampleHead::new(Id(1), 0);
    let budget = MemoryBudget::root("test", 1 << 30);
    let look = |known: &mut BTreeMap<StreamId, usize>| {
        let selected = head.select(&TenantId::default_tenant(), &[], TimeRange::ALL);
        for at in 0..selected.len() {
            let (columns, _) = selected.samples(at, (i64::MIN, i64::MAX), Wanted::No);
            assert!(columns.timestamps.iter().copied().eq((0..).take(columns.rows())));
            assert!(columns.values.iter().zip(&columns.timestamps).all(|(v, t)| *v == *t as f64));
            let before = known.insert(selected.id(at), columns.rows());
            assert!(before.unwrap_or(1) <= columns.rows());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut known = BTreeMap::new();
                while known.len() < pods.len() || known.values().any(|rows| *rows < 40) {
                    look(&mut known);
                }
            });
        }
        for time in 0..40i64 {
            // Every scrape adds new series.
            for part in pods[..pods.len() * (time as usize + 1) / 40].chunks(100) {
                let rows = part.iter().flat_map(|pod| {
                    let is_new =
                        pods.iter().position(|p| p == pod).unwrap() >= pods.len() * time as usize / 40;
                    let from = if is_new { 0 } else { time };
                    (from..=time).map(move |time| ("up", pod.as_str(), time, time as f64))
                });
                let batch = batch(&rows.collect::<Vec<_>>());
                head.insert(time as u64, &batch, budget.reserve(push_bytes(&batch)).unwrap());
            }
        }
    });
    assert_eq!(head.series(&TenantId::default_tenant()), 600);
}

/// The memory of a series with ten labels and twenty samples, as of scrapes every 15 s and flushes every
/// 5 min.
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
    assert!(each < 450, "{each} bytes");
    assert_eq!(head.totals().memory_bytes, budget.used());
}

proptest! {
    #[test]
    fn every_head_equals_a_map_that_keeps_the_first_sample(
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
        // A sample that was left out because the head had one before the cut is in a block by then.
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

fn texts_of(joined: &JoinedValues) -> BTreeSet<String> {
    joined.iter().map(|values| values.collect::<Vec<&str>>().join(".")).collect()
}

#[test]
fn combinations_of_values_are_from_matching_series() {
    let mut samples = SampleBatch::new(TenantId::default_tenant());
    for n in 0..500 {
        let path = format!("site{}.host{}.{}.load", n % 3, n % 50, ["cpu", "disk"][n % 2]);
        samples.push(Arc::new(labels_of_path(&path).unwrap()), [(1_000, 1.0)]);
    }
    samples.push(labels("up", "a"), [(1_000, 1.0)]);
    let (head, _) = head_of(&[samples]);
    let joined = |matchers: &[Matcher], names: &[&str], limit| {
        let matching = head.matching(&TenantId::default_tenant(), matchers, TimeRange::ALL);
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let wanted = JoinedLabels { labels: names, separator: '.', limit };
        texts_of(&matching.joined_values(&wanted))
    };
    let sites = ["site0.cpu", "site0.disk", "site1.cpu", "site1.disk", "site2.cpu", "site2.disk"];
    assert_eq!(joined(&[], &["__g0__", "__g2__"], 100), sites.map(str::to_owned).into());
    let cpu = Matcher::new("__g2__", MatchOp::Equal, "cpu").unwrap();
    assert_eq!(joined(&[cpu], &["__g0__", "__g1__"], 100).len(), 75);
    assert_eq!(joined(&[], &["__g0__", "pod"], 100).len(), 0);
    assert_eq!(joined(&[], &["__g1__", "__g0__"], 10).len(), 11, "one more than the limit shows the excess");
}

/// Conditions on one to four levels of paths, whose series end on the last level or not.
fn conditions_on_levels() -> impl Strategy<Value = Vec<Matcher>> {
    let of_level = prop_oneof![
        Just((MatchOp::Regex, ".+")),
        Just((MatchOp::NotEqual, "")),
        Just((MatchOp::Equal, "a1")),
        Just((MatchOp::Equal, "absent")),
        Just((MatchOp::Regex, "a[0-3]|b.*")),
        Just((MatchOp::Regex, "a1|a2")),
    ];
    let end = prop_oneof![Just(MatchOp::Equal), Just(MatchOp::NotEqual)];
    (prop::collection::vec(of_level, 1..5), end).prop_map(|(levels, end)| {
        let end = (end, "");
        let matcher = |(level, (op, value)): (usize, (MatchOp, &str))| {
            Matcher::new(label_of_level(level).unwrap(), op, value).unwrap()
        };
        levels.into_iter().chain([end]).enumerate().map(matcher).collect()
    })
}

proptest! {
    /// The tree of paths returns the nodes of the matching series. The paths include some that end where
    /// others continue, history of archives and series without a path, at arbitrary times.
    #[test]
    fn nodes_of_paths_are_from_matching_series(
        paths in prop::collection::vec((prop::collection::vec(0..9_usize, 1..5), 0..100_i64), 1..200),
        matchers in conditions_on_levels(),
        times in (0..100_i64, 0..120_i64),
        told in prop::collection::vec(0..4_usize, 1..4),
    ) {
        let names = ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b-c", "c"];
        let mut samples = SampleBatch::new(TenantId::default_tenant());
        for (nodes, time) in &paths {
            let path = nodes.iter().map(|node| names[*node]).collect::<Vec<_>>().join(".");
            let labels = labels_of_path(&path).unwrap();
            let pairs = labels.iter().chain([(ARCHIVE, "60")]);
            let archive = Labels::from_pairs(pairs);
            for labels in [labels.clone(), archive] {
                samples.push(Arc::new(labels), [(*time, 1.0)]);
            }
        }
        samples.push(labels("up", "a"), [(50, 1.0)]);
        let (head, budget) = head_of(&[samples]);
        let tenant = TenantId::default_tenant();
        let range = TimeRange::new(times.0 * 1_000_000, (times.0 + times.1) * 1_000_000);
        let levels = matchers.len() - 1;
        let labels: Vec<String> = told
            .iter()
            .map(|level| label_of_level(level % levels).unwrap().to_owned())
            .collect();
        for range in [range, TimeRange::ALL] {
            let wanted = JoinedLabels { labels: labels.clone(), separator: '.', limit: 1_000 };
            let of_series = head.matching(&tenant, &matchers, range).joined_values(&wanted);
            let joined = head.joined_values(&tenant, &wanted, &matchers, range);
            prop_assert_eq!(texts_of(&joined), texts_of(&of_series));
            let of_series = head.matching(&tenant, &matchers, range).sorted_values(&labels[0]);
            let sorted = head.sorted_values(&tenant, &labels[0], &matchers, range);
            prop_assert!(sorted.iter(0).eq(of_series.iter(0)));
        }
        drop(head);
        prop_assert_eq!(budget.used(), 0);
    }
}

/// A search for nodes does not examine series of which it knows the parents not to match.
#[test]
fn the_examined_nodes_are_those_below_the_fixed_names() {
    let mut samples = SampleBatch::new(TenantId::default_tenant());
    for n in 0..30_000_i64 {
        let labels = labels_of_path(&format!("a.b{}.c{}", n / 10_000, n % 10_000)).unwrap();
        samples.push(Arc::new(labels), [(n, 1.0)]);
    }
    let (head, _) = head_of(&[samples]);
    let examined = |levels: &[&str], end: MatchOp, range| {
        let of_level = |(level, text): (usize, &&str)| {
            let op = if text.contains('*') { MatchOp::Regex } else { MatchOp::Equal };
            Matcher::new(label_of_level(level).unwrap(), op, *text).unwrap()
        };
        let mut matchers: Vec<Matcher> = levels.iter().enumerate().map(of_level).collect();
        matchers.push(Matcher::new(label_of_level(levels.len()).unwrap(), end, "").unwrap());
        head.examined(&TenantId::default_tenant(), &matchers, range)
    };
    for (levels, branches, leaves) in [
        (&["a", "b.*"][..], 3, 0),
        (&["a", "b1", "c.*"], 0, 10_000),
        (&["a", "b.*", "c.*"], 30_000, 30_000),
        (&["a", "b.*", "c7"], 3, 3),
        (&["a", "x", "c.*"], 0, 0),
        (&["a.*"], 1, 0),
    ] {
        assert_eq!(examined(levels, MatchOp::NotEqual, TimeRange::ALL), branches, "{levels:?}");
        assert_eq!(examined(levels, MatchOp::Equal, TimeRange::ALL), leaves, "{levels:?}");
    }
    let late = TimeRange::new(20_000_000_000, i64::MAX);
    assert_eq!(examined(&["a", "b.*"], MatchOp::NotEqual, late), 30_000, "series without samples");
}
