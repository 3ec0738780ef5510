//! The labels of the series of a batch.
//!
//! **Own form**: packed lengths of the symbols, whose texts are the beginning of the arena; packed
//! numbers of labels of each series; over all labels packed numbers of names, then of values.
//!
//! **Names**: the span of each series, whose text is its name in Graphite's notation.
//!
//! **Spans of a body**: with references first the spans of the symbols; then the span of each series.
//! Spans are two packed columns: starts as differences from the end of the span before, and lengths.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use sandur_model::{GraphiteName, LabelText, Labels, SampleBatch, Span};
use sandur_protobuf::{self as protobuf, Malformed, Wire};

use super::head::{Counts, Form, LABEL_BYTES_MAX};
use crate::codec::Reader;
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::error::Error;
use crate::wal_segment::limits::PART;

const LABELS: &str = "the labels of a batch";

/// Whether the spans of labels ascend, do not overlap, are not empty and end within the arena. The same
/// must hold for spans of symbols, which may be empty.
pub(super) fn spans_fit(batch: &SampleBatch) -> bool {
    let arena = batch.arena.bytes.len();
    let symbols = match &batch.label_text {
        LabelText::References { symbols } => symbols.as_slice(),
        LabelText::None | LabelText::Messages | LabelText::Names => &[],
    };
    rise(symbols.iter().copied(), 0, arena) && rise(batch.series.iter().map(|series| series.text), 1, arena)
}

fn rise(mut spans: impl Iterator<Item = Span>, length_min: u32, arena_len: usize) -> bool {
    let mut end = 0;
    spans.all(|span| {
        let fits = span.start as usize >= end && span.len >= length_min;
        end = span.end();
        fits && end <= arena_len
    })
}

/// Columns of labels, and the numbers of labels and symbols in them.
#[derive(Default)]
pub(super) struct LabelColumns {
    pub(super) columns: Vec<u8>,
    pub(super) labels: usize,
    pub(super) symbols: usize,
}

/// Columns of labels whose texts are not in a request body.
pub(super) struct OwnLabels {
    pub(super) counted: LabelColumns,
    pub(super) texts: Vec<u8>,
}

/// Returns the spans of the symbols, if there are any, and of the series.
pub(super) fn spans(batch: &SampleBatch) -> Result<LabelColumns, Error> {
    let mut found = LabelColumns::default();
    if let LabelText::References { symbols } = &batch.label_text {
        check_references(batch, symbols)?;
        found.symbols = symbols.len();
        put_rising(symbols.iter().copied(), &mut found.columns);
    }
    put_rising(batch.series.iter().map(|series| series.text), &mut found.columns);
    Ok(found)
}

fn put_rising(spans: impl Iterator<Item = Span> + Clone, out: &mut Vec<u8>) {
    let mut end = 0;
    let distance = |span: Span| u64::from(span.start) - std::mem::replace(&mut end, span.end() as u64);
    put_packed(out, &spans.clone().map(distance).collect::<Vec<u64>>());
    put_packed(out, &spans.map(|span| span.len.into()).collect::<Vec<u64>>());
}

/// Fails when the labels are so long that a reader would refuse them. Texts that many series share take
/// no additional bytes of the body, so the body's length does not bound them.
fn check_references(batch: &SampleBatch, symbols: &[Span]) -> Result<(), Error> {
    let references: usize = batch.series.iter().map(|series| series.text.len as usize).sum();
    let longest = symbols.iter().map(|symbol| symbol.len as usize).max().unwrap_or(0);
    if references.saturating_mul(longest) <= LABEL_BYTES_MAX {
        return Ok(());
    }
    check_total(batch.series.iter().map(|series| series.labels.text_bytes()).sum())
}

fn check_total(total: usize) -> Result<(), Error> {
    match total > LABEL_BYTES_MAX {
        true => {
            let (found, limit) = (total as u64, LABEL_BYTES_MAX as u64);
            Err(Error::TooLarge { part: PART, what: LABELS, found, limit })
        }
        false => Ok(()),
    }
}

/// Numbers texts. A text equal to the one at the same index in the series before is found by comparison.
#[derive(Default)]
struct Symbols<'a> {
    by_text: HashMap<&'a str, u32, RandomState>,
    lengths: Vec<u64>,
    texts: Vec<u8>,
}

