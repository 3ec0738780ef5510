//! A block of each version, stored in the repository, which every later version must still read.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::Id;
use sandur_model::histogram::{Buckets, CounterReset, FloatHistogram};
use sandur_model::{Exemplar, Labels, MetricKind, MetricMetadata, TenantId, TimeRange};

use super::*;
use crate::block::{BlockIndex, BlockOrigin};
use crate::catalog_entry::{LogPosition, WritePlace};
use crate::stamp::{COUNTER_BITS, Stamp, StampSpan};

const VERSION_3: &[u8] = include_bytes!("../../fixtures/sample-block-v3.bin");
const VERSION_4: &[u8] = include_bytes!("../../fixtures/sample-block-v4.bin");
const VERSION_5: &[u8] = include_bytes!("../../fixtures/sample-block-v5.bin");
const VERSION_6: &[u8] = include_bytes!("../../fixtures/sample-block-v6.bin");
const VERSION_7: &[u8] = include_bytes!("../../fixtures/sample-block-v7.bin");
const VERSION_8: &[u8] = include_bytes!("../../fixtures/sample-block-v8.bin");

/// Only blocks of version 6 and later hold the last three.
const SERIES: [&[(&str, &str)]; 8] = [
    &[("__name__", "b_bucket"), ("le", "0.5"), ("pod", "a")],
    &[("__name__", "b_bucket"), ("le", "1"), ("pod", "a")],
    &[("__name__", "b_bucket"), ("le", "+Inf"), ("pod", "a")],
    &[("__name__", "native")],
    &[("__name__", "up"), ("pod", "c")],
    &[("__graphite__", "tagged"), ("__name__", "used"), ("host", "a")],
    &[
        ("__archive__", "60"),
        ("__graphite__", "tagged"),
        ("__name__", "used"),
        ("__rollup__", "count_10s"),
        ("host", "b"),
    ],
    &[("__graphite__", "tagged"), ("__name__", "used"), ("host", "b")],
];
const NATIVE: u32 = 3;

fn origin() -> BlockOrigin {
    let seen = LogPosition { number: 300, checksum: 0xfeed };
    let inputs = vec![Id::from_parts(5, 7), Id::from_parts(6, 8)];
    let (block, place) = (Id::from_parts(9, 1), WritePlace::of(299, 2, 1).0);
    BlockOrigin { block, seen, deletes_through: 290, inputs, place }
}

/// Returns the stamp of sample `n` of a series, with some frames of one millisecond. Series 1 has none,
/// series 4 has samples of two writers and some without a stamp, and of native histograms some have none.
fn stamp(series: u32, n: u32) -> Stamp {
    let time = (1_795_176_000_000 + u64::from(n / 3) * 15_003) << COUNTER_BITS | u64::from(n % 3);
    match (series, n) {
        (1, _) | (4, 0..5) | (NATIVE, 50..) => Stamp::default(),
        (4, n) => Stamp { time, incarnation: Id::from_parts(3, u128::from(n % 2)) },
        _ => Stamp { time, incarnation: Id::from_parts(3, 1) },
    }
}

/// Returns sample `n` of a series: ordinary numbers, a stale marker, infinities, an ordinary NaN.
fn sample(series: u32, n: u32) -> (i64, u64, i64) {
    let time = 1_795_176_000_000 + i64::from(n) * 15_000 + i64::from(n.is_multiple_of(7));
    let bits = match (series, n) {
        (4, 7) => 0x7ff0_0000_0000_0002,
        (4, 8) => f64::INFINITY.to_bits(),
        (4, 9) => 0x7ff8_0000_0000_0001,
        (4, n) => (f64::from(n) * 0.1 + 1.0 / 3.0).to_bits(),
        (series, n) => f64::from(n * 3 * (series + 1)).to_bits(),
    };
    let start = if series == 4 { 1_795_175_000_000 + i64::from(n / 20) } else { 0 };
    (time, bits, start)
}

