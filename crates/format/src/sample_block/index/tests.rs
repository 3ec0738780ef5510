//! Tests of complete indexes, and of indexes with arbitrary bytes.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use roaring::RoaringBitmap;

use super::gather::IndexWriter;
use super::*;
use crate::block::compare_series;

type Pairs = Vec<(String, String)>;

fn pairs(labels: &Pairs) -> impl Iterator<Item = (&str, &str)> + Clone {
    labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

fn sorted(mut series: Vec<Pairs>) -> Vec<Pairs> {
    series.sort_by(|a, b| compare_series(pairs(a), pairs(b)));
    series.dedup_by(|a, b| compare_series(pairs(a), pairs(b)).is_eq());
    series
}

fn index_of(series: &[Pairs]) -> Index {
    let mut writer = IndexWriter::new(1);
    for (n, labels) in (0..).zip(series) {
        let ordinal = writer.push(pairs(labels)).unwrap();
        let span = SeriesSpan { rows: 1 + n, min_ms: 1_000 + n as i64, max_ms: 2_000 + 2 * n as i64 };
        writer.count(ordinal, span).unwrap();
    }
    let nowhere =
        |area: WrittenArea| Area { piece: Piece::of(8 + area.address, &area.bytes), address: area.address };
    writer.finish(nowhere).unwrap()
}

fn plain(index: &Index, part: &Part) -> Result<Bytes, Error> {
    plain_of(index, part, &Bytes::new())
}

fn plain_of(index: &Index, part: &Part, object: &Bytes) -> Result<Bytes, Error> {
    match index.locate(part)? {
        Place::Footer(bytes) => part.open(&bytes),
        Place::Object(piece) if piece.end() <= object.len() as u64 => {
            part.open(&object.slice(piece.offset as usize..piece.end() as usize))
        }
        Place::Object(_) => Err(Error::Misuse("not in the footer")),
    }
}

fn page_of(index: &Index, number: u32) -> Result<SeriesPage, Error> {
    let parts = SeriesColumns::parts(index, number, &|_| true);
    let bytes = parts.iter().map(|part| plain(index, part)).collect::<Result<Vec<_>, _>>()?;
    let columns = SeriesColumns::decode(index, number, &|_| true, &bytes)?;
    let mut texts = Vec::new();
    for text in columns.texts(index) {
        let page = &index.labels()[text.label].text_pages()[text.page];
        texts.push((text, Arc::new(index.texts(page, &plain(index, &page.part)?)?)));
    }
    columns.finish(index, &texts)
}

/// Returns the complete contents of the index: labels by ordinal, and series by label and value.
#[allow(clippy::type_complexity)] // a test: the contents are compared at once
fn contents(index: &Index) -> Result<(Vec<Pairs>, Vec<(String, String, Vec<u32>)>), Error> {
    let (mut series, mut lists) = (Vec::new(), Vec::new());
    for number in 0..index.pages().len() as u32 {
        let page = page_of(index, number)?;
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        series.extend(page.series().map(|ordinal| page.pairs(ordinal).map(own).collect::<Pairs>()));
    }
    for label in index.labels() {
        for (at, page) in label.sorted_pages().iter().enumerate() {
            let (texts, numbers) = index.sorted_texts(label, at, &plain(index, &page.part)?)?;
            for (text, number) in texts.iter().zip(numbers) {
                let _ = (label.sorted_page_of(text), label.sorted_pages_from(text));
                let Some((page, within)) = label.list_page_of(number) else { continue };
                let of = &label.list_pages()[page];
                let mut found = RoaringBitmap::new();
                index.lists(of, &plain(index, &of.part)?)?.add(within, index.series(), &mut found)?;
                lists.push((label.name().to_string(), text.to_owned(), found.iter().collect()));
            }
        }
    }
    Ok((series, lists))
}

fn sections(index: &Index) -> [Vec<u8>; 4] {
    let mut sections: [Vec<u8>; 4] = Default::default();
    index.put_series(&mut sections[0], 0);
    index.put_labels(&mut sections[1]);
    index.put_areas(&mut sections[2]);
    sections[3] = index.in_footer().to_vec();
    sections
}

fn read(sections: [Vec<u8>; 4]) -> Result<Index, Error> {
    let [series, labels, areas, in_footer] = sections.map(Bytes::from);
    Index::get(IndexSections { series: (series, 0), labels: (labels, 0), areas: (areas, 0), in_footer }, 0)
}

fn some_series(n: u32) -> Vec<Pairs> {
    let label = |name: &str, value: String| (name.to_owned(), value);
    let of = |n: u32| {
        let mut labels =
            vec![label("__name__", format!("m{}", n % 3)), label("a", format!("v{}", n * 7 % 11))];
        labels.extend((n.is_multiple_of(5)).then(|| label("b", "x".repeat(n as usize % 40 + 1))));
        labels.push(label("c", format!("{:05}", n * 31 % 1_009)));
        labels
    };
    sorted((0..n).map(of).collect())
}

/// Regression: half a gigabyte of names of 4 KiB became a block that readers refused, because its first
/// texts were too long.
#[test]
fn pages_of_many_long_texts_are_larger_and_readable() {
    const LENGTH: usize = 4 << 10;
    let text = |n: u32| format!("{n:08}{}", "x".repeat(LENGTH - 8));
    const NAMES: u32 = 17_000;
    let mut writer = IndexWriter::new(1);
    let mut object = Vec::new();
    let mut store = |area: WrittenArea| {
        let piece = Piece::of(object.len() as u64, &area.bytes);
        object.extend_from_slice(&area.bytes);
        Area { piece, address: area.address }
    };
    for n in 0..NAMES {
        let (name, other) = (text(n), text(n * 7 % NAMES));
        let ordinal = writer.push([("__name__", name.as_str()), ("a", other.as_str())].into_iter()).unwrap();
        writer.count(ordinal, SeriesSpan { rows: 1, min_ms: 1, max_ms: 1 }).unwrap();
        if let Some(area) = writer.full_area() {
            let area = store(area);
            writer.stored(area);
        }
    }
    let index = writer.finish(store).unwrap();
    let object = Bytes::from(object);
    for label in index.labels() {
        // The first texts of the first 2,048 pages have 8 MiB.
        let counts: Vec<u32> = label.sorted_pages().iter().map(|page| page.count).collect();
        assert_eq!((counts[0], counts[2_047], counts[2_048]), (8, 8, 16), "{}", label.name());
        for wanted in [0, 9_999, 16_384, NAMES - 1].map(text) {
            let at = label.sorted_page_of(&wanted).unwrap();
            let bytes = plain_of(&index, &label.sorted_pages()[at].part, &object).unwrap();
            let (texts, _) = index.sorted_texts(label, at, &bytes).unwrap();
            assert!(texts.iter().any(|found| found == wanted));
        }
    }
}

/// Readers refuse a page with more than 64 KiB of shared bytes.
#[test]
fn a_large_page_of_similar_texts_is_written_without_sharing() {
    let texts: Vec<String> = (0..40).map(|n| format!("{}{n}", "x".repeat(4_096))).collect();
    let all = || texts.iter().map(String::as_str);
    let bytes = texts.iter().map(String::len).sum::<usize>();
    let page = PageRef { count: 40, bytes: bytes as u32, ..PageRef::default() };
    let mut whole = Vec::new();
    TextPage::put_page(&mut whole, all(), bytes);
    let read = get_texts(&mut Reader::new("test", 0, &whole), &page).unwrap();
    assert!(read.iter().eq(all()));
    let mut shared = Vec::new();
    TextPage::put(&mut shared, all());
    assert!(get_texts(&mut Reader::new("test", 0, &shared), &page).is_err());
}

#[test]
fn an_index_of_several_pages_is_read_back() {
    let series = some_series(9_000);
    let index = read(sections(&index_of(&series))).unwrap();
    let (found, lists) = contents(&index).unwrap();
    assert_eq!(found, series);
    for (name, value, list) in lists {
        let has = |ordinal: &u32| series[*ordinal as usize].contains(&(name.clone(), value.clone()));
        let expected: Vec<u32> = (0..series.len() as u32).filter(has).collect();
        assert_eq!(list, expected, "{name}={value}");
    }
    let label = index.label("c").unwrap();
    for start in ["", "0", "00", "007", "1", "01008", "z"] {
        let (some, within) = (label.sorted_pages_from(start), label.sorted_pages_within(start));
        for (at, page) in label.sorted_pages().iter().enumerate() {
            let (texts, _) = index.sorted_texts(label, at, &plain(&index, &page.part).unwrap()).unwrap();
            let have = texts.iter().filter(|text| text.starts_with(start)).count();
            assert!(have == 0 || some.contains(&at), "{start}: {at}");
            assert!(have == texts.len() || !within.contains(&at), "{start}: {at}");
        }
    }
    let last = page_of(&index, 2).unwrap();
    let n = last.series().start;
    let span =
        SeriesSpan { rows: 1 + u64::from(n), min_ms: 1_000 + i64::from(n), max_ms: 2_000 + 2 * i64::from(n) };
    assert_eq!(last.span(n), span);
    assert!(series.len() * 4 > index.in_footer().len(), "{} bytes", index.in_footer().len());
}

/// Names of metrics are written to the object while the block is being written, and are found there:
/// names with one series, names with many, and series without a name before them.
#[test]
fn names_leave_memory_while_a_block_is_written() {
    let series_of = |n: u32| match n % 10 {
        0 => 40 * (n / 10 % 2) + 1,
        _ => 1,
    };
    let name_of = |n: u32| format!("site.rack{:03}.host{:05}.metric", n / 1_000, n);
    let (mut writer, mut object, mut ordinals) = (IndexWriter::new(1), Vec::new(), Vec::new());
    let mut store = |area: WrittenArea| {
        let piece = Piece::of(object.len() as u64, &area.bytes);
        object.extend_from_slice(&area.bytes);
        Area { piece, address: area.address }
    };
    let mut push = |writer: &mut IndexWriter, labels: &[(&str, &str)]| {
        let ordinal = writer.push(labels.iter().copied()).unwrap();
        writer.count(ordinal, SeriesSpan { rows: 1, min_ms: 1, max_ms: 1 }).unwrap();
        if let Some(area) = writer.full_area() {
            let area = store(area);
            writer.stored(area);
        }
        ordinal
    };
    push(&mut writer, &[("a", "nameless")]);
    let mut held = Vec::new();
    for n in 0..60_000 {
        let name = name_of(n);
        let mut own = Vec::new();
        for member in 0..series_of(n) {
            own.push(push(&mut writer, &[("__name__", &name), ("b", &format!("{member:02}"))]));
        }
        ordinals.push(own);
        held.push(writer.memory_bytes());
    }
    let most = held.iter().max().copied().unwrap_or(0);
    assert!(most < 1 << 20, "{most} bytes for {} names of 30 bytes", held.len());
    let index = writer.finish(store).unwrap();
    let object = Bytes::from(object);
    let label = index.label("__name__").unwrap();
    assert!(label.is_in_order() && label.values() == 60_000);
    let list = |at: u32| {
        let (page, within) = label.list_page_of(at).unwrap();
        let of = &label.list_pages()[page];
        let mut found = RoaringBitmap::new();
        let lists = index.lists(of, &plain_of(&index, &of.part, &object).unwrap()).unwrap();
        lists.add(within, index.series(), &mut found).unwrap();
        found.iter().collect::<Vec<u32>>()
    };
    assert!(list(0).into_iter().eq(1..index.series()));
    for n in (0..60_000).step_by(97).chain([1, 510, 511, 512, 513, 59_999]) {
        let (page, within) = label.text_page_of(n + 1).unwrap();
        let of = &label.text_pages()[page];
        let texts = index.texts(of, &plain_of(&index, &of.part, &object).unwrap()).unwrap();
        assert_eq!(texts.get(within), name_of(n));
        assert_eq!(label.sorted_page_of(&name_of(n)), Some(page));
        assert_eq!(list(n + 1), ordinals[n as usize], "{n}");
    }
}

/// Declared numbers and lengths beyond the available bytes are refused before memory is reserved for
/// them.
#[test]
fn no_changed_byte_of_a_section_causes_a_panic() {
    let whole = sections(&index_of(&some_series(600)));
    for section in 0..3 {
        for at in 0..whole[section].len() {
            for with in [[0, 0x80], [1, 0xFF], [0x7F, 0]][at % 3] {
                let mut changed = whole.clone();
                changed[section][at] = with;
                let _ = read(changed).and_then(|index| contents(&index));
            }
            let mut cut = whole.clone();
            cut[section].truncate(at);
            assert!(read(cut).is_err(), "section {section} cut at {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_series_round_trip(
        series in prop::collection::vec(prop::collection::btree_map("[a-c_]{1,2}", ".{1,3}", 0..4), 0..80),
    ) {
        let series = sorted(series.into_iter().map(|labels| labels.into_iter().collect()).collect());
        let (found, lists) = contents(&read(sections(&index_of(&series))).unwrap()).unwrap();
        prop_assert_eq!(&found, &series);
        let listed: usize = lists.iter().map(|(_, _, list)| list.len()).sum();
        prop_assert_eq!(listed, series.iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn series_of_two_pages_compare_by_numbers_as_by_labels(
        [a, b] in prop::array::uniform2(prop::collection::vec(
            prop::collection::btree_map("[A-Ba-c_]|le|__(name|archive|graphite|rollup)__", "[0-2]|1.0", 0..5),
            1..20,
        )),
    ) {
        let [a, b] = [a, b].map(|all| sorted(all.into_iter().map(|one| one.into_iter().collect()).collect()));
        let [first, second] = [&a, &b].map(|series| page_of(&index_of(series), 0).unwrap());
        let mut alike = Alike::of(&first, &second);
        for _ in 0..2 {
            for (n, m) in (0..a.len()).flat_map(|n| (0..b.len()).map(move |m| (n, m))) {
                let order = compare_series(pairs(&a[n]), pairs(&b[m]));
                let is_same = order.is_eq();
                let places = ((&first, n as u32), (&second, m as u32));
                if let Some(found) = alike.compare(places.0, places.1) {
                    prop_assert_eq!(found, order);
                }
                prop_assert!(is_same || !alike.are_same(places.0, places.1));
                if is_same {
                    alike.learn(places.0, places.1);
                    prop_assert!(alike.are_same(places.0, places.1));
                }
            }
        }
    }

    /// The plain bytes of parts, which no checksum covers here.
    #[test]
    fn parts_of_any_bytes_are_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        n in 0..40u32,
    ) {
        let index = index_of(&some_series(100));
        let plain = Bytes::from(bytes);
        let page = PageRef { part: Part::default(), first: 0, count: n, bytes: 50 };
        let _ = index.texts(&page, &plain);
        let _ = index.spans(0, &plain);
        let _ = ColumnNumbers::decode(&Part::default(), &plain, n as usize, 9);
        if let Ok(lists) = index.lists(&page, &plain) {
            let mut found = RoaringBitmap::new();
            for at in 0..lists.counts().len() {
                let _ = lists.add(at, index.series(), &mut found);
            }
        }
    }
}