impl<'a> Symbols<'a> {
    fn number(&mut self, text: &'a str, before: Option<(&str, u32)>) -> u32 {
        if let Some((_, number)) = before.filter(|(same, _)| *same == text) {
            return number;
        }
        *self.by_text.entry(text).or_insert_with(|| {
            self.lengths.push(text.len() as u64);
            self.texts.extend_from_slice(text.as_bytes());
            self.lengths.len() as u32 - 1
        })
    }
}

/// Returns the labels, with each text stored once.
pub(super) fn own(batch: &SampleBatch) -> Result<OwnLabels, Error> {
    let (mut symbols, mut names, mut values) = (Symbols::default(), Vec::new(), Vec::new());
    let mut counts = Vec::with_capacity(batch.series.len());
    let (mut before, mut before_at): (Option<&Labels>, usize) = (None, 0);
    let mut total = 0usize;
    for series in &batch.series {
        let at = names.len();
        let mut known = before.into_iter().flat_map(Labels::iter);
        for (n, (name, value)) in series.labels.iter().enumerate() {
            total = total.saturating_add(name.len() + value.len());
            let same_place = known.next();
            let of = |text, numbers: &[u64]| (text, numbers[before_at + n] as u32);
            let name = symbols.number(name, same_place.map(|(text, _)| of(text, &names)));
            let value = symbols.number(value, same_place.map(|(_, text)| of(text, &values)));
            names.push(u64::from(name));
            values.push(u64::from(value));
        }
        counts.push(series.labels.len() as u64);
        (before, before_at) = (Some(&*series.labels), at);
    }
    check_total(total)?;
    let mut columns = Vec::new();
    for column in [&symbols.lengths, &counts, &names, &values] {
        put_packed(&mut columns, column);
    }
    let counted = LabelColumns { columns, labels: names.len(), symbols: symbols.lengths.len() };
    Ok(OwnLabels { counted, texts: symbols.texts })
}

/// Reads the labels of all series, whose texts are in `arena`.
pub(super) fn get(
    reader: &mut Reader<'_>,
    form: Form,
    texts: &[u8],
    counts: Counts,
    batch: &mut SampleBatch,
) -> Result<(), Error> {
    if form == Form::Own {
        return get_own(reader, texts, counts, batch);
    }
    let symbols = match form {
        Form::References => get_rising(reader, counts.symbols, texts.len())?,
        Form::Own | Form::Messages | Form::Names => Vec::new(),
    };
    let spans = get_rising(reader, counts.series, texts.len())?;
    let mut total = 0usize;
    for span in spans {
        if form == Form::Names {
            let labels = named(reader, span.of(texts))?;
            total = total.saturating_add(labels.text_bytes());
            check_total(total)?;
            batch.begin_series(labels.stream_id(), Arc::new(labels), span);
            continue;
        }
        let malformed = |what| Error::Malformed { part: PART, offset: reader.offset(), what };
        let pairs = match form {
            Form::References => references(protobuf::Reader::new(span.of(texts)), texts, &symbols),
            Form::Own | Form::Messages | Form::Names => messages(protobuf::Reader::new(span.of(texts))),
        };
        let pairs = pairs.map_err(|error| malformed(error.what))?;
        total = pairs.iter().fold(total, |sum, (name, value)| sum.saturating_add(name.len() + value.len()));
        check_total(total)?;
        let labels = Arc::new(Labels::from_pairs(pairs));
        batch.begin_series(labels.stream_id(), labels, span);
    }
    Ok(())
}

/// Returns the labels of a Graphite name.
fn named(reader: &Reader<'_>, name: &[u8]) -> Result<Labels, Error> {
    let name = std::str::from_utf8(name).map_err(|_| reader.malformed("a name is not valid UTF-8"))?;
    let labels = GraphiteName::parse(name).labels();
    labels.map_err(|_| reader.malformed("a Graphite name is not a valid series"))
}

