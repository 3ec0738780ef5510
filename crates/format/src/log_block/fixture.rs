//! A block of each version, stored in the repository, which every later version must still read.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::Id;
use sandur_model::{Labels, Level, LogPage, MatchOp, Matcher, TenantId, TimeRange};

use super::*;
use crate::block::{BlockIndex, BlockOrigin};
use crate::catalog_entry::LogPosition;
use crate::error::Error;
use crate::needle::{FilterSegment, SegmentPieces, needle_keys};

const VERSION_1: &[u8] = include_bytes!("../../fixtures/log-block-v1.bin");
const VERSION_2: &[u8] = include_bytes!("../../fixtures/log-block-v2.bin");
const VERSION_3: &[u8] = include_bytes!("../../fixtures/log-block-v3.bin");

const VERSION_4: &[u8] = include_bytes!("../../fixtures/log-block-v4.bin");

const VERSION_5: &[u8] = include_bytes!("../../fixtures/log-block-v5.bin");

const VERSION_6: &[u8] = include_bytes!("../../fixtures/log-block-v6.bin");

const ROWS: u32 = 120;

fn streams() -> Vec<Arc<Labels>> {
    let pairs =
        [[("app", "api"), ("pod", "a")], [("app", "api"), ("pod", "b")], [("app", "web"), ("zone", "x")]];
    pairs.into_iter().map(|pairs| Arc::new(Labels::from_pairs(pairs))).collect()
}

/// Returns row `n` of each stream: timestamp, level, metadata, line. All encodings of all columns occur.
fn row(stream: u32, n: u32) -> (i64, Level, Vec<(String, String)>, Vec<u8>) {
    let id =
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&[stream.to_le_bytes(), n.to_le_bytes()].concat()));
    let timestamp = 1_795_176_000_000_000_000 + i64::from(n) * 1_500_000_000 + i64::from(stream);
    let level = match stream {
        0 => Level::Info,
        1 => Level::EVERY[n as usize % 9],
        _ => Level::None,
    };
    let mut metadata = vec![("constant".to_owned(), "same everywhere".to_owned())];
    metadata.push(("dictionary".to_owned(), format!("value {}", n % 7)));
    if n.is_multiple_of(2) {
        metadata.push(("plain".to_owned(), id.clone()));
    }
    if n % 50 == 3 {
        metadata.push(("sparse".to_owned(), String::new()));
    }
    let break_ = if stream == 2 && n.is_multiple_of(10) { "\n\tat Main.java:7" } else { "" };
    let line = format!("level={} msg=\"request {n} served\" trace_id={id} \u{e9}{break_}", level.as_str());
    (timestamp, level, metadata, line.into_bytes())
}

fn origin() -> BlockOrigin {
    let seen = LogPosition { number: 300, checksum: 0xfeed };
    let inputs = vec![Id::from_parts(5, 7), Id::from_parts(6, 8)];
    BlockOrigin { block: Id::from_parts(9, 1), seen, deletes_through: 290, inputs, place: 0 }
}

fn write_fixture(version: u16) -> Vec<u8> {
    let tenant = TenantId::new("fixture").unwrap();
    let window = TimeRange::new(1_795_176_000_000_000_000, 1_795_179_600_000_000_000);
    let mut options = BlockOptions::new(tenant, window, 2);
    (options.page_bytes, options.group_pages) = (12_000, 2);
    (options.origin, options.version) = (origin(), version);
    let mut writer = BlockWriter::new(options, streams()).unwrap();
    for stream in 0..3 {
        for n in 0..ROWS {
            let (timestamp, level, metadata, line) = row(stream, n);
            let pairs = metadata.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            writer.push_row(Row { stream, timestamp, level, line: &line }, pairs).unwrap();
        }
    }
    let mut out = Vec::new();
    writer.finish(&mut out).unwrap();
    out.concat()
}

/// Only for a new version of the format: the older fixtures stay unchanged.
#[test]
#[ignore = "writes into the repository"]
fn write_the_fixture() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/log-block-v6.bin");
    std::fs::write(path, write_fixture(VERSION)).unwrap();
}

#[test]
fn version_1_is_read() {
    let footer = check_fixture(VERSION_1, 1);
    assert!(footer.metadata_keys().known().is_none(), "version 1 does not list keys");
}

#[test]
fn version_2_is_read() {
    let footer = check_fixture(VERSION_2, 2);
    let keys: Vec<(&str, u64)> = footer.metadata_keys().known().unwrap().collect();
    assert_eq!(keys, [("constant", 3), ("dictionary", 3), ("plain", 3), ("sparse", 3)]);
}

#[test]
fn version_3_is_read_and_rules_out_words() {
    rules_out_words(VERSION_3, 3);
}

#[test]
fn version_4_is_read_with_its_origin() {
    assert_eq!(check_fixture(VERSION_3, 3).origin(), None, "version 3 has no origin");
    assert_eq!(check_fixture(VERSION_4, 4).origin(), Some(&BlockOrigin { block: Id::default(), ..origin() }));
    rules_out_words(VERSION_4, 4);
}

#[test]
fn version_5_is_read_with_its_own_id() {
    assert_eq!(check_fixture(VERSION_5, 5).origin(), Some(&origin()));
    rules_out_words(VERSION_5, 5);
}

