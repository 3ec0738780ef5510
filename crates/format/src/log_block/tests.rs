//! Tests of the complete layout: written rows are read back, selections are correct, and damage is
//! detected.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use sandur_model::{Labels, Level, MatchOp, Matcher, TenantId, TimeRange, matches_all};

use super::*;
use crate::block::{BlockIndex, BlockSummary, HEADER_LEN, TRAILER_LEN};
use crate::error::Error;
use crate::needle::{FilterSegment, PageFilter, needle_keys};

/// A row in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestRow {
    stream: u32,
    timestamp: i64,
    level: Level,
    metadata: Vec<(String, String)>,
    line: Vec<u8>,
}

impl TestRow {
    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.metadata.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
    }
}

fn options() -> BlockOptions {
    let tenant = TenantId::new("team-a").unwrap();
    BlockOptions::new(tenant, TimeRange::new(0, 3_600_000_000_000), 1)
}

fn streams(count: u32) -> Vec<Arc<Labels>> {
    let labels = |n: u32| {
        let pairs = [("app", format!("app-{}", n % 5)), ("host", format!("h{n}")), ("odd", odd(n))];
        Arc::new(Labels::from_pairs(pairs))
    };
    let mut streams: Vec<_> = (0..count).map(labels).collect();
    sort_streams(&mut streams);
    streams
}

/// Returns the value of the label `odd`; an empty value omits the label.
fn odd(n: u32) -> String {
    if n % 2 == 1 { "yes".to_owned() } else { String::new() }
}

fn write(options: BlockOptions, streams: &[Arc<Labels>], rows: &[TestRow]) -> (BlockSummary, Bytes) {
    let mut writer = BlockWriter::new(options, streams.to_vec()).unwrap();
    let mut out = Vec::new();
    for row in rows {
        let TestRow { stream, timestamp, level, ref line, .. } = *row;
        writer.push_row(Row { stream, timestamp, level, line }, row.pairs()).unwrap();
        writer.take_output(&mut out);
    }
    let summary = writer.finish(&mut out).unwrap();
    (summary, out.concat().into())
}

fn open(block: &Bytes) -> Footer {
    let range = Footer::locate(block, block.len() as u64).unwrap();
    Footer::open(block.slice(range.start as usize..)).unwrap()
}

fn cut(block: &Bytes, range: std::ops::Range<u64>) -> Bytes {
    block.slice(range.start as usize..range.end as usize)
}

fn read_page(block: &Bytes, entry: &PageEntry) -> Result<Vec<TestRow>, Error> {
    let narrow = entry.decode_narrow(&cut(block, entry.narrow.range()), Wanted { metadata: true })?;
    let lines = entry.decode_lines(&cut(block, entry.lines.range()), &narrow.timestamps)?;
    let mut rows = Vec::new();
    for run in &narrow.runs {
        for row in run.start as usize..run.end as usize {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            rows.push(TestRow {
                stream: run.stream,
                timestamp: narrow.timestamps[row],
                level: narrow.level(row),
                metadata: narrow.metadata_of(row).map(|(n, v)| (text(n), text(v))).collect(),
                line: lines.line(row).to_vec(),
            });
        }
    }
    Ok(rows)
}

fn read_all(block: &Bytes) -> Vec<TestRow> {
    let footer = open(block);
    footer.pages().iter().flat_map(|entry| read_page(block, entry).unwrap()).collect()
}

/// Returns an id that occurs in only one row.
fn id(stream: u32, n: u32) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&[stream.to_le_bytes(), n.to_le_bytes()].concat()))
}

