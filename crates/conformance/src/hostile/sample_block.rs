//! Every section of a sample block with any content and correct checksums: it is refused within bounds
//! or read, and what is read has the properties that the format guarantees.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::block::BlockIndex;
use sandur_format::codec::Piece;
use sandur_format::sample_block::index::SeriesColumns;
use sandur_format::sample_block::{
    Footer, GroupEntry, OpenGroup, SamplePage, TimeList, TimePageEntry, TimeTable, exemplars_of_plain,
    metadata_of_plain,
};
use sandur_model::{Exemplar, TimeRange};

use super::block::{opened, with_trailer};

/// A valid block. Inputs replace its parts.
const FIXTURE: &[u8] = include_bytes!("../../../format/fixtures/sample-block-v4.bin");
/// Longest input in bytes. A page may become some hundred times as long when it is decoded.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// The first byte chooses the section; the rest is its content.
pub fn run(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    if body.len() > INPUT_BYTES_MAX {
        return;
    }
    match choice % 8 {
        0 => footer(body),
        1 => group(body),
        2 => page(body),
        3 => times(body),
        4 => exemplars(body),
        5 => metadata(body),
        6 => index_parts(body),
        _ => columns(body),
    }
}

fn fixture() -> (Bytes, Footer) {
    opened(FIXTURE)
}

/// Runs a footer with a valid trailer.
fn footer(body: &[u8]) {
    let (_, sound) = fixture();
    let version = sound.info().version;
    let bytes = with_trailer(body, sound.offset(), version, &FIXTURE[FIXTURE.len() - 4..]);
    let Ok(footer) = Footer::open(bytes) else { return };
    let covered: u64 = footer.pieces().iter().map(|(_, piece)| u64::from(piece.len)).sum();
    assert_eq!(covered + 8, footer.offset(), "pieces overlap or have gaps");
    let all = (0..footer.index().series().min(1 << 16)).collect();
    let groups = footer.groups_of(&all, TimeRange::ALL);
    footer.time_pages_of(&groups);
    assert!(footer.exemplars().iter().all(|page| page.min_ms <= page.max_ms && page.exemplars > 0));
    assert!(footer.metadata().iter().all(|page| page.metadata > 0));
    footer.index().memory_bytes();
}

/// Runs a group. The first two bytes are the length of its head.
fn group(body: &[u8]) {
    let [low, high, bytes @ ..] = body else { return };
    let head = bytes.len().min(usize::from(*low) | usize::from(*high) << 8);
    let (_, sound) = fixture();
    let Some(entry) = sound.groups().first() else { return };
    let entry = GroupEntry {
        piece: Piece::of(entry.piece.offset, bytes),
        head: Piece::of(entry.piece.offset, &bytes[..head]),
        ..*entry
    };
    let Ok(group) = OpenGroup::open(&entry, Bytes::copy_from_slice(bytes)) else { return };
    for page in group.head().pages() {
        group.page_bytes(page);
        assert!(page.min_ms <= page.max_ms && page.first_series <= page.last_series);
    }
    group.head().pages_of(&(0..9).collect(), TimeRange::ALL);
}

/// Runs a page of values or histograms. The first byte chooses the page that it replaces.
fn page(body: &[u8]) {
    let Some((choice, bytes)) = body.split_first() else { return };
    let (object, sound) = fixture();
    let cut = |piece: Piece| object.slice(piece.offset as usize..piece.end() as usize);
    let mut table = TimeTable::default();
    for page in sound.time_pages() {
        let lists = page.decode(&cut(page.piece)).unwrap_or_else(|error| panic!("the fixture: {error}"));
        table.push(page.first_list, Arc::new(lists));
    }
    let Some(entry) = sound.groups().first() else { return };
    let group = OpenGroup::open(entry, cut(entry.piece));
    let group = group.unwrap_or_else(|error| panic!("the fixture: {error}"));
    let pages = group.head().pages();
    let mut page = pages[usize::from(*choice) % pages.len()];
    page.piece = Piece::of(page.piece.offset, bytes);
    if let Ok(decoded) = group.head().decoder().decode(&page, &Bytes::copy_from_slice(bytes), &table) {
        check_page(&decoded);
    }
}

fn check_page(page: &SamplePage) {
    for run in &page.runs {
        assert_eq!(run.rows().len(), run.times.len());
        assert!(run.times.is_sorted_by(|a, b| a < b));
        let rows = page.values.len().max(page.histograms.len());
        assert!(run.rows().end <= rows, "a run exceeds its page");
    }
}

/// Runs a page of lists of times, without and with stamps. The first two bytes give the numbers of lists and
/// times in its entry.
fn times(body: &[u8]) {
    let [lists, times, bytes @ ..] = body else { return };
    let (lists, times) = (u32::from(*lists), u32::from(*times) * 8);
    for stamped in [false, true] {
        let entry = TimePageEntry { piece: Piece::of(8, bytes), first_list: 0, lists, times, stamped };
        let Ok(read) = entry.decode(bytes) else { continue };
        assert_eq!(read.iter().map(|list| list.times.len()).sum::<usize>(), times as usize);
        assert!(read.iter().all(|list| list.times.is_sorted_by(|a, b| a < b)));
        let are_complete =
            |list: &TimeList| list.stamps.as_ref().is_none_or(|of| of.len() == list.times.len());
        assert!(read.iter().all(are_complete));
    }
}

