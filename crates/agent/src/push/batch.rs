//! A batch of entries of one stream, and the push request for any part of them. An entry is a line, or
//! several lines that were joined.

use std::ops::Range;

use bytes::Bytes;
use sandur_model::Labels;
use sandur_protobuf::loki;

use super::dates::Dates;
use super::entries::Learned;

/// Content type of [`Batch::body`].
pub const PUSH_TYPE: &str = "application/x-protobuf";

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Offset of its first byte in the input.
    pub at: u64,
    /// Nanoseconds since the epoch.
    pub timestamp_ns: i64,
    start: u32,
    end: u32,
    /// Number of lines that were joined to its first one.
    joined: u32,
}

/// A line that was too long and was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Offset of its first byte in the input.
    pub at: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Consecutive lines of one input.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Labels of the stream.
    pub labels: Labels,
    /// The lines.
    pub lines: Vec<Line>,
    /// Lines that were skipped between them.
    pub skipped: Vec<Skipped>,
    /// Number of lines that are not valid UTF-8.
    pub not_utf8: u64,
    /// Number of lines that were dated by arrival.
    pub undated: u64,
    /// Offset in the input before it.
    pub start: u64,
    /// Offset in the input after it.
    pub end: u64,
    /// Time of arrival of its lines, nanoseconds since the epoch.
    pub now_ns: i64,
    /// The state of the dates after its lines.
    pub dates: Dates,
    /// What was learned about entries of several lines after its lines.
    pub learned: Learned,
    /// Whether its last entry was ended although lines that continue it may follow.
    pub is_cut: bool,
    text: Vec<u8>,
}

impl Batch {
    /// An empty batch that begins at `start`.
    pub fn new(labels: Labels, start: u64, dates: Dates, learned: Learned) -> Self {
        Self { labels, start, end: start, dates, learned, ..Self::default() }
    }

    /// Adds a line.
    pub fn add(&mut self, at: u64, timestamp_ns: i64, text: &[u8]) {
        let start = self.text.len() as u32;
        self.text.extend_from_slice(text);
        self.not_utf8 += u64::from(is_not_utf8(text));
        self.lines.push(Line { at, timestamp_ns, start, end: self.text.len() as u32, joined: 0 });
    }

    /// Adds a line to the last entry. `blanks` is the number of empty lines before it, which are added too.
    pub fn join(&mut self, blanks: u32, text: &[u8]) {
        let Some(last) = self.lines.last_mut() else { return };
        let is_first = is_not_utf8(text) && !is_not_utf8(&self.text[last.start as usize..]);
        self.not_utf8 += u64::from(is_first);
        self.text.resize(self.text.len() + blanks as usize + 1, b'\n');
        self.text.extend_from_slice(text);
        (last.end, last.joined) = (self.text.len() as u32, last.joined + 1);
    }

    /// Text of the last entry; empty if there is none.
    pub fn last(&self) -> &[u8] {
        self.lines.last().map_or(b"", |line| &self.text[line.start as usize..line.end as usize])
    }

    /// Removes the last entry, and adds it to the empty batch `next`.
    pub fn move_last(&mut self, next: &mut Self) {
        let Some(last) = self.lines.pop() else { return };
        let text = self.text.split_off(last.start as usize);
        self.not_utf8 -= u64::from(is_not_utf8(&text));
        next.add(last.at, last.timestamp_ns, &text);
        next.lines.last_mut().into_iter().for_each(|line| line.joined = last.joined);
    }

    /// Number of lines that were joined to the first ones of these entries.
    pub fn joined(&self, lines: Range<usize>) -> u64 {
        self.lines[lines].iter().map(|line| u64::from(line.joined)).sum()
    }

    /// Bytes of the lines so far.
    pub fn bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// Bytes of these lines.
    pub fn bytes_of(&self, lines: Range<usize>) -> u64 {
        self.lines[lines].iter().map(|line| u64::from(line.end - line.start)).sum()
    }

    /// How many of these lines are not valid UTF-8.
    pub fn not_utf8_of(&self, lines: Range<usize>) -> u64 {
        lines.filter(|&n| is_not_utf8(self.text(n))).count() as u64
    }

    /// The text of line `n`.
    pub fn text(&self, n: usize) -> &[u8] {
        let line = self.lines[n];
        &self.text[line.start as usize..line.end as usize]
    }

    /// Loki's push request for these lines: protobuf in a snappy block.
    pub fn body(&self, lines: Range<usize>) -> Bytes {
        let mut plain = Vec::with_capacity(self.text.len() + 32 * lines.len() + 64);
        loki::stream(&mut plain, &self.labels.to_string(), |stream| {
            for n in lines {
                loki::entry(stream, self.lines[n].timestamp_ns, self.text(n), []);
            }
        });
        let packed = snap::raw::Encoder::new().compress_vec(&plain);
        packed.expect("a batch is far below snappy's limit of 4 GiB").into()
    }
}

fn is_not_utf8(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_err()
}

#[cfg(test)]
mod tests {
    use sandur_model::{Limits, TenantId};

    use super::*;

    #[test]
    fn the_decoder_of_the_server_reads_any_part() {
        let mut all =
            Batch::new(Labels::from_pairs([("app", "a\"b")]), 0, Dates::default(), Learned::default());
        all.add(0, 1_500_000_000_123_456_789, b"zero");
        all.add(5, 1_500_000_001_123_456_789, b"one");
        all.add(9, 1_500_000_002_000_000_000, b"two \xff");
        let limits = Limits { reject_old_samples_max_age: 0, ..Limits::default() };
        let headers = sandur_ingest::PushHeaders { content_type: Some(PUSH_TYPE), content_encoding: None };
        let tenant = TenantId::default_tenant();
        let now_ns = 1_600_000_000_000_000_000;
        let decoded = sandur_ingest::loki_push(&tenant, &limits, now_ns, headers, all.body(1..3)).unwrap();
        let batch = &decoded.batch;
        assert_eq!((batch.rows(), all.not_utf8, all.bytes_of(1..3)), (2, 1, 8));
        let entry = batch.streams[0].entries[0];
        assert_eq!(entry.timestamp, 1_500_000_001_123_456_789);
        assert_eq!(entry.line.of(&batch.arena.bytes), b"one");
        assert_eq!(batch.streams[0].entries[1].line.of(&batch.arena.bytes), b"two \xff");
    }
}