/// Returns rows of several streams with every kind of content.
fn varied_rows(streams: u32, per_stream: u32) -> Vec<TestRow> {
    let mut rows = Vec::new();
    for stream in 0..streams {
        for n in 0..per_stream {
            let mut metadata = Vec::new();
            if n % 2 == 0 {
                metadata.push(("a_constant".to_owned(), "x".to_owned()));
            }
            if n % 3 == 0 {
                metadata.push((
                    "trace".to_owned(),
                    format!("{:032x}", (stream * per_stream + n) as u128 * 0x9E37),
                ));
            }
            if n % 97 == 5 {
                metadata.push(("z_rare".to_owned(), String::new()));
            }
            rows.push(TestRow {
                stream,
                timestamp: 1_000_000_000 * i64::from(n) + i64::from(stream),
                level: Level::EVERY[(n / 7) as usize % Level::EVERY.len()],
                metadata,
                line: format!("level=info n={n} \u{1F30B} took {}ms id={}", n * 31 % 977, id(stream, n))
                    .into_bytes(),
            });
        }
    }
    rows
}

#[test]
fn rows_are_read_back_from_many_pages_and_groups() {
    let mut options = options();
    (options.page_bytes, options.group_pages) = (10_000, 3);
    let (streams, rows) = (streams(12), varied_rows(12, 400));
    let (summary, block) = write(options, &streams, &rows);
    assert_eq!(read_all(&block), rows);
    check_header(&block).unwrap();
    let footer = open(&block);
    let raw: usize = rows.iter().map(|row| row.line.len()).sum();
    assert_eq!((summary.rows, summary.raw_bytes), (rows.len() as u64, raw as u64));
    assert_eq!((footer.info().rows, footer.info().raw_bytes), (summary.rows, summary.raw_bytes));
    assert_eq!(summary.size, block.len() as u64);
    assert_eq!(summary.footer_offset + u64::from(summary.footer_len), summary.size);
    assert_eq!((summary.pages as usize, summary.streams), (footer.pages().len(), 12));
    assert!(summary.pages > 12 && footer.pages().last().unwrap().group > 3);
    assert_eq!((summary.min_ts, summary.max_ts), (0, 399_000_000_011));
    for (ordinal, labels) in streams.iter().enumerate() {
        assert_eq!(footer.streams().labels(ordinal as u32), *labels);
        let stats = footer.streams().stats(ordinal as u32);
        assert_eq!((stats.rows, stats.min_ts, stats.levels), (400, ordinal as i64, 0x1FF));
    }
}

#[test]
fn page_entries_have_bounds_and_pages_end_with_a_service() {
    let mut options = options();
    options.page_bytes = 20_000;
    let rows = varied_rows(10, 300);
    let (_, block) = write(options, &streams(10), &rows);
    let footer = open(&block);
    let service = |ordinal| footer.streams().label(ordinal, "app").unwrap().to_owned();
    for entry in footer.pages() {
        let page = read_page(&block, entry).unwrap();
        assert_eq!(page.len(), entry.rows as usize);
        assert_eq!(page.iter().map(|r| r.timestamp).min(), Some(entry.min_ts));
        assert_eq!(page.iter().map(|r| r.timestamp).max(), Some(entry.max_ts));
        assert_eq!((page[0].stream, page.last().unwrap().stream), (entry.first_stream, entry.last_stream));
        assert_eq!(page.iter().map(|r| r.line.len() as u64).sum::<u64>(), entry.raw_bytes);
        assert!(entry.raw_bytes < 21_000);
    }
    let turns = footer.pages().windows(2).filter(|p| service(p[0].last_stream) != service(p[1].first_stream));
    assert!(turns.count() >= 3, "most pages over half full end where the service changes");
}

#[test]
fn lines_with_line_breaks_and_empty_lines_are_read_back() {
    let lines: [&[u8]; 6] = [b"", b"\n", b"a\nb", b"", b"\xFF\xFE not text", b"end\n\n"];
    let row = |(n, line): (usize, &&[u8])| TestRow {
        stream: 0,
        timestamp: n as i64,
        level: Level::None,
        metadata: Vec::new(),
        line: line.to_vec(),
    };
    let rows: Vec<TestRow> = lines.iter().enumerate().map(row).collect();
    let (_, block) = write(options(), &streams(1), &rows);
    assert_eq!(read_all(&block), rows);
    let footer = open(&block);
    let narrow = &footer.pages()[0].narrow;
    let page =
        footer.pages()[0].decode_narrow(&cut(&block, narrow.range()), Wanted { metadata: true }).unwrap();
    assert!(page.levels.is_empty() && page.metadata.is_empty());
}

