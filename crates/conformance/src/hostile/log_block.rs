//! The footer and the pages of a log block with any content and correct checksums: they are refused
//! within bounds or read, and what is read has the properties that the format guarantees.

use bytes::Bytes;
use sandur_format::block::BlockIndex;
use sandur_format::codec::varint::put_varint;
use sandur_format::codec::{Piece, Reader};
use sandur_format::log_block::{Footer, PageEntry, VERSION, Wanted};
use sandur_format::needle::{FilterSegment, PageSet};
use sandur_model::{AutomatonParts, LineAutomaton, MatchOp, Matcher};

use super::block::{opened, with_trailer};

/// A valid block. Inputs replace its parts.
const FIXTURE: &[u8] = include_bytes!("../../../format/fixtures/log-block-v6.bin");
/// Longest input in bytes. A page may become some hundred times as long when it is decoded.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Number of sections of a footer. Their ids begin at 1.
const SECTIONS: u8 = 8;

/// The first byte chooses a section or column; the rest is its content.
pub fn run(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    if body.len() > INPUT_BYTES_MAX {
        return;
    }
    match choice % 12 {
        section @ 0..SECTIONS => footer(section + 1, body),
        8 | 9 => lines(body),
        _ => narrow(body),
    }
}

fn fixture() -> (Bytes, Footer) {
    opened(FIXTURE)
}

/// A section of the fixture's footer: id, codec, bytes, uncompressed length.
type Section<'a> = (u8, u8, &'a [u8], u64);

fn sections<'a>(object: &'a [u8], footer: &Footer) -> Vec<Section<'a>> {
    let read = || {
        let mut reader = Reader::new("footer", 0, &object[footer.offset() as usize..]);
        let mut directory = Vec::new();
        for _ in 0..reader.u8()? {
            directory.push((reader.u8()?, reader.u8()?, reader.varint()?, reader.varint()?));
        }
        let whole = directory
            .into_iter()
            .map(|(id, codec, stored, plain)| Ok((id, codec, reader.bytes(stored as usize)?, plain)));
        whole.collect::<Result<Vec<_>, sandur_format::Error>>()
    };
    read().unwrap_or_else(|error| panic!("the fixture: {error}"))
}

/// Runs the fixture's footer with one section replaced. The first byte is the version.
fn footer(section: u8, body: &[u8]) {
    let Some((version, plain)) = body.split_first() else { return };
    let (object, sound) = fixture();
    let mut all = sections(&object, &sound);
    for (id, codec, bytes, length) in &mut all {
        if *id == section {
            (*codec, *bytes, *length) = (0, plain, plain.len() as u64);
        }
    }
    let mut bytes = vec![all.len() as u8];
    for (id, codec, stored, length) in &all {
        bytes.extend_from_slice(&[*id, *codec]);
        put_varint(&mut bytes, stored.len() as u64);
        put_varint(&mut bytes, *length);
    }
    all.iter().for_each(|(_, _, stored, _)| bytes.extend_from_slice(stored));
    let version = u16::from(*version) % (VERSION + 1);
    let bytes = with_trailer(&bytes, sound.offset(), version, &FIXTURE[FIXTURE.len() - 4..]);
    if let Ok(footer) = Footer::open(bytes) {
        check_footer(&footer);
    }
}

