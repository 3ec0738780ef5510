//! Compares the exemplars and metadata of blocks with the written ones, and tests damage.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_model::{Exemplar, Labels, MatchOp, Matcher, MetricKind, MetricMetadata, TenantId, TimeRange};

use super::*;
use crate::block::{BlockIndex, compare_series};

fn writer() -> BlockWriter {
    let options = BlockOptions::new(TenantId::default_tenant(), TimeRange::new(0, 7_200_000_000_000), 1);
    BlockWriter::new(options)
}

fn block_of(exemplars: &[SeriesExemplars], metadata: &[MetricMetadata]) -> (Bytes, Footer) {
    let mut writer = writer();
    exemplars.iter().for_each(|of| writer.push_exemplars(of.clone()).unwrap());
    metadata.iter().for_each(|one| writer.push_metadata(one).unwrap());
    let mut out = Vec::new();
    let summary = writer.finish(&mut out).unwrap();
    let block = Bytes::from(out.concat());
    let footer = Footer::open(block.slice(summary.footer_offset as usize..)).unwrap();
    assert_eq!((summary.min_ts, summary.max_ts), (footer.info().min_ts, footer.info().max_ts));
    (block, footer)
}

fn exemplar(timestamp: i64, trace: &str) -> Exemplar {
    Exemplar { labels: Labels::from_pairs([("trace_id", trace)]), value: timestamp as f64, timestamp }
}

fn of(name: &str, exemplars: Vec<Exemplar>) -> SeriesExemplars {
    SeriesExemplars { labels: Labels::from_pairs([("__name__", name), ("pod", "a")]), exemplars }
}

fn description(family: &str, help: &str) -> MetricMetadata {
    MetricMetadata { family: family.into(), kind: MetricKind::Gauge, unit: "".into(), help: help.into() }
}

#[test]
fn a_block_without_series_holds_exemplars_and_metadata() {
    let (exemplars, metadata) = (vec![of("a", vec![exemplar(5_000, "x")])], vec![description("a", "Of a.")]);
    let (block, footer) = block_of(&exemplars, &metadata);
    assert_eq!(annotations_of_object(&block, &footer).unwrap(), (exemplars, metadata.clone()));
    assert_eq!((footer.info().rows, footer.info().min_ts), (0, 5_000_000_000));
    let (block, footer) = block_of(&[], &metadata);
    assert_eq!(annotations_of_object(&block, &footer).unwrap(), (Vec::new(), metadata));
    assert_eq!((footer.info().min_ts, footer.info().max_ts), (0, 0), "the start of its window");
}

#[test]
fn duplicate_exemplars_are_dropped_and_the_newest_are_kept() {
    let many = (0..EXEMPLARS_OF_SERIES_MAX as i64 + 10).rev().map(|n| exemplar(n, "x"));
    let mut twice: Vec<Exemplar> = many.collect();
    twice.extend(twice.clone());
    let (block, footer) = block_of(&[of("a", twice)], &[]);
    let (found, _) = annotations_of_object(&block, &footer).unwrap();
    let times: Vec<i64> = found[0].exemplars.iter().map(|one| one.timestamp).collect();
    assert_eq!(times, (10..EXEMPLARS_OF_SERIES_MAX as i64 + 10).collect::<Vec<_>>());
    let long = "x".repeat(1 << 19);
    let (block, footer) = block_of(&[of("a", (0..5).map(|n| exemplar(n, &long)).collect())], &[]);
    let (found, _) = annotations_of_object(&block, &footer).unwrap();
    assert_eq!(found[0].exemplars, [exemplar(4, &long)], "bounded by bytes");
}

#[test]
fn exemplars_and_metadata_too_large_for_a_page_are_dropped() {
    let long = "x".repeat(2 << 20);
    let labels = Labels::from_pairs([("__name__", long.as_str())]);
    let series = SeriesExemplars { labels, exemplars: vec![exemplar(1, "x")] };
    let (block, footer) = block_of(&[of("a", vec![exemplar(1, &long)]), series], &[description("a", &long)]);
    assert_eq!(annotations_of_object(&block, &footer).unwrap(), (Vec::new(), Vec::new()));
}