#[test]
fn unwanted_metadata_is_not_decoded() {
    let (_, block) = write(options(), &streams(3), &varied_rows(3, 50));
    let footer = open(&block);
    let entry = &footer.pages()[0];
    let page = entry.decode_narrow(&cut(&block, entry.narrow.range()), Wanted { metadata: false }).unwrap();
    assert_eq!((page.rows(), page.levels.len(), page.metadata.len()), (150, 0, 0));
}

#[test]
fn a_row_out_of_order_starts_a_page() {
    let mut rows = varied_rows(2, 10);
    let again = rows.clone();
    rows.extend(again);
    let (_, block) = write(options(), &streams(2), &rows);
    assert_eq!(read_all(&block), rows);
    assert_eq!(open(&block).pages().len(), 2);
    let counts = open(&block).minute_counts().decode(None, |_, lines, _| u64::from(lines)).unwrap();
    assert_eq!(counts.counts.iter().sum::<u64>(), 40, "minutes of both pages are joined");
    assert_eq!(counts.runs.len(), 4);
}

#[test]
fn an_empty_block_is_valid() {
    let (summary, block) = write(options(), &[], &[]);
    let footer = open(&block);
    assert_eq!((summary.rows, summary.pages, footer.streams().len()), (0, 0, 0));
    assert!(footer.select(&[]).unwrap().is_empty());
    assert!(footer.minute_counts().decode(None, |_, _, _| ()).unwrap().runs.is_empty());
}