fn histogram(n: u32) -> FloatHistogram {
    let count = |m: u32| f64::from(n * m);
    let indices: Vec<i32> = if n < 20 { vec![-1, 0, 4] } else { vec![-1, 0, 4, 5] };
    let counts = indices.iter().map(|index| count(index.unsigned_abs())).collect();
    FloatHistogram {
        reset: [CounterReset::Unknown, CounterReset::NotReset, CounterReset::Gauge][n as usize % 3],
        schema: 3,
        zero_threshold: 0.001,
        zero_count: count(2),
        count: count(9),
        sum: if n == 11 { f64::from_bits(0x7ff0_0000_0000_0002) } else { f64::from(n) * 0.7 },
        positive: Buckets { indices, counts },
        negative: Buckets { indices: vec![2], counts: vec![0.5] },
        bounds: Arc::default(),
    }
}

fn write_fixture() -> Vec<u8> {
    let tenant = TenantId::new("fixture").unwrap();
    let window = TimeRange::new(1_795_176_000_000_000_000, 1_795_183_200_000_000_000);
    let mut options = BlockOptions::new(tenant, window, 1);
    (options.page_rows, options.origin, options.stamped) = (50, origin(), true);
    let mut writer = BlockWriter::new(options);
    for labels in SERIES {
        let series = writer.push_series(labels.iter().copied()).unwrap();
        let samples: Vec<(i64, u64, i64)> = (0..60).map(|n| sample(series, n)).collect();
        let times: Vec<i64> = samples.iter().map(|sample| sample.0).collect();
        let stamps: Vec<Stamp> = (0..60).map(|n| stamp(series, n)).collect();
        let stamps = if series == 1 { &[] } else { &stamps[..] };
        if series == NATIVE {
            let histograms: Vec<_> = (0..60).map(|n| Arc::new(histogram(n))).collect();
            let integers: Vec<bool> = (0..60).map(|n| n < 40).collect();
            let (times, integers) = (&times, &integers);
            let all = Histograms { times, histograms: &histograms, integers, starts: &[], stamps };
            writer.push_histograms(series, all).unwrap();
            continue;
        }
        let values: Vec<f64> = samples.iter().map(|sample| f64::from_bits(sample.1)).collect();
        let starts: Vec<i64> = samples.iter().map(|sample| sample.2).collect();
        let starts = if series == 4 { &starts[..] } else { &[] };
        writer.push_floats(series, Floats { times: &times, values: &values, starts, stamps }).unwrap();
    }
    exemplars().into_iter().for_each(|of| writer.push_exemplars(of).unwrap());
    metadata().iter().for_each(|one| writer.push_metadata(one).unwrap());
    let mut out = Vec::new();
    writer.finish(&mut out).unwrap();
    out.concat()
}

/// Returns exemplars of a series of the block and of another one.
fn exemplars() -> Vec<SeriesExemplars> {
    let exemplar = |n: u64| Exemplar {
        labels: match n % 3 {
            0 => Labels::default(),
            1 => {
                Labels::from_pairs([("trace_id", format!("{:032x}", u128::from(n) * 0x9E37_79B9_7F4A_7C15))])
            }
            _ => Labels::from_pairs([("span_id", format!("{n:016x}")), ("trace_id", "é".to_owned())]),
        },
        value: if n == 3 { f64::from_bits(0x7ff0_0000_0000_0002) } else { n as f64 * 0.1 },
        timestamp: 1_795_176_000_000 + n as i64 * 15_250,
    };
    let of = |labels: &[(&str, &str)], from, to| SeriesExemplars {
        labels: Labels::from_pairs(labels.iter().copied()),
        exemplars: (from..to).map(exemplar).collect(),
    };
    vec![of(SERIES[1], 0, 7), of(&[("__name__", "gone"), ("pod", "z")], 3, 5)]
}

fn metadata() -> Vec<MetricMetadata> {
    let of = |family: &str, kind, unit: &str, help: &str| {
        let (family, unit, help) = (family.into(), unit.into(), help.into());
        MetricMetadata { family, kind, unit, help }
    };
    vec![
        of("b", MetricKind::Histogram, "seconds", "Of b, in \"seconds\"."),
        of("up", MetricKind::Gauge, "", "Whether it is up."),
        of("up", MetricKind::Gauge, "", "Whether it was up."),
    ]
}

#[test]
fn the_fixtures_are_read_bit_for_bit() {
    check_fixture(VERSION_3, 3);
    check_fixture(VERSION_4, 4);
    check_fixture(VERSION_5, 5);
    check_fixture(VERSION_6, 6);
    check_fixture(VERSION_7, 7);
    check_fixture(VERSION_8, 8);
}