fn check_footer(footer: &Footer) {
    let inside = |piece: &Piece| piece.end() <= footer.offset();
    assert!(footer.pieces().iter().all(|(_, piece)| inside(piece)), "a piece overlaps the footer");
    for page in footer.pages() {
        assert!(page.min_ts <= page.max_ts && page.first_stream <= page.last_stream && page.rows > 0);
        assert!((page.last_stream as usize) < footer.streams().len());
        footer.filter_segment_of(page.index);
    }
    Footer::group_ranges(footer.pages());
    footer.filter_segments().iter().for_each(|segment| check_segment(segment, footer.offset()));
    let matchers = [(MatchOp::Equal, "api"), (MatchOp::NotEqual, ""), (MatchOp::Regex, "a.*|w")];
    for (op, value) in matchers {
        let matcher = Matcher::new("app", op, value).unwrap_or_else(|error| panic!("{error}"));
        let Ok(selected) = footer.select(&[matcher]) else { continue };
        assert!(selected.max().is_none_or(|last| (last as usize) < footer.streams().len()));
        selected.iter().take(99).for_each(|stream| drop(footer.streams().labels(stream)));
        footer.streams().label_values_of("app", &selected);
        footer.minute_counts().counts_of(&selected);
    }
    if let Ok(counts) = footer.minute_counts().decode(None, |minute, _, _| minute) {
        assert_eq!(counts.counts.len(), footer.minute_counts().len());
        assert!(counts.runs.last().is_none_or(|run| run.counts.end == counts.counts.len()));
    }
    footer.metadata_keys().carriers("constant").may_include(0);
    footer.memory_bytes();
}

/// The pieces of a segment cover its range exactly, those of a key are among them, a filter of a page is not
/// larger than the segment, and without pieces no page is ruled out.
fn check_segment(segment: &FilterSegment, limit: u64) {
    let range = segment.range();
    assert!(range.end <= limit, "a segment overlaps the footer");
    let mut end = range.start;
    for piece in (0..segment.pieces()).map(|number| segment.piece(number)) {
        assert_eq!(piece.offset, end, "a gap between pieces");
        end = piece.end();
    }
    assert_eq!(end, range.end);
    let filters: u64 = segment.pages().map(|page| segment.filter_bytes(page)).sum();
    assert_eq!(filters, range.end - range.start);
    let nothing = segment.open([]).unwrap_or_else(|error| panic!("no pieces: {error}"));
    for key in [0, 1, 0x8000_0001, 0xC000_0000, u32::MAX] {
        let numbers = segment.pieces_for(&[key]);
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(numbers.last().is_none_or(|last| *last < segment.pieces()));
        assert!(segment.pieces_memory(numbers) >= segment.pieces() as u64);
        assert_eq!(segment.pages_with(&nothing, key), PageSet::ALL);
    }
    let copies: Vec<_> = segment.pages().take(2).filter_map(|page| segment.begin_copy(page)).collect();
    assert_eq!(copies.len(), segment.pages().len().min(2));
    assert!(segment.pieces() == 0 || segment.copy(0, &[], &mut []).is_err(), "an empty piece");
}

/// Returns the first page of the fixture with another number of rows.
fn page(rows: u8) -> PageEntry {
    let (_, sound) = fixture();
    PageEntry { rows: u32::from(rows) + 1, ..sound.pages()[0].clone() }
}

/// Runs a line column. The first byte is the number of rows, less one.
fn lines(body: &[u8]) {
    let Some((rows, bytes)) = body.split_first() else { return };
    let mut page = page(*rows);
    (page.lines, page.raw_bytes) = (Piece::of(8, bytes), 1 << 20);
    let bytes = Bytes::copy_from_slice(bytes);
    let times: Vec<i64> = (0..i64::from(page.rows)).map(|n| 1_795_176_000_000_000_000 + n * 999).collect();
    let decoded = page.decode_lines(&bytes, &times);
    if let Ok(column) = &decoded {
        assert_eq!(column.ends.len(), page.rows as usize);
        assert!(column.bytes.len() as u64 <= page.line_memory_bytes(), "more than the reserved memory");
    }
    for needle in ["e", "00", "level=info"] {
        let Ok(Some(mut shaped)) = page.open_lines(&bytes) else { return };
        let mut alive = vec![true; page.rows as usize];
        let found = shaped.retain(&substring(needle.as_bytes()), false, &times, &mut alive);
        let (Ok(true), Ok(column)) = (found, &decoded) else { continue };
        for (row, alive) in alive.into_iter().enumerate() {
            let holds = column.line(row).windows(needle.len()).any(|part| part == needle.as_bytes());
            assert_eq!(alive, holds, "row {row} and {needle}");
        }
    }
}