#[test]
fn keys_that_are_not_utf8_and_very_many_keys_stay_readable() {
    let mut writer = BlockWriter::new(options(), streams(1)).unwrap();
    let mut out = Vec::new();
    let names: Vec<String> = (0..3_000).map(|n| format!("key-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let pairs: [(&[u8], &[u8]); 4] =
            [(b"\xFF", b"\xC3"), (b"\xFE", b"\xA9"), (name.as_bytes(), b"v"), (b"twice", b"1")];
        let pairs = pairs.into_iter().chain([(&b"twice"[..], &b"2"[..])]);
        let row = Row { stream: 0, timestamp: n as i64, level: Level::None, line: b"x" };
        writer.push_row(row, pairs).unwrap();
    }
    writer.finish(&mut out).unwrap();
    let block = Bytes::from(out.concat());
    let rows = read_all(&block);
    let get = |row: &TestRow, key: &str| {
        row.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    };
    for (row, name) in rows.iter().zip(&names) {
        assert_eq!(get(row, name).as_deref(), Some("v"));
        assert_eq!(get(row, "twice").as_deref(), Some("1"));
        assert_eq!(get(row, "\u{FFFD}").as_deref(), Some("\u{FFFD}"));
        assert_eq!(row.metadata.len(), 3);
    }
    assert!(open(&block).pages().len() > 1, "a page is cut before its metadata takes too much memory");
}

#[test]
fn selections_agree_with_the_matchers() {
    let streams = streams(40);
    let (_, block) = write(options(), &streams, &varied_rows(40, 2));
    let footer = open(&block);
    let matcher = |name: &str, op, value: &str| Matcher::new(name, op, value).unwrap();
    let single = [
        matcher("app", MatchOp::Equal, "app-1"),
        matcher("app", MatchOp::Equal, "nowhere"),
        matcher("app", MatchOp::NotEqual, "app-1"),
        matcher("app", MatchOp::NotEqual, "nowhere"),
        matcher("app", MatchOp::Regex, "app-[12]"),
        matcher("app", MatchOp::NotRegex, "app-[12]"),
        matcher("odd", MatchOp::Equal, ""),
        matcher("odd", MatchOp::NotEqual, ""),
        matcher("odd", MatchOp::Equal, "yes"),
        matcher("odd", MatchOp::NotEqual, "yes"),
        matcher("odd", MatchOp::Regex, "yes|"),
        matcher("odd", MatchOp::Regex, ".+"),
        matcher("odd", MatchOp::NotRegex, ".+"),
        matcher("absent", MatchOp::Equal, ""),
        matcher("absent", MatchOp::NotEqual, ""),
        matcher("absent", MatchOp::Regex, ".*"),
        matcher("host", MatchOp::Regex, "h.*[05]"),
        matcher("host", MatchOp::NotRegex, "h1.*"),
        matcher("host", MatchOp::Equal, "h7"),
    ];
    let mut tried = 0;
    for first in &single {
        for second in &single {
            for third in &single {
                let matchers = [first.clone(), second.clone(), third.clone()];
                let expected: Vec<u32> =
                    (0..40).filter(|&n| matches_all(&matchers, &streams[n as usize])).collect();
                let selected: Vec<u32> = footer.select(&matchers).unwrap().iter().collect();
                assert_eq!(selected, expected, "{matchers:?}");
                tried += selected.len();
            }
        }
    }
    assert!(tried > 1_000);
    assert_eq!(footer.select(&[]).unwrap().len(), 40);
}

#[test]
fn labels_and_values_are_listed() {
    let (_, block) = write(options(), &streams(10), &varied_rows(10, 1));
    let footer = open(&block);
    let table = footer.streams();
    assert_eq!(table.label_names().collect::<Vec<_>>(), ["app", "host", "odd"]);
    assert_eq!(table.label_values("app").len(), 5);
    assert_eq!(table.label_values("absent").len(), 0);
    let even = footer.select(&[Matcher::new("odd", MatchOp::Equal, "").unwrap()]).unwrap();
    assert_eq!(table.label_names_of(&even).collect::<Vec<_>>(), ["app", "host"]);
    assert_eq!(table.label_values_of("host", &even), ["h0", "h2", "h4", "h6", "h8"]);
    assert_eq!(table.label(0, "odd"), None);
}

#[test]
fn minutes_count_every_row_in_the_windows_of_logql() {
    assert_eq!(
        [minute_of(0), minute_of(1), minute_of(60_000_000_000), minute_of(60_000_000_001)],
        [0, 1, 1, 2]
    );
    assert_eq!([minute_of(-1), minute_of(-60_000_000_000)], [0, -1]);
    let rows = varied_rows(9, 700);
    let (_, block) = write(options(), &streams(9), &rows);
    let footer = open(&block);
    let mut expected = std::collections::BTreeMap::new();
    for row in &rows {
        let key = (row.stream, row.level, minute_of(row.timestamp) as i32);
        let (lines, bytes) = expected.entry(key).or_insert((0u32, 0u64));
        *lines += 1;
        *bytes += row.line.len() as u64;
    }
    let wanted: roaring::RoaringBitmap = [1, 4, 8].into_iter().collect();
    for streams in [None, Some(&wanted)] {
        let decoded = footer.minute_counts().decode(streams, |m, lines, bytes| (m, lines, bytes)).unwrap();
        let mut found = std::collections::BTreeMap::new();
        for run in &decoded.runs {
            for &(minute, lines, bytes) in &decoded.counts[run.counts.clone()] {
                assert!(found.insert((run.stream, run.level, minute), (lines, bytes)).is_none());
            }
        }
        let chosen = |stream: u32| streams.is_none_or(|s| s.contains(stream));
        let expected: std::collections::BTreeMap<_, _> =
            expected.clone().into_iter().filter(|((stream, ..), _)| chosen(*stream)).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(footer.minute_counts().counts_of(&wanted), 3 * expected.len() / 9);
}

#[test]
fn filters_rule_out_pages_but_never_a_matching_one() {
    let mut options = options();
    options.page_bytes = 20_000;
    let rows = varied_rows(10, 800);
    let (_, block) = write(options, &streams(10), &rows);
    let footer = open(&block);
    assert!(footer.pages().len() > 20);
    let (mut maybe, mut asked) = (0, 0);
    for (n, entry) in footer.pages().iter().enumerate() {
        let page = read_page(&block, entry).unwrap();
        let line = String::from_utf8(page[page.len() / 2].line.clone()).unwrap();
        let keys = needle_keys(line.split("id=").nth(1).unwrap().as_bytes(), false);
        for other in footer.pages() {
            let segment = footer.filter_segment_of(other.index).unwrap();
            let pieces = segment.open_whole(&cut(&block, segment.range())).unwrap();
            let pages = segment.pages_with_all(&pieces, &keys);
            let answer = pages.contains((other.index - segment.pages().start) as usize);
            assert!(answer || other.index as usize != n, "page {n} holds '{line}'");
            asked += 1;
            maybe += usize::from(answer);
        }
    }
    let pages = footer.pages().len();
    assert!(maybe < pages * 2, "{maybe} of {asked}");
}

#[test]
fn pieces_of_a_filter_segment_can_be_read_separately() {
    let mut options = options();
    options.page_bytes = 20_000;
    let (_, block) = write(options, &streams(10), &varied_rows(10, 800));
    let footer = open(&block);
    let segment = &footer.filter_segments()[0];
    let whole = segment.open_whole(&cut(&block, segment.range())).unwrap();
    let keys = needle_keys(b"a needle that is certainly nowhere to be found", false);
    let of_first = segment.pieces_for(&keys[..1]);
    assert!(of_first.len() < segment.pieces());
    let cut_piece = |number: &usize| (*number, cut(&block, segment.piece(*number).range()));
    let part = segment.open(of_first.iter().map(cut_piece)).unwrap();
    assert_eq!(segment.pages_with(&part, keys[0]), segment.pages_with(&whole, keys[0]));
    let (of_part, of_whole) = (segment.pages_with_all(&part, &keys), segment.pages_with_all(&whole, &keys));
    let is_in = |at: usize| of_part.contains(at) || !of_whole.contains(at);
    assert!((0..segment.pages().len()).all(is_in), "parts rule out less");
    assert!(part.piece(of_first[0]).is_some() && part.piece(segment.pieces()).is_none());
    let mut damaged = cut(&block, segment.piece(0).range()).to_vec();
    damaged[0] ^= 1;
    assert!(matches!(segment.copy(0, &damaged, &mut []), Err(Error::Checksum { .. })));
    assert!(matches!(segment.open([(0, damaged.into())]), Err(Error::Checksum { .. })));
    let short = cut(&block, segment.range()).slice(1..);
    assert!(matches!(segment.open_whole(&short), Err(Error::Truncated { .. })));
}

/// The filters of the pages of a segment.
fn filters(block: &Bytes, segment: &FilterSegment) -> Vec<PageFilter> {
    let mut copies: Vec<_> = segment.pages().map(|page| segment.begin_copy(page).unwrap()).collect();
    for number in 0..segment.pieces() {
        segment.copy(number, &cut(block, segment.piece(number).range()), &mut copies).unwrap();
    }
    copies.into_iter().map(|copy| copy.finish().1).collect()
}

#[test]
fn copied_pages_keep_rows_counts_and_filters() {
    let mut small = options();
    small.page_bytes = 15_000;
    let streams_a = streams(8);
    let rows_a = varied_rows(8, 300);
    let (_, block_a) = write(small.clone(), &streams_a, &rows_a);
    let footer_a = open(&block_a);
    let all = streams(20);
    let ordinals: Vec<u32> =
        streams_a.iter().map(|s| all.iter().position(|other| other == s).unwrap() as u32).collect();
    let segment = &footer_a.filter_segments()[0];
    let filters_a = filters(&block_a, segment);
    let filter_a = |page: u32| filters_a.get(page as usize).cloned();
    let mut writer = BlockWriter::new(small, all.clone()).unwrap();
    let mut out = Vec::new();
    let extra =
        TestRow { stream: 19, timestamp: 5, level: Level::Warn, metadata: vec![], line: b"extra".to_vec() };
    let push = |writer: &mut BlockWriter| {
        let row = Row { stream: 19, timestamp: 5, level: Level::Warn, line: &extra.line };
        writer.push_row(row, std::iter::empty()).unwrap();
    };
    push(&mut writer);
    for entry in footer_a.pages() {
        let (lines, narrow) = (cut(&block_a, entry.lines.range()), cut(&block_a, entry.narrow.range()));
        let filter = filter_a(entry.index);
        writer.push_page(PageCopy { entry, lines, narrow, filter, ordinals: &ordinals }).unwrap();
    }
    push(&mut writer);
    let summary = writer.finish(&mut out).unwrap();
    let block = Bytes::from(out.concat());
    let mut expected = vec![extra.clone()];
    expected
        .extend(rows_a.iter().cloned().map(|row| TestRow { stream: ordinals[row.stream as usize], ..row }));
    expected.push(extra.clone());
    assert_eq!(read_all(&block), expected);
    assert_eq!(summary.rows, rows_a.len() as u64 + 2);

    let footer = open(&block);
    let copied = &footer.filter_segments()[0];
    let pages = footer_a.pages().len();
    assert_eq!(filters(&block, copied)[1..=pages], filters_a[..]);
    // Written row by row, the same rows have the same counts and totals.
    let mut sorted = expected.clone();
    sorted.sort_by_key(|row| (row.stream, row.timestamp));
    let (_, direct) = write(options(), &all, &sorted);
    let direct = open(&direct);
    let counts = |f: &Footer| f.minute_counts().decode(None, |m, l, b| (m, l, b)).unwrap();
    assert_eq!(counts(&footer).counts, counts(&direct).counts);
    assert_eq!(counts(&footer).runs, counts(&direct).runs);
    for ordinal in 0..20 {
        assert_eq!(footer.streams().stats(ordinal), direct.streams().stats(ordinal));
    }
}

#[test]
fn incorrect_use_of_the_writer_is_refused() {
    let mut unsorted = streams(3);
    unsorted.swap(0, 2);
    assert!(matches!(BlockWriter::new(options(), unsorted), Err(Error::Misuse(_))));
    let mut writer = BlockWriter::new(options(), streams(1)).unwrap();
    let row = Row { stream: 1, timestamp: 0, level: Level::None, line: b"" };
    assert!(matches!(writer.push_row(row, std::iter::empty()), Err(Error::Misuse(_))));
}

#[test]
fn every_changed_byte_is_reported_at_its_offset() {
    let mut options = options();
    options.page_bytes = 10_000;
    let (_, block) = write(options, &streams(4), &varied_rows(4, 150));
    let footer = open(&block);
    let mut covered = HEADER_LEN;
    for (part, piece) in footer.pieces() {
        covered += u64::from(piece.len);
        let bytes = cut(&block, piece.range());
        piece.check(part, &bytes).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1;
            let error = piece.check(part, &damaged).unwrap_err();
            assert!(matches!(error, Error::Checksum { offset, .. } if offset == piece.offset), "{error}");
        }
    }
    assert_eq!(covered, footer.offset(), "every byte before the footer belongs to a piece");
    let bytes = block.slice(footer.offset() as usize..);
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        assert!(Footer::open(damaged.into()).is_err(), "byte {at} of the footer");
    }
    for at in 0..bytes.len() {
        assert!(Footer::open(bytes.slice(..at)).is_err(), "footer of {at} bytes");
    }
    for at in 0..HEADER_LEN as usize {
        let mut damaged = block[..8].to_vec();
        damaged[at] ^= 0x10;
        assert!(check_header(&damaged).is_err());
    }
}