#[test]
fn a_block_holds_its_place_in_the_order_of_writing() {
    assert_eq!(origin().assumed_place(), origin().place);
    let unknown = BlockOrigin { place: 0, ..origin() };
    assert_eq!(unknown.assumed_place(), 0, "version 4 does not store it for merged blocks");
    // A block from a flush is placed after all entries that its maker had seen.
    let flushed = BlockOrigin { inputs: Vec::new(), ..unknown }.assumed_place();
    assert!(WritePlace::of(300, 255, 65_535).0 < flushed && flushed < WritePlace::of(301, 0, 0).0);
}

fn check_fixture(object: &'static [u8], version: u16) {
    let (footer, pages) = pages_of_object(&Bytes::from_static(object)).unwrap();
    let of_version = if version < 6 { &SERIES[..5] } else { &SERIES };
    let rows = of_version.len() as u64 * 60;
    assert_eq!((footer.info().version, footer.info().level, footer.info().rows), (version, 1, rows));
    assert_eq!(footer.info().tenant, TenantId::new("fixture").unwrap());
    let place = if version < 5 { 0 } else { origin().place };
    let block = if version < 7 { Id::default() } else { origin().block };
    assert_eq!(footer.origin(), Some(&BlockOrigin { block, place, ..origin() }));
    let (first, last) = (0, stamp(0, 59).time);
    assert_eq!(footer.stamps(), (version >= 8).then_some(StampSpan { first, last }));
    // A complete object passes too.
    footer.check_header(object).unwrap();
    let annotations = annotations_of_object(&Bytes::from_static(object), &footer).unwrap();
    assert_eq!(format!("{annotations:?}"), format!("{:?}", (exemplars(), metadata())));
    let stale = annotations.0[0].exemplars[3].value;
    assert_eq!(stale.to_bits(), 0x7ff0_0000_0000_0002);
    let series = WholeSeries::of_object(&Bytes::from_static(object), &footer).unwrap();
    for (ordinal, labels) in (0..).zip(of_version) {
        assert_eq!(series.labels(ordinal), sandur_model::Labels::from_pairs(labels.iter().copied()));
        assert_eq!(series.span(ordinal).rows, 60);
    }
    let mut seen = vec![0u32; of_version.len()];
    for page in pages {
        for run in &page.runs {
            let next = &mut seen[run.series as usize];
            for (row, time) in run.rows().zip(run.times.iter()) {
                let (at, bits, start) = sample(run.series, *next);
                let found =
                    run.stamps.as_ref().map_or(Stamp::default(), |of| of.at(row - run.start as usize));
                let expected = if version < 8 { Stamp::default() } else { stamp(run.series, *next) };
                assert_eq!(found, expected, "series {} sample {next}", run.series);
                assert_eq!((*time, page.starts.get(row).copied().unwrap_or(0)), (at, start));
                match run.series {
                    NATIVE => {
                        assert!(page.histograms[row].same_data(&histogram(*next)));
                        assert_eq!(page.histograms[row].reset, histogram(*next).reset);
                        assert_eq!(page.integers[row], *next < 40);
                    }
                    _ => assert_eq!(page.values[row].to_bits(), bits),
                }
                *next += 1;
            }
        }
    }
    assert_eq!(seen, vec![60; of_version.len()]);
}

#[test]
fn a_block_of_version_2_is_refused() {
    let mut old = VERSION_3.to_vec();
    let at = old.len() - 12;
    old[at..at + 2].copy_from_slice(&2u16.to_le_bytes());
    let trailer = old.len() - crate::block::TRAILER_LEN;
    let crc = crate::codec::crc32c(&old[trailer..trailer + 20]);
    old[trailer + 20..trailer + 24].copy_from_slice(&crc.to_le_bytes());
    let error = pages_of_object(&Bytes::from(old)).unwrap_err();
    assert!(matches!(error, crate::Error::Version { found: 2, .. }), "{error}");
}

#[test]
#[ignore = "writes the fixture, for a new version of the format only"]
fn write_the_fixture() {
    std::fs::write("fixtures/sample-block-v8.bin", write_fixture()).unwrap();
}