#[test]
fn version_6_is_read_with_filters_ordered_by_place() {
    assert_eq!(check_fixture(VERSION_6, 6).origin(), Some(&origin()));
    rules_out_words(VERSION_6, 6);
    assert_eq!(write_fixture(VERSION), VERSION_6, "the version that is written now");
}

/// Whether the filter of a page lets these keys pass.
fn passes(segment: &FilterSegment, pieces: &SegmentPieces, page: u32, keys: &[u32]) -> bool {
    segment.pages_with_all(pieces, keys).contains((page - segment.pages().start) as usize)
}

/// A block for programs that do not read later versions: like those that wrote it, apart from the sizes of
/// filters.
#[test]
fn version_5_is_written_for_earlier_programs() {
    let block: &'static [u8] = write_fixture(VERSION_MIN).leak();
    assert_eq!(check_fixture(block, 5).origin(), Some(&origin()));
    rules_out_words(block, 5);
    assert_eq!(block[..8], VERSION_5[..8]);
    let segments = |block: &'static [u8]| check_fixture(block, 5).filter_segments().to_vec();
    let pieces = |block| segments(block).iter().map(FilterSegment::pieces).collect::<Vec<_>>();
    assert_eq!(pieces(block), pieces(VERSION_5));
    let mut options = BlockOptions::new(TenantId::default_tenant(), TimeRange::ALL, 0);
    for version in [4, 7] {
        options.version = version;
        assert!(matches!(BlockWriter::new(options.clone(), Vec::new()), Err(Error::Misuse(_))));
    }
}

fn rules_out_words(fixture: &'static [u8], version: u16) {
    let footer = check_fixture(fixture, version);
    let block = Bytes::from_static(fixture);
    // Small pages have no filter.
    for page in footer.pages().iter().filter(|page| page.raw_bytes >= 8_000).map(|page| page.index) {
        let segment = footer.filter_segment_of(page).unwrap();
        let range = segment.range();
        let filters = segment.open_whole(&block.slice(range.start as usize..range.end as usize)).unwrap();
        let passes = |word: &[u8]| passes(segment, &filters, page, &needle_keys(word, false));
        assert!(passes(b"served"));
        let absent: [&[u8]; 4] = [b"refused", b"timeout", b"connection", b"panicked"];
        let passing = absent.iter().filter(|word| passes(word)).count();
        assert!(passing <= 1, "{passing} of four absent words pass page {page}");
    }
}

fn check_fixture(fixture: &'static [u8], version: u16) -> Footer {
    let block = Bytes::from_static(fixture);
    let cut = |range: std::ops::Range<u64>| block.slice(range.start as usize..range.end as usize);
    check_header(&block).unwrap();
    let footer = Footer::open(cut(Footer::locate(&block, block.len() as u64).unwrap())).unwrap();
    let info = footer.info();
    assert_eq!((info.version, info.level, info.tenant.as_str()), (version, 2, "fixture"));
    assert_eq!(info.rows, u64::from(3 * ROWS));
    for (ordinal, labels) in streams().iter().enumerate() {
        assert_eq!(footer.streams().labels(ordinal as u32), *labels);
    }
    let api = footer.select(&[Matcher::new("app", MatchOp::Equal, "api").unwrap()]).unwrap();
    assert_eq!(api.iter().collect::<Vec<_>>(), [0, 1]);
    let mut seen = [0u32; 3];
    for entry in footer.pages() {
        let narrow = entry.decode_narrow(&cut(entry.narrow.range()), Wanted { metadata: true }).unwrap();
        let lines = entry.decode_lines(&cut(entry.lines.range()), &narrow.timestamps).unwrap();
        let segment = footer.filter_segment_of(entry.index).unwrap();
        let filters = segment.open_whole(&cut(segment.range())).unwrap();
        for run in &narrow.runs {
            for at in run.start as usize..run.end as usize {
                let (timestamp, level, metadata, line) = row(run.stream, seen[run.stream as usize]);
                let pairs = metadata.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                assert_eq!((narrow.timestamps[at], narrow.level(at)), (timestamp, level));
                assert!(narrow.metadata_of(at).eq(pairs));
                assert_eq!(lines.line(at), line);
                assert!(passes(segment, &filters, entry.index, &needle_keys(&line, false)));
                seen[run.stream as usize] += 1;
            }
        }
        // The last page is too small for a filter.
        let absent = needle_keys(b"7d1f0c55-83be-4a21-9c6e-f20b1a9d4e37", false);
        assert_eq!(passes(segment, &filters, entry.index, &absent), entry.raw_bytes < 8_000);
        let memory = entry.narrow_memory_bytes(Wanted { metadata: true });
        let (timestamps, levels, metadata) = (narrow.timestamps, narrow.levels, narrow.metadata);
        let page = LogPage { timestamps, levels, metadata, ..LogPage::default() };
        assert!(page.memory_bytes() <= memory, "{} bytes, {memory} announced", page.memory_bytes());
    }
    assert_eq!(seen, [ROWS; 3]);
    let counts = footer.minute_counts().decode(None, |_, lines, _| lines).unwrap();
    assert_eq!(counts.counts.iter().sum::<u32>(), 3 * ROWS);
    footer
}