#[test]
fn unsorted_input_is_refused() {
    let mut writer = writer();
    writer.push_exemplars(of("b", vec![exemplar(1, "x")])).unwrap();
    assert!(writer.push_exemplars(of("b", vec![exemplar(2, "x")])).is_err());
    assert!(writer.push_exemplars(of("a", vec![exemplar(2, "x")])).is_err());
    assert!(writer.push_exemplars(of("c", vec![exemplar(i64::MAX, "x")])).is_err(), "out of range");
    writer.push_metadata(&description("b", "2")).unwrap();
    assert!(writer.push_metadata(&description("b", "2")).is_err());
    assert!(writer.push_metadata(&description("a", "2")).is_err());
}

#[test]
fn pages_are_found_by_metric_time_and_family() {
    let times = |from: i64| (from..from + 600).map(|n| exemplar(n * 1_000, "0123456789abcdef")).collect();
    let exemplars: Vec<SeriesExemplars> =
        (0..40).map(|n| of(&format!("m{n:02}"), times(n * 1_000))).collect();
    let help = "x".repeat(4_000);
    let metadata: Vec<MetricMetadata> = (0..100).map(|n| description(&format!("m{n:02}"), &help)).collect();
    let (block, footer) = block_of(&exemplars, &metadata);
    assert_eq!(annotations_of_object(&block, &footer).unwrap(), (exemplars, metadata));
    assert!(footer.exemplars().len() > 4 && footer.metadata().len() > 2);
    let may_hold = |value: &str, range| {
        let name = Matcher::new("__name__", MatchOp::Equal, value).unwrap();
        footer.exemplars().iter().filter(|page| page.may_hold(std::slice::from_ref(&name), range)).count()
    };
    assert!((1..=2).contains(&may_hold("m07", TimeRange::ALL)));
    assert_eq!((may_hold("zz", TimeRange::ALL), may_hold("m07", TimeRange::new(0, 1))), (0, 0));
    let may_describe = footer.metadata().iter().filter(|page| page.may_describe("m50")).count();
    assert_eq!(may_describe, 1);
}

#[test]
fn every_flipped_byte_is_detected() {
    let exemplars = vec![of("a", (0..20).map(|n| exemplar(n, &format!("{n:032x}"))).collect())];
    let (block, footer) = block_of(&exemplars, &[description("a", "1"), description("b", "2")]);
    for at in 8..block.len() {
        let mut damaged = block.to_vec();
        damaged[at] ^= 0x10;
        let damaged = Bytes::from(damaged);
        let read = Footer::open(damaged.slice(footer.offset() as usize..));
        let read = read.and_then(|footer| annotations_of_object(&damaged, &footer));
        assert!(read.is_err(), "byte {at}");
    }
}

fn labels() -> impl Strategy<Value = Labels> {
    let pairs = prop::collection::btree_map("[a-c]{1,2}", "[x-zé]{0,3}", 0..4);
    pairs.prop_map(Labels::from_pairs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_exemplars_round_trip_bit_for_bit(
        series in prop::collection::vec(
            (labels(), prop::collection::vec((labels(), any::<u64>(), -99_000_000i64..99_000_000), 1..30)),
            0..20,
        ),
    ) {
        let mut all: BTreeMap<Labels, Vec<Exemplar>> = BTreeMap::new();
        for (labels, exemplars) in series {
            let one = |(labels, bits, timestamp)| Exemplar { labels, value: f64::from_bits(bits), timestamp };
            all.entry(labels).or_default().extend(exemplars.into_iter().map(one));
        }
        let mut all: Vec<SeriesExemplars> =
            all.into_iter().map(|(labels, exemplars)| SeriesExemplars { labels, exemplars }).collect();
        all.sort_by(|a, b| compare_series(a.labels.iter(), b.labels.iter()));
        let (block, footer) = block_of(&all, &[]);
        all.iter_mut().for_each(|of| Exemplar::sort(&mut of.exemplars));
        // Includes NaN: compared by text, which shows each double's shortest form, and by bits.
        let bits = |all: &[SeriesExemplars]| -> Vec<u64> {
            all.iter().flat_map(|of| &of.exemplars).map(|one| one.value.to_bits()).collect()
        };
        let (found, _) = annotations_of_object(&block, &footer).unwrap();
        prop_assert_eq!(bits(&found), bits(&all));
        prop_assert_eq!(format!("{found:?}"), format!("{all:?}"));
    }

    #[test]
    fn any_plain_bytes_are_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        (series, exemplars, held) in (0..9u32, 0..9u32, 0..2_000u32),
    ) {
        let _ = exemplars_of_plain(&bytes, (series, exemplars, held));
        let _ = metadata_of_plain(&bytes, exemplars);
    }
}
