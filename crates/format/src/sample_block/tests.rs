//! Compares blocks with the samples that were written, and tests damage.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_model::histogram::{Buckets, FloatHistogram};
use sandur_model::{MatchOp, Matcher, TenantId, TimeRange};

use super::*;
use crate::block::{BlockIndex, BlockSummary, compare_series};

/// Latest time in milliseconds that fits into nanoseconds.
const TIME_MAX: i64 = i64::MAX / 1_000_000;

/// Bits of values, by metric and bound, and time.
type Samples = BTreeMap<(String, String), BTreeMap<i64, u64>>;

fn sorted(samples: &Samples) -> Vec<(Vec<(&str, &str)>, &BTreeMap<i64, u64>)> {
    let mut all: Vec<_> = samples
        .iter()
        .map(|((name, le), rows)| (vec![("__name__", name.as_str()), ("le", le.as_str())], rows))
        .collect();
    all.sort_by(|a, b| compare_series(a.0.iter().copied(), b.0.iter().copied()));
    all
}

fn block_of(samples: &Samples, page_rows: u32) -> (Bytes, BlockSummary) {
    let mut options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 1);
    (options.page_rows, options.group_rows) = (page_rows, u64::from(page_rows) * 5);
    let (mut writer, series) = (BlockWriter::new(options), sorted(samples));
    for (labels, _) in &series {
        writer.push_series(labels.iter().copied()).unwrap();
    }
    for (ordinal, (_, rows)) in series.iter().enumerate() {
        let times: Vec<i64> = rows.keys().copied().collect();
        let values: Vec<f64> = rows.values().map(|bits| f64::from_bits(*bits)).collect();
        let half = times.len() / 2;
        for rows in [0..half, half..times.len()] {
            let floats =
                Floats { times: &times[rows.clone()], values: &values[rows], starts: &[], stamps: &[] };
            writer.push_floats(ordinal as u32, floats).unwrap();
        }
    }
    let mut out = Vec::new();
    let summary = writer.finish(&mut out).unwrap();
    (Bytes::from(out.concat()), summary)
}

fn open(block: &Bytes, summary: &BlockSummary) -> Footer {
    Footer::open(block.slice(summary.footer_offset as usize..)).unwrap()
}

fn read(block: &Bytes) -> Result<Samples, crate::Error> {
    read_between(block, (i64::MIN, i64::MAX), Values::All)
}

fn read_between(block: &Bytes, wanted: (i64, i64), values: Values) -> Result<Samples, crate::Error> {
    let mut found = Samples::new();
    let (footer, pages) = super::whole::pages_between(block, wanted, values)?;
    let series = WholeSeries::of_object(block, &footer)?;
    for page in pages {
        for run in &page.runs {
            let labels = series.labels(run.series);
            let key = (labels.get("__name__").unwrap().to_owned(), labels.get("le").unwrap().to_owned());
            let samples = run.times[run.skipped as usize..].iter().zip(&page.values[run.rows()]);
            found.entry(key).or_default().extend(samples.map(|(time, value)| (*time, value.to_bits())));
        }
    }
    Ok(found)
}

/// Bits of any value, often of one with few decimal places or of a stale marker.
fn bits() -> impl Strategy<Value = u64> {
    let few_places = (0u32..1_000).prop_map(|n| (f64::from(n) * 0.5).to_bits());
    prop_oneof![1 => any::<u64>(), 6 => few_places, 1 => Just(sandur_model::STALE_BITS)]
}

/// Replaces every stale marker by 1 and other values by 0.
fn staleness(mut samples: Samples) -> Samples {
    let marks = samples.values_mut().flat_map(BTreeMap::values_mut);
    marks.for_each(|bits| *bits = u64::from(sandur_model::is_stale(f64::from_bits(*bits))));
    samples
}

fn some_samples() -> Samples {
    let mut samples = Samples::new();
    for le in 0..50 {
        let rows = (0..=le).map(|n| (1_795_176_000_000 + n * 15_000, ((n * le) as f64).to_bits()));
        samples.insert(("up".to_owned(), format!("{le:02}")), rows.collect());
    }
    samples
}

#[test]
fn a_block_has_the_properties_of_its_samples() {
    let samples = some_samples();
    let (block, summary) = block_of(&samples, 100);
    let footer = open(&block, &summary);
    check_header(&block).unwrap();
    assert_eq!(read(&block).unwrap(), samples);
    assert_eq!((summary.rows, summary.raw_bytes, summary.streams), (1_275, 1_275 * 16, 50));
    assert_eq!(summary.min_ts, 1_795_176_000_000_000_000);
    assert_eq!((footer.object_bytes(), summary.size), (block.len() as u64, block.len() as u64));
    let covered: u64 = footer.pieces().iter().map(|(_, piece)| u64::from(piece.len)).sum();
    assert_eq!(covered + 8, footer.offset(), "every byte between header and footer has a checksum");
    assert_eq!(footer.page_count(), summary.pages as usize);
}