/// Regression: readers reserve memory by the bounds of the entry.
#[test]
fn a_line_column_longer_than_its_entry_is_refused() {
    let plain = |line: &str| TestRow {
        stream: 0,
        timestamp: 1,
        level: Level::None,
        metadata: Vec::new(),
        line: line.as_bytes().to_vec(),
    };
    for rows in [varied_rows(4, 150), vec![plain("one"), plain("t\nwo")]] {
        let (_, block) = write(options(), &streams(4), &rows);
        for entry in open(&block).pages() {
            let bytes = cut(&block, entry.lines.range());
            let times = vec![0; entry.rows as usize];
            entry.decode_lines(&bytes, &times).unwrap();
            let shorter = PageEntry { raw_bytes: entry.raw_bytes - 1, ..entry.clone() };
            let too_large = |error| matches!(error, Error::TooLarge { .. });
            assert!(too_large(shorter.decode_lines(&bytes, &times).unwrap_err()));
            if entry.open_lines(&bytes).unwrap().is_some() {
                assert!(shorter.open_lines(&bytes).is_err_and(too_large));
            }
        }
    }
}

/// Any rows of a few streams, sorted as the writer requires.
fn any_rows() -> impl Strategy<Value = Vec<TestRow>> {
    let text = prop_oneof!["[a-c\n]{0,6}", ".{0,12}", Just(String::new())];
    let pair = ("[a-e]{1,2}", text.clone());
    let row = (0..6u32, any::<i16>(), 0..9usize, prop::collection::btree_map(pair.0, pair.1, 0..4), text);
    let make = |(stream, time, level, metadata, line): (
        u32,
        i16,
        usize,
        std::collections::BTreeMap<_, _>,
        String,
    )| {
        TestRow {
            stream,
            timestamp: i64::from(time) * 1_000_000_007,
            level: Level::EVERY[level],
            metadata: metadata.into_iter().collect(),
            line: line.into_bytes(),
        }
    };
    prop::collection::vec(row.prop_map(make), 0..200).prop_map(|mut rows| {
        rows.sort_by_key(|row| (row.stream, row.timestamp));
        rows
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_rows_round_trip(rows in any_rows(), page_bytes in 1..2_000u32, group_pages in 1..5u32) {
        let mut options = options();
        (options.page_bytes, options.group_pages) = (page_bytes, group_pages);
        let (_, block) = write(options, &streams(6), &rows);
        prop_assert_eq!(read_all(&block), rows);
    }

    #[test]
    fn a_page_with_a_valid_checksum_and_random_content_never_panics(
        rows in any_rows(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let (_, block) = write(options(), &streams(6), &rows);
        for entry in open(&block).pages() {
            let hostile = |range| {
                let mut bytes = cut(&block, range).to_vec();
                for (at, byte) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                Bytes::from(bytes)
            };
            let mut entry = entry.clone();
            let (lines, narrow) = (hostile(entry.lines.range()), hostile(entry.narrow.range()));
            entry.lines.crc = crate::codec::crc32c(&lines);
            entry.narrow.crc = crate::codec::crc32c(&narrow);
            let narrow = entry.decode_narrow(&narrow, Wanted { metadata: true });
            let timestamps = narrow.map_or_else(|_| vec![0; entry.rows as usize], |narrow| narrow.timestamps);
            let _ = entry.decode_lines(&lines, &timestamps);
        }
    }

    #[test]
    fn a_footer_with_valid_checksums_and_random_content_never_panics(
        rows in any_rows(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let (summary, block) = write(options(), &streams(6), &rows);
        let mut bytes = block.slice(summary.footer_offset as usize..).to_vec();
        let body = bytes.len() - TRAILER_LEN;
        for (at, byte) in changes {
            bytes[at.index(body)] = byte;
        }
        let crc = crate::codec::crc32c(&bytes[..body]).to_le_bytes();
        bytes[body + 12..body + 16].copy_from_slice(&crc);
        let crc = crate::codec::crc32c(&bytes[body..body + 20]).to_le_bytes();
        bytes[body + 20..body + 24].copy_from_slice(&crc);
        if let Ok(footer) = Footer::open(bytes.into()) {
            let matcher = Matcher::new("app", MatchOp::Regex, "app-[12]").unwrap();
            if let Ok(selected) = footer.select(&[matcher]) {
                selected.iter().for_each(|ordinal| drop(footer.streams().labels(ordinal)));
            }
            let _ = footer.minute_counts().decode(None, |_, _, _| ());
        }
    }
}
