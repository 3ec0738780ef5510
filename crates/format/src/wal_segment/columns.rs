//! The streams and entries of a batch without its text.
//!
//! Layout: number of streams (LEB128); per stream number of labels, names and values (length and text
//! each), number of entries (LEB128); then over all entries, bit packed: timestamps as zigzag differences
//! from the entry before, line starts as zigzag differences from the end of the line before, line
//! lengths, levels, numbers of metadata pairs; then over all pairs, bit packed: name starts (differences
//! from the end of the span before), name lengths, value starts, value lengths.

use std::sync::Arc;

use sandur_model::{Entry, Labels, Level, LogBatch, Span, StreamEntries};

use crate::codec::Reader;
use crate::codec::bitpack::{BLOCK, get_packed, get_packed_u32, put_packed};
use crate::codec::labels::{get_labels, put_labels};
use crate::codec::varint::{put_varint, unzigzag, zigzag};
use crate::error::Error;
use crate::wal_segment::limits::ARENA_BYTES_MAX;

/// Most entries of a batch: each takes at least one byte of text or of the request.
const ENTRIES_MAX: usize = ARENA_BYTES_MAX;

/// Streams and metadata pairs, as they are in a [`LogBatch`].
type Decoded = (Vec<(Span, Span)>, Vec<StreamEntries>);

pub(crate) fn put_columns(batch: &LogBatch) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, batch.streams.len() as u64);
    for stream in &batch.streams {
        put_labels(&mut out, &stream.labels);
        put_varint(&mut out, stream.entries.len() as u64);
    }
    let entries = || batch.streams.iter().flat_map(|stream| &stream.entries);
    let mut column = |values: Vec<u64>| put_packed(&mut out, &values);
    let mut before = 0i64;
    column(
        entries()
            .map(|e| zigzag(e.timestamp.wrapping_sub(std::mem::replace(&mut before, e.timestamp))))
            .collect(),
    );
    let mut end = 0;
    column(entries().map(|e| distance(e.line, &mut end)).collect());
    column(entries().map(|e| u64::from(e.line.len)).collect());
    column(entries().map(|e| e.level as u64).collect());
    column(entries().map(|e| u64::from(e.metadata_len)).collect());
    let pairs = || {
        entries().flat_map(|e| {
            let start = e.metadata_start as usize;
            &batch.metadata[start..start + usize::from(e.metadata_len)]
        })
    };
    for part in [|pair: &(Span, Span)| pair.0, |pair: &(Span, Span)| pair.1] {
        let mut end = 0;
        column(pairs().map(|pair| distance(part(pair), &mut end)).collect());
        column(pairs().map(|pair| u64::from(part(pair).len)).collect());
    }
    out
}

/// Returns the start of a span relative to the end of the one before.
fn distance(span: Span, end: &mut i64) -> u64 {
    let distance = i64::from(span.start) - *end;
    *end = span.end() as i64;
    zigzag(distance)
}

/// Reads streams and metadata whose text is in an arena of `arena_len` bytes.
pub(crate) fn get_columns(reader: &mut Reader<'_>, arena_len: usize) -> Result<Decoded, Error> {
    let stream_count = reader.count("streams of a batch", reader.remaining())?;
    let (mut streams, mut total) = (Vec::new(), 0usize);
    for _ in 0..stream_count {
        let labels = Arc::new(get_labels(reader)?);
        let count = reader.count("entries of a batch", ENTRIES_MAX - total)?;
        total += count;
        streams.push((labels, count));
    }
    // A block of entries takes at least two bytes in each of five columns.
    if total.div_ceil(BLOCK) * 10 > reader.remaining() {
        return Err(reader.malformed("there are fewer entries than the streams state"));
    }
    let mut at = 0i64;
    let timestamps = get_packed(reader, total, unzigzag)?;
    let lines = get_spans(reader, total, arena_len)?;
    let levels = get_packed(reader, total, |v| u8::try_from(v).ok().and_then(Level::from_number))?;
    let metadata_lens = get_packed(reader, total, |v| u16::try_from(v).ok())?;
    let mut pair_count = 0u32;
    let mut all = Vec::with_capacity(total);
    for row in 0..total {
        at = at.wrapping_add(timestamps[row]);
        let (Some(level), Some(metadata_len)) = (levels[row], metadata_lens[row]) else {
            return Err(reader.malformed("a level or a number of metadata pairs is out of range"));
        };
        let metadata_start = pair_count;
        pair_count = pair_count
            .checked_add(metadata_len.into())
            .ok_or_else(|| reader.malformed("there are too many metadata pairs"))?;
        all.push(Entry { timestamp: at, line: lines[row], metadata_start, metadata_len, level });
    }
    let names = get_spans(reader, pair_count as usize, arena_len)?;
    let values = get_spans(reader, pair_count as usize, arena_len)?;
    let mut rest = all.as_slice();
    let with_entries = |(labels, count): (Arc<Labels>, usize)| {
        let (own, after) = rest.split_at(count);
        rest = after;
        StreamEntries { id: labels.stream_id(), labels, entries: own.to_vec() }
    };
    let streams = streams.into_iter().map(with_entries).collect();
    Ok((names.into_iter().zip(values).collect(), streams))
}

/// Reads `count` spans, each within an arena of `arena_len` bytes.
fn get_spans(reader: &mut Reader<'_>, count: usize, arena_len: usize) -> Result<Vec<Span>, Error> {
    let starts = get_packed(reader, count, unzigzag)?;
    let lengths = get_packed_u32(reader, count)?;
    let (mut spans, mut end) = (Vec::with_capacity(count), 0i64);
    for (distance, len) in starts.into_iter().zip(lengths) {
        let start = end.checked_add(distance).filter(|&start| start >= 0);
        let stop = start.and_then(|start| start.checked_add(len.into()));
        let (Some(start), Some(stop)) = (start, stop.filter(|&stop| stop <= arena_len as i64)) else {
            return Err(reader.malformed("text lies outside of its batch"));
        };
        spans.push(Span { start: start as u32, len });
        end = stop;
    }
    Ok(spans)
}