#[test]
fn groups_and_pages_are_found_by_series_and_time() {
    let (block, summary) = block_of(&some_samples(), 50);
    let footer = open(&block, &summary);
    assert!(footer.groups().len() > 3, "{}", footer.groups().len());
    let one = Matcher::new("le", MatchOp::Equal, "30").unwrap();
    let whole = WholeSeries::of_object(&block, &footer).unwrap();
    let series = whole.select(&[one]);
    assert_eq!(series.iter().collect::<Vec<_>>(), [30]);
    let groups = footer.groups_of(&series, TimeRange::ALL);
    assert!((1..=2).contains(&groups.len()), "{groups:?}");
    let entry = &footer.groups()[groups[0] as usize];
    let bytes = block.slice(entry.piece.offset as usize..entry.piece.end() as usize);
    let group = OpenGroup::open(entry, bytes).unwrap();
    assert!(!group.head().pages_of(&series, TimeRange::ALL).is_empty());
    assert!(group.head().pages_of(&series, TimeRange::new(0, 1)).is_empty());
    let late = TimeRange::new(1_795_176_000_000_000_000 + 40 * 15_000_000_000, i64::MAX);
    let all = whole.select(&[]);
    assert!(footer.groups_of(&all, late).len() < footer.groups().len());
    assert!(footer.groups_of(&series, TimeRange::new(0, 1)).is_empty());
    assert!(footer.groups_of(&Default::default(), TimeRange::ALL).is_empty());
}

#[test]
fn unsorted_input_is_refused() {
    let options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 0);
    let mut writer = BlockWriter::new(options);
    writer.push_series([("pod", "a")].into_iter()).unwrap();
    writer.push_series([("pod", "b")].into_iter()).unwrap();
    assert!(writer.push_series([("pod", "a")].into_iter()).is_err(), "not after the last one");
    assert!(writer.push_series([("pod", "b")].into_iter()).is_err(), "the same again");
    let mut push = |series, times: &[i64]| {
        let values = vec![1.0; times.len()];
        writer.push_floats(series, Floats { times, values: &values, ..Floats::default() })
    };
    push(0, &[5]).unwrap();
    assert!(push(0, &[5]).is_err(), "the same time again");
    assert!(push(0, &[4]).is_err());
    assert!(push(0, &[8, 7]).is_err());
    push(1, &[1]).unwrap();
    assert!(push(0, &[9]).is_err());
    assert!(push(2, &[9]).is_err());
    assert!(push(1, &[i64::MAX]).is_err(), "out of range");
    let histograms = [Arc::new(FloatHistogram::default())];
    let late = Histograms { times: &[9], histograms: &histograms, ..Histograms::default() };
    assert!(writer.push_histograms(0, late).is_err(), "a series before the last one with floats");
}