/// Returns an automaton for lines that contain `needle`. State 2 + N means that the bytes so far end
/// with the first N bytes of the needle.
fn substring(needle: &[u8]) -> LineAutomaton {
    let after = |held: usize, byte: u8| {
        let seen = [&needle[..held], &[byte]].concat();
        (0..=seen.len()).rev().find(|length| seen.ends_with(&needle[..*length])).unwrap_or(0)
    };
    let state = |held: usize| match held == needle.len() {
        true => LineAutomaton::PASSES,
        false => 2 + held as u16,
    };
    let row = |held: usize| (0..=u8::MAX).map(|byte| state(after(held, byte))).collect();
    let mut next = vec![vec![LineAutomaton::PASSES; 256], vec![LineAutomaton::FAILS; 256]];
    next.extend((0..needle.len()).map(row));
    let passes_at_end = (0..next.len()).map(|at| at == usize::from(LineAutomaton::PASSES)).collect();
    let classes = std::array::from_fn(|byte| byte as u8);
    let automaton = LineAutomaton::new(AutomatonParts { classes, next, passes_at_end, start: 2 });
    automaton.unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the narrow columns. The first bytes are the number of rows, less one, the first stream of the
/// page entry, and the number of streams after it.
fn narrow(body: &[u8]) {
    let [rows, first, streams, bytes @ ..] = body else { return };
    let mut page = page(*rows);
    page.narrow = Piece::of(8, bytes);
    (page.first_stream, page.last_stream) = (u32::from(*first), u32::from(*first) + u32::from(*streams));
    let bytes = Bytes::copy_from_slice(bytes);
    for metadata in [false, true] {
        let Ok(read) = page.decode_narrow(&bytes, Wanted { metadata }) else { continue };
        let rows = page.rows as usize;
        assert_eq!((read.rows(), read.runs.last().map(|run| run.end)), (rows, Some(page.rows)));
        assert!(read.runs.windows(2).all(|runs| runs[0].end == runs[1].start));
        assert!(read.runs.is_sorted_by(|a, b| a.stream < b.stream));
        assert!(read.levels.is_empty() || read.levels.len() == rows);
        (0..rows).for_each(|row| assert!(read.metadata_of(row).count() <= read.metadata.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::seeds;
    use super::*;

    /// Returns the parts of the fixture as inputs.
    fn inputs() -> Vec<Vec<u8>> {
        let (object, sound) = fixture();
        let mut all = Vec::new();
        for (id, codec, stored, length) in sections(&object, &sound) {
            let plain = match codec {
                0 => stored.to_vec(),
                _ => sandur_format::codec::compress::get_zstd(stored, length as usize, "", 0).unwrap(),
            };
            all.push([&[id - 1, VERSION as u8], plain.as_slice()].concat());
        }
        for page in sound.pages() {
            let cut = |piece: Piece| &object[piece.offset as usize..piece.end() as usize];
            let rows = u8::try_from(page.rows - 1).unwrap();
            let streams = (page.last_stream - page.first_stream) as u8;
            all.push([&[8, rows], cut(page.lines)].concat());
            all.push([&[10, rows, page.first_stream as u8, streams], cut(page.narrow)].concat());
        }
        all.push(b"\x08\x02\x00\x00\x06a\nb\nc\n".to_vec());
        all
    }

    #[test]
    fn a_part_of_the_fixture_with_any_byte_changed_is_read_or_refused() {
        seeds::run_changed(run, inputs(), 0, |length| 1 + length / 150);
    }

    #[test]
    #[ignore = "writes the seed inputs of the fuzzer"]
    fn write_the_inputs() {
        seeds::write("log_block", "part", inputs());
    }
}