/// Runs a page of exemplars. The first three bytes give the series, exemplars and memory in its entry.
fn exemplars(body: &[u8]) {
    let [series, exemplars, held, bytes @ ..] = body else { return };
    let held = u32::from(*held) * 64;
    let Ok(all) = exemplars_of_plain(bytes, (u32::from(*series), u32::from(*exemplars), held)) else {
        return;
    };
    assert_eq!((all.len(), usize::from(*series)), (usize::from(*series), all.len()));
    assert!(
        all.iter().map(|of| of.memory_bytes()).sum::<u64>() <= u64::from(held),
        "more memory than its entry says"
    );
    let rises = |pair: &[Exemplar]| pair[0].order(&pair[1]).is_lt();
    assert!(all.iter().all(|of| of.exemplars.windows(2).all(rises)));
}

/// Runs a page of metadata. The first byte gives the number of records in its entry.
fn metadata(body: &[u8]) {
    let Some((count, bytes)) = body.split_first() else { return };
    if let Ok(all) = metadata_of_plain(bytes, u32::from(*count)) {
        assert_eq!(all.len(), usize::from(*count));
        assert!(all.is_sorted_by(|a, b| a < b));
    }
}

/// Runs the texts and the lists of each label.
fn index_parts(body: &[u8]) {
    let (_, sound) = fixture();
    let (index, plain) = (sound.index(), Bytes::copy_from_slice(body));
    for label in index.labels() {
        for page in label.text_pages() {
            if let Ok(texts) = index.texts(page, body) {
                assert_eq!(texts.len(), page.count as usize);
            }
        }
        for page in 0..label.sorted_pages().len() {
            if let Ok((texts, numbers)) = index.sorted_texts(label, page, body) {
                assert_eq!(texts.len(), numbers.len());
            }
        }
        for page in label.list_pages() {
            let Ok(lists) = index.lists(page, &plain) else { continue };
            let mut series = (0..0).collect();
            for at in 0..page.count as usize {
                if lists.add(at, index.series(), &mut series).is_err() {
                    return;
                }
            }
            assert!(series.max().is_none_or(|last| last < index.series()));
        }
    }
}

/// Runs the spans and columns of a page of series. The first byte is the offset at which the spans end.
fn columns(body: &[u8]) {
    let Some((at, bytes)) = body.split_first() else { return };
    let (_, sound) = fixture();
    let index = sound.index();
    if index.pages().is_empty() {
        return;
    }
    if let Ok(spans) = index.spans(0, bytes) {
        assert_eq!(spans.len(), index.series_of(0).len());
    }
    let all = |_: &str| true;
    let parts = SeriesColumns::parts(index, 0, &all).len().max(1);
    let (spans, rest) = bytes.split_at(usize::from(*at).min(bytes.len()));
    let each = rest.len().div_ceil(parts).max(1);
    let plain = std::iter::once(spans).chain(rest.chunks(each)).map(Bytes::copy_from_slice);
    if let Ok(columns) = SeriesColumns::decode(index, 0, &all, &plain.collect::<Vec<_>>()) {
        columns.memory_bytes();
        columns.texts(index);
        // It must be refused, because its pages of texts are missing.
        let _ = columns.finish(index, &[]);
    }
}

#[cfg(test)]
mod tests {
    use sandur_format::block::TRAILER_LEN;

    use super::super::seeds;
    use super::*;

    /// Returns the parts of the fixture as inputs.
    fn inputs() -> Vec<Vec<u8>> {
        let (object, sound) = fixture();
        let cut = |piece: Piece| object[piece.offset as usize..piece.end() as usize].to_vec();
        let with = |head: &[u8], body: Vec<u8>| [head, &body].concat();
        let footer = object[sound.offset() as usize..object.len() - TRAILER_LEN].to_vec();
        let entry = sound.groups()[0];
        let group = OpenGroup::open(&entry, Bytes::from(cut(entry.piece))).unwrap();
        let head = (entry.head.len as u16).to_le_bytes();
        let mut all = vec![with(&[0], footer), with(&[1, head[0], head[1]], cut(entry.piece))];
        for (n, page) in group.head().pages().iter().enumerate() {
            all.push(with(&[2, n as u8], group.page_bytes(page).to_vec()));
        }
        for page in sound.time_pages() {
            all.push(with(&[3, page.lists as u8, (page.times / 8) as u8], cut(page.piece)));
        }
        // One series with one exemplar that has a label; one metadata record; parts of any kind.
        let mut exemplar = vec![4, 1, 1, 9, 1, 1, b'a', 1, b'b', 1, 5, 0];
        exemplar.extend_from_slice(&1.5f64.to_le_bytes());
        exemplar.extend_from_slice(&[1, 1, 1, b't', 0, 0, 1, b'x']);
        all.push(exemplar);
        all.push(vec![5, 1, 2, 1, b'f', 0, 1, b'h']);
        all.push(with(&[6], vec![1, 0, 0, 0, 1, 0, 0, 0, 1, 0]));
        all.push(with(&[7, 6], (0..40).collect()));
        all
    }

    #[test]
    fn a_part_of_the_fixture_with_any_byte_changed_is_read_or_refused() {
        assert!(exemplars_of_plain(&inputs()[inputs().len() - 4][4..], (1, 1, 9 * 64)).is_ok());
        seeds::run_changed(run, inputs(), 0, |_| 1);
    }

    #[test]
    #[ignore = "writes the seed inputs of the fuzzer"]
    fn write_the_inputs() {
        seeds::write("sample_block", "part", inputs());
    }
}