#[test]
fn every_flipped_byte_is_detected() {
    let (block, _) = block_of(&some_samples(), 400);
    for at in 0..block.len() {
        let mut damaged = block.to_vec();
        damaged[at] ^= 0x10;
        let damaged = Bytes::from(damaged);
        assert!(check_header(&damaged).is_err() || read(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn buckets_of_a_histogram_take_less_than_separate_series() {
    let size = |name: &str, bounds: [&str; 8]| {
        let mut samples = Samples::new();
        let mut total = vec![0u64; 2_000];
        for (bucket, le) in bounds.iter().enumerate() {
            let mut grown = 0u64;
            for (n, total) in total.iter_mut().enumerate() {
                grown += (n as u64 * 0x9E37_79B9 + bucket as u64 * 77_777) % 97;
                *total += grown;
            }
            let rows = total.iter().enumerate();
            let rows = rows.map(|(n, total)| (n as i64 * 15_000, (*total as f64).to_bits())).collect();
            samples
                .insert((format!("{name}{}", if name == "m" { bucket } else { 0 }), (*le).to_owned()), rows);
        }
        block_of(&samples, 8_192).0.len()
    };
    let bounds = ["0.1", "0.2", "0.5", "1", "2", "5", "10", "+Inf"];
    let (together, apart) = (size("h", bounds), size("m", bounds));
    assert!(together * 10 < apart * 9, "{together} and {apart}");
}

fn histogram(shape: u8, n: u32, counts: f64) -> Arc<FloatHistogram> {
    let buckets = |from: i32, many: u8| Buckets {
        indices: (from..from + i32::from(many)).collect(),
        counts: (0..many).map(|bucket| counts * f64::from(bucket) + f64::from(n)).collect(),
    };
    let sum = if n.is_multiple_of(17) { f64::from_bits(0x7ff0_0000_0000_0002) } else { f64::from(n) / 3.0 };
    let (positive, negative) = (buckets(-3, shape), buckets(5, shape / 2));
    Arc::new(FloatHistogram { schema: 3, sum, count: f64::from(n), positive, negative, ..Default::default() })
}

#[test]
fn histograms_and_floats_of_one_series_round_trip() {
    let mut options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 1);
    (options.page_rows, options.group_rows) = (40, 90);
    let mut writer = BlockWriter::new(options);
    for pod in ["a", "b", "c"] {
        writer.push_series([("pod", pod)].into_iter()).unwrap();
    }
    let all: Vec<Arc<FloatHistogram>> =
        (0..100).map(|n| histogram((n / 30) as u8 * 3, n, if n < 50 { 2.0 } else { 0.3 })).collect();
    let times: Vec<i64> = (0..100).map(|n| n * 1_000).collect();
    let starts: Vec<i64> = (0..100).map(|n| if n < 30 { 0 } else { 500 }).collect();
    for series in 0..3 {
        let floats = Floats { times: &times[..10], values: &[1.5; 10], starts: &[], stamps: &[] };
        writer.push_floats(series, floats).unwrap();
        for rows in [0..35, 35..100] {
            let histograms = Histograms {
                times: &times[rows.clone()],
                histograms: &all[rows.clone()],
                integers: &[],
                starts: if rows.start == 0 { &[] } else { &starts[rows] },
                stamps: &[],
            };
            writer.push_histograms(series, histograms).unwrap();
        }
    }
    let mut out = Vec::new();
    writer.finish(&mut out).unwrap();
    let (_, pages) = pages_of_object(&Bytes::from(out.concat())).unwrap();
    let mut found = [0usize; 3];
    for page in pages.iter().filter(|page| !page.histograms.is_empty()) {
        for run in &page.runs {
            let next = &mut found[run.series as usize];
            for (row, time) in run.rows().zip(run.times.iter()) {
                assert_eq!(*time, times[*next]);
                assert!(page.histograms[row].same_data(&all[*next]), "{next}");
                let start = page.starts.get(row).copied().unwrap_or(0);
                assert_eq!(start, if *next < 35 { 0 } else { starts[*next] });
                *next += 1;
            }
        }
    }
    assert_eq!(found, [100; 3]);
    let floats: usize = pages.iter().map(|page| page.values.len()).sum();
    assert_eq!(floats, 30);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_samples_round_trip_bit_for_bit(
        samples in prop::collection::btree_map(
            ("[a-c]{1,2}", "[0-9a]{1,2}"),
            prop::collection::btree_map(-TIME_MAX..TIME_MAX, bits(), 1..40),
            0..12,
        ),
        page_rows in 1..50u32,
    ) {
        let (block, _) = block_of(&samples, page_rows);
        prop_assert_eq!(&read(&block).unwrap(), &samples);
        let present = read_between(&block, (i64::MIN, i64::MAX), Values::Presence).unwrap();
        prop_assert_eq!(staleness(present), staleness(samples));
    }

    #[test]
    fn any_buckets_round_trip_bit_for_bit(
        counts in prop::collection::vec(0u32..50, 2..400),
        buckets in 1usize..9,
        page_rows in 1..5_000u32,
        odd in any::<u64>(),
        between in (0usize..400, 0usize..400),
    ) {
        let mut samples = Samples::new();
        for bucket in 0..buckets {
            let value = |n: usize| f64::from(counts[n]) * (bucket + 1) as f64 * 0.5;
            let mut rows: BTreeMap<i64, u64> =
                (0..counts.len()).map(|n| (n as i64 * 15_000, value(n).to_bits())).collect();
            rows.insert(odd as i64 % 10 * 15_000, odd);
            samples.insert(("m".to_owned(), bucket.to_string()), rows);
        }
        let (block, _) = block_of(&samples, page_rows);
        prop_assert_eq!(read(&block).unwrap(), samples.clone());
        let (first, last) = (between.0 as i64 * 15_000, between.1 as i64 * 15_000);
        samples.values_mut().for_each(|rows| rows.retain(|time, _| (first..=last).contains(time)));
        samples.retain(|_, rows| !rows.is_empty());
        let mut found = read_between(&block, (first, last), Values::All).unwrap();
        found.retain(|_, rows| !rows.is_empty());
        prop_assert_eq!(&found, &samples);
        let mut present = read_between(&block, (first, last), Values::Presence).unwrap();
        present.retain(|_, rows| !rows.is_empty());
        prop_assert_eq!(staleness(present), staleness(samples));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Footer::open(Bytes::from(bytes.clone()));
        let piece = crate::codec::Piece::of(8, &bytes);
        let group = GroupEntry {
            piece,
            head: piece,
            rows: 5,
            pages: 1,
            first_series: 0,
            last_series: 9,
            min_ms: 0,
            max_ms: 99,
            first_list: 0,
            last_list: 3,
        };
        let _ = OpenGroup::open(&group, Bytes::from(bytes.clone()));
        let times = TimePageEntry { piece, first_list: 0, lists: 2, times: 30, stamped: false };
        let _ = times.decode(&bytes);
    }
}
