//! Blocks against the samples they were made of, and against damage.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_model::{MatchOp, Matcher, TenantId, TimeRange};

use super::*;
use crate::block::{BlockIndex, BlockSummary, SeriesList};

/// Milliseconds that fit into nanoseconds.
const TIME_MAX: i64 = i64::MAX / 1_000_000;

type Samples = BTreeMap<(String, String), BTreeMap<i64, u64>>;

fn block_of(samples: &Samples, page_rows: u32) -> (Vec<u8>, BlockSummary) {
    let mut options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 1);
    options.page_rows = page_rows;
    let mut list = SeriesList::default();
    for (name, pod) in samples.keys() {
        list.push([("__name__", name.as_str()), ("pod", pod.as_str())].into_iter()).unwrap();
    }
    let mut writer = BlockWriter::new(options, list);
    for (series, rows) in samples.values().enumerate() {
        for (time, bits) in rows {
            writer.push(series as u32, *time, f64::from_bits(*bits)).unwrap();
        }
    }
    let mut out = Vec::new();
    let summary = writer.finish(&mut out).unwrap();
    (out.concat(), summary)
}

fn open(block: &[u8], summary: &BlockSummary) -> Footer {
    Footer::open(Bytes::copy_from_slice(&block[summary.footer_offset as usize..])).unwrap()
}

fn piece(block: &[u8], page: &PageEntry) -> Bytes {
    Bytes::copy_from_slice(&block[page.piece.offset as usize..page.piece.end() as usize])
}

fn read(block: &[u8], footer: &Footer) -> Samples {
    let mut found = Samples::new();
    for page in footer.pages() {
        let decoded = page.decode(&piece(block, page)).unwrap();
        for run in &decoded.runs {
            let labels = footer.series().labels(run.series);
            let key = (labels.get("__name__").unwrap().to_owned(), labels.get("pod").unwrap().to_owned());
            let rows = run.start as usize..run.end as usize;
            let samples = decoded.timestamps[rows.clone()].iter().zip(&decoded.values[rows]);
            found.entry(key).or_default().extend(samples.map(|(time, value)| (*time, value.to_bits())));
        }
    }
    found
}

fn some_samples() -> Samples {
    let mut samples = Samples::new();
    for pod in 0..50 {
        let rows = (0..=pod).map(|n| (1_795_176_000_000 + n * 15_000, ((n * pod) as f64).to_bits()));
        samples.insert(("up".to_owned(), format!("pod-{pod:02}")), rows.collect());
    }
    samples
}

#[test]
fn a_block_says_what_it_holds() {
    let samples = some_samples();
    let (block, summary) = block_of(&samples, 100);
    let footer = open(&block, &summary);
    check_header(&block).unwrap();
    assert_eq!(read(&block, &footer), samples);
    assert_eq!((summary.rows, summary.raw_bytes, summary.streams), (1_275, 1_275 * 16, 50));
    assert_eq!(summary.min_ts, 1_795_176_000_000_000_000);
    assert_eq!((footer.object_bytes(), summary.size), (block.len() as u64, block.len() as u64));
    let covered: u64 = footer.pieces().iter().map(|(_, piece)| u64::from(piece.len)).sum();
    assert_eq!(covered + 8, footer.offset(), "every byte between header and footer has a checksum");
}

#[test]
fn pages_are_found_by_series_and_time() {
    let (block, summary) = block_of(&some_samples(), 100);
    let footer = open(&block, &summary);
    let one = Matcher::new("pod", MatchOp::Equal, "pod-30").unwrap();
    let series = footer.select(&[one]).unwrap();
    assert_eq!(series.iter().collect::<Vec<_>>(), [30]);
    let pages = footer.pages_of(&series, TimeRange::ALL);
    assert!((1..=2).contains(&pages.len()), "{pages:?}");
    let late = TimeRange::new(1_795_176_000_000_000_000 + 40 * 15_000_000_000, i64::MAX);
    let all = footer.select(&[]).unwrap();
    assert!(footer.pages_of(&all, late).len() < footer.pages().len());
    assert!(footer.pages_of(&series, TimeRange::new(0, 1)).is_empty());
    assert!(footer.pages_of(&Default::default(), TimeRange::ALL).is_empty());
}

#[test]
fn disorder_is_refused() {
    let options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 0);
    let mut list = SeriesList::default();
    list.push([("pod", "a")].into_iter()).unwrap();
    list.push([("pod", "b")].into_iter()).unwrap();
    let mut writer = BlockWriter::new(options, list);
    writer.push(0, 5, 1.0).unwrap();
    assert!(writer.push(0, 5, 1.0).is_err(), "the same time again");
    assert!(writer.push(0, 4, 1.0).is_err());
    writer.push(1, 1, 1.0).unwrap();
    assert!(writer.push(0, 9, 1.0).is_err());
    assert!(writer.push(2, 9, 1.0).is_err());
    assert!(writer.push(1, i64::MAX, 1.0).is_err(), "no nanoseconds");
}

#[test]
fn every_flipped_byte_is_noticed() {
    let (block, summary) = block_of(&some_samples(), 400);
    for at in 0..block.len() {
        let mut damaged = block.clone();
        damaged[at] ^= 0x10;
        let noticed = check_header(&damaged).is_err()
            || match Footer::open(Bytes::copy_from_slice(&damaged[summary.footer_offset as usize..])) {
                Err(_) => true,
                Ok(footer) => footer.pages().iter().any(|page| page.decode(&piece(&damaged, page)).is_err()),
            };
        assert!(noticed, "byte {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_samples_come_back_bit_for_bit(
        samples in prop::collection::btree_map(
            ("[a-c]{1,2}", "[a-c]{1,3}"),
            prop::collection::btree_map(-TIME_MAX..TIME_MAX, any::<u64>(), 1..40),
            0..12,
        ),
        page_rows in 1..50u32,
    ) {
        let (block, summary) = block_of(&samples, page_rows);
        prop_assert_eq!(read(&block, &open(&block, &summary)), samples);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        rows in 1..200u32,
    ) {
        let _ = Footer::open(Bytes::from(bytes.clone()));
        let entry = PageEntry {
            piece: crate::codec::Piece::of(8, &bytes),
            plain_len: 300,
            rows,
            min_ts: i64::MIN,
            max_ts: i64::MAX,
            first_series: 0,
            last_series: 0,
        };
        let _ = entry.decode(&Bytes::from(bytes));
    }
}