fn get_rising(reader: &mut Reader<'_>, count: usize, arena_len: usize) -> Result<Vec<Span>, Error> {
    let starts = get_packed_u32(reader, count)?;
    let lengths = get_packed_u32(reader, count)?;
    let (mut spans, mut end) = (Vec::with_capacity(count), 0u32);
    for (distance, len) in starts.into_iter().zip(lengths) {
        let start = end.checked_add(distance);
        let stop = start.and_then(|start| start.checked_add(len)).filter(|stop| *stop as usize <= arena_len);
        let (Some(start), Some(stop)) = (start, stop) else {
            return Err(reader.malformed("text lies outside of its batch"));
        };
        spans.push(Span { start, len });
        end = stop;
    }
    Ok(spans)
}

/// The names and values of a series.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// Reads references to symbols, with the reader that the decoder of requests uses: what one accepts the
/// other must accept.
fn references<'a>(
    mut text: protobuf::Reader<'_>,
    arena: &'a [u8],
    symbols: &[Span],
) -> Result<Pairs<'a>, Malformed> {
    let mut pairs = Vec::new();
    while !text.is_at_end() {
        let mut symbol = || {
            let number = usize::try_from(text.varint()?).unwrap_or(usize::MAX);
            let missing = || text.malformed("a label names a symbol that does not exist");
            utf8(text, symbols.get(number).ok_or_else(missing)?.of(arena))
        };
        pairs.push((symbol()?, symbol()?));
    }
    Ok(pairs)
}

/// Reads label messages with the reader that the decoder of requests uses, by the same rules: other fields
/// are skipped, and of a repeated field the last one counts.
fn messages(mut text: protobuf::Reader<'_>) -> Result<Pairs<'_>, Malformed> {
    let mut pairs = Vec::new();
    while let Some(key) = text.key()? {
        if key != (1, Wire::Bytes) {
            return Err(text.malformed("the text of labels is not a label message"));
        }
        let (mut message, mut name, mut value) = (text.message()?, &b""[..], &b""[..]);
        while let Some(key) = message.key()? {
            match key {
                (1, Wire::Bytes) => name = message.bytes()?,
                (2, Wire::Bytes) => value = message.bytes()?,
                (_, wire) => message.skip(wire)?,
            }
        }
        pairs.push((utf8(text, name)?, utf8(text, value)?));
    }
    Ok(pairs)
}

fn utf8<'a>(text: protobuf::Reader<'_>, bytes: &'a [u8]) -> Result<&'a str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| text.malformed("a label is not valid UTF-8"))
}

fn get_own(
    reader: &mut Reader<'_>,
    texts: &[u8],
    Counts { series, labels, symbols, .. }: Counts,
    batch: &mut SampleBatch,
) -> Result<(), Error> {
    let texts = std::str::from_utf8(texts).map_err(|_| reader.malformed("labels are not valid UTF-8"))?;
    let lengths = get_packed_u32(reader, symbols)?;
    let (mut symbols, mut rest) = (Vec::with_capacity(lengths.len()), texts);
    for length in lengths {
        let symbol = rest.split_at_checked(length as usize);
        let (symbol, after) = symbol.ok_or_else(|| reader.malformed("a label ends outside of its text"))?;
        symbols.push(symbol);
        rest = after;
    }
    if !rest.is_empty() {
        return Err(reader.malformed("the text of labels is longer than the labels"));
    }
    let counts = get_packed_u32(reader, series)?;
    if counts.iter().fold(0u64, |sum, count| sum + u64::from(*count)) != labels as u64 {
        return Err(reader.malformed("series state a different number of labels than there are"));
    }
    let (names, values) = (get_packed_u32(reader, labels)?, get_packed_u32(reader, labels)?);
    let (mut at, mut total) = (0, 0usize);
    for count in counts {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for n in at..at + count as usize {
            let text = |numbers: &[u32]| symbols.get(numbers[n] as usize).copied();
            let (Some(name), Some(value)) = (text(&names), text(&values)) else {
                return Err(reader.malformed("a label names a symbol that does not exist"));
            };
            if value.is_empty() || pairs.last().is_some_and(|(before, _)| *before >= name) {
                return Err(reader.malformed("labels are not sorted, or one is empty"));
            }
            total = total.saturating_add(name.len() + value.len());
            pairs.push((name, value));
        }
        check_total(total)?;
        at += count as usize;
        let labels = Arc::new(Labels::from_pairs(pairs));
        batch.begin_series(labels.stream_id(), labels, Span::default());
    }
    Ok(())
}
