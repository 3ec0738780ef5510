//! Builds the batch of a log request from what a decoder reads: applies limits, normalizes metadata,
//! detects levels and collects streams.
//!
//! A decoder calls [`BatchBuilder::begin`] for a stream, [`BatchBuilder::entry`] for each of its entries,
//! and [`BatchBuilder::end`]. The spans that it passes point into the builder's [`Text`].

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use foldhash::{HashMap, HashMapExt};
use sandur_model::{Entry, Level, Limits, LogBatch, LogPage, Span, StreamEntries, StreamId, TenantId};

use crate::error::Error;
use crate::labels_cache::KnownStream;
use crate::level::{LabelLevel, SEVERITY_NUMBER, level_of_value, line_level, severity_level};
use crate::level_keys::level_key_rank;
use crate::limits_check::{
    Broken, ENTRIES_MAX, EntryLimits, METADATA_PAIRS_MAX, REQUEST_LABELS_TEXT_MAX, STREAMS_MAX, check_labels,
};
use crate::memory::DecoderMemory;
use crate::metadata_name::{is_normal, write_normal};
use crate::refused::{Cause, Reason, Refused};
use crate::request::{Body, Decoded};
use crate::text::Text;

/// Bytes that a stream of a request takes in addition to its entries and its labels.
const STREAM_BYTES: u64 = 128;
/// Bytes that a label takes in addition to its text: two boxed strings.
const LABEL_BYTES: u64 = 64;
/// Distinct metadata names whose span in the arena is remembered.
const NAMES_MAX: usize = 1024;

/// An entry as it was sent. The metadata is in [`BatchBuilder::pairs`].
#[derive(Clone, Copy, Default)]
pub(crate) struct RawEntry {
    /// Nanoseconds since the epoch.
    pub(crate) timestamp: i64,
    /// The line.
    pub(crate) line: Span,
}

/// A stream whose entries are being added.
pub(crate) struct OpenStream {
    known: KnownStream,
    accepted: Result<(), (Reason, String)>,
    /// Span of the value of the level label, when that value is no known level.
    other_level: Option<Span>,
    /// Index of its first entry in the request.
    first: u32,
    refused_lines: u64,
    refused_bytes: u64,
}

/// Collects the entries of one request.
pub(crate) struct BatchBuilder<'a> {
    pub(crate) text: Text<'a>,
    /// The metadata of the entry that is added next; of pairs with equal names the last one counts.
    pub(crate) pairs: Vec<(Span, Span)>,
    limits: &'a Limits,
    memory: DecoderMemory,
    entry_limits: EntryLimits,
    names: HashMap<Box<[u8]>, Span>,
    entries: Vec<Entry>,
    entry_count: usize,
    /// Entries of the request so far, including refused ones.
    seen: u32,
    labels_text: usize,
    metadata: Vec<(Span, Span)>,
    streams: Vec<StreamEntries>,
    refused: Refused,
    bytes: u64,
}

/// A built batch that no longer borrows the body: the result of [`BatchBuilder::finish`].
pub(crate) struct Built {
    tail: Vec<u8>,
    memory: DecoderMemory,
    metadata: Vec<(Span, Span)>,
    streams: Vec<StreamEntries>,
    refused: Refused,
    bytes: u64,
}

impl Built {
    /// Combines the batch with its body into the decoded request.
    pub(crate) fn over(self, body: Body, tenant: &TenantId) -> Result<Decoded, Error> {
        let arena = body.into_arena(&self.tail, &self.memory)?;
        let batch =
            LogBatch { tenant: tenant.clone(), arena, metadata: self.metadata, streams: self.streams };
        Ok(Decoded { lines: batch.rows() as u64, bytes: self.bytes, refused: self.refused, batch })
    }
}

impl<'a> BatchBuilder<'a> {
    /// Returns a builder over `text` that applies the tenant's limits as of `now_ns`.
    pub(crate) fn new(text: Text<'a>, limits: &'a Limits, now_ns: i64, memory: &DecoderMemory) -> Self {
        Self {
            text,
            pairs: Vec::new(),
            limits,
            memory: memory.clone(),
            entry_limits: EntryLimits::new(limits, now_ns),
            names: HashMap::new(),
            entries: Vec::new(),
            entry_count: 0,
            seen: 0,
            labels_text: 0,
            metadata: Vec::new(),
            streams: Vec::new(),
            refused: Refused::default(),
            bytes: 0,
        }
    }

    /// The tenant's limits.
    pub(crate) fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// Counts the bytes of the text that names a stream, before it is parsed.
    pub(crate) fn count_labels_text(&mut self, bytes: usize) -> Result<(), Error> {
        self.labels_text += bytes;
        if self.labels_text > REQUEST_LABELS_TEXT_MAX {
            return Err(too_many("bytes of stream labels", REQUEST_LABELS_TEXT_MAX));
        }
        Ok(())
    }

    /// Refuses all entries of a stream whose labels cannot be parsed. The client reads the cause once per
    /// stream.
    pub(crate) fn refuse_stream(
        &mut self,
        refusal: (Reason, String),
        name: &[u8],
        (lines, bytes): (u64, u64),
    ) {
        let first = self.seen;
        self.seen = first.saturating_add(lines.min(u64::from(u32::MAX)) as u32);
        self.refuse_from(first, refusal, name, (lines, bytes));
    }

    fn refuse_from(
        &mut self,
        first: u32,
        (reason, text): (Reason, String),
        name: &[u8],
        (lines, bytes): (u64, u64),
    ) {
        if lines == 0 {
            return; // like Loki, which ignores a stream without entries
        }
        let stream = StreamId(u128::from(FixedState::default().hash_one(name)));
        self.refused.count(reason, lines, bytes);
        self.refused.note(reason, first, self.seen - first);
        self.refused.report(Cause { reason, stream, number: 0 }, || text);
    }

    /// Starts a stream.
    pub(crate) fn begin(&mut self, known: KnownStream) -> Result<OpenStream, Error> {
        if self.streams.len() == STREAMS_MAX {
            return Err(too_many("streams", STREAMS_MAX));
        }
        let labels = &known.labels;
        self.memory.take(STREAM_BYTES + labels.len() as u64 * LABEL_BYTES + labels.text_bytes() as u64)?;
        let accepted = check_labels(&known, self.limits);
        self.entries.clear();
        Ok(OpenStream {
            known,
            accepted,
            other_level: None,
            first: self.seen,
            refused_lines: 0,
            refused_bytes: 0,
        })
    }

    /// Adds an entry with the metadata in `pairs` to the stream.
    pub(crate) fn entry(&mut self, stream: &mut OpenStream, raw: RawEntry) -> Result<(), Error> {
        let number = self.seen;
        self.seen = number.saturating_add(1);
        let sent = self.pairs.iter().map(|(name, value)| u64::from(name.len + value.len)).sum::<u64>();
        if stream.accepted.is_err() {
            stream.refused_lines += 1;
            stream.refused_bytes += u64::from(raw.line.len) + sent;
            return Ok(());
        }
        let line = match self.check(raw, sent) {
            Ok(kept) => Span { start: raw.line.start, len: kept as u32 },
            Err(broken) => {
                let taken = self.refused.note(broken.0, number, 1);
                self.memory.take(taken)?;
                self.refuse_entry(&stream.known, broken, u64::from(raw.line.len) + sent);
                return Ok(());
            }
        };
        self.entry_count += 1;
        if self.entry_count > ENTRIES_MAX {
            return Err(too_many("entries", ENTRIES_MAX));
        }
        // One pair more: a detected level may be added.
        self.memory.widen(&mut self.metadata, self.pairs.len() + 1, METADATA_PAIRS_MAX)?;
        self.memory.widen(&mut self.entries, 1, ENTRIES_MAX)?;
        let metadata_start = self.metadata.len();
        let level = if self.pairs.is_empty() {
            self.level_without_metadata(stream, line, metadata_start)?
        } else {
            self.add_metadata(metadata_start)?;
            self.level_with_metadata(stream, line, metadata_start)?
        };
        if self.metadata.len() > METADATA_PAIRS_MAX {
            return Err(too_many("pairs of structured metadata", METADATA_PAIRS_MAX));
        }
        self.bytes += u64::from(line.len) + sent;
        let metadata_len = (self.metadata.len() - metadata_start) as u16;
        let metadata_start = metadata_start as u32;
        self.entries.push(Entry { timestamp: raw.timestamp, line, metadata_start, metadata_len, level });
        Ok(())
    }

    /// Ends a stream.
    pub(crate) fn end(&mut self, stream: OpenStream) -> Result<(), Error> {
        if let Err(refusal) = stream.accepted {
            let id = stream.known.id.0.to_le_bytes();
            let refused = (stream.refused_lines, stream.refused_bytes);
            self.refuse_from(stream.first, refusal, &id, refused);
            return Ok(());
        }
        if !self.entries.is_empty() {
            self.memory.take(size_of_val(self.entries.as_slice()) as u64)?;
            self.memory.widen(&mut self.streams, 1, STREAMS_MAX)?;
            // an exact copy: the scratch list keeps its capacity for the next stream
            let entries = self.entries.as_slice().to_vec();
            self.streams.push(StreamEntries { id: stream.known.id, labels: stream.known.labels, entries });
        }
        Ok(())
    }

    /// Adds a pair to the metadata of the entry that is added next.
    #[inline]
    pub(crate) fn add_pair(&mut self, pair: (Span, Span)) -> Result<(), Error> {
        self.memory.widen(&mut self.pairs, 1, usize::MAX)?;
        self.pairs.push(pair);
        Ok(())
    }

    /// Where the builder reserves its memory.
    pub(crate) fn memory(&self) -> &DecoderMemory {
        &self.memory
    }

    /// Finishes the batch and releases the borrow of the body.
    pub(crate) fn finish(mut self) -> Built {
        // The batch stays in memory for minutes: spare capacity is released.
        self.metadata.shrink_to_fit();
        self.streams.shrink_to_fit();
        Built {
            tail: self.text.into_tail(),
            memory: self.memory,
            metadata: self.metadata,
            streams: self.streams,
            refused: self.refused,
            bytes: self.bytes,
        }
    }

    /// Returns the span of one of our own metadata names in the arena.
    pub(crate) fn own_name(&mut self, name: &'static str) -> Result<Span, Error> {
        if let Some(&span) = self.names.get(name.as_bytes()) {
            return Ok(span);
        }
        let span = self.text.append(name.as_bytes())?;
        self.remember(name.as_bytes(), span);
        Ok(span)
    }

    /// Returns the span of the normal form of `outer_inner`.
    pub(crate) fn joined_name(&mut self, outer: Span, inner: Span) -> Result<Span, Error> {
        let joined = [self.text.get(outer), b"_", self.text.get(inner)].concat();
        if let Some(&span) = self.names.get(joined.as_slice()) {
            return Ok(span);
        }
        let span = self.text.append_with(|tail| write_normal(&joined, tail))?;
        self.remember(&joined, span);
        Ok(span)
    }

    fn remember(&mut self, name: &[u8], span: Span) {
        if self.names.len() < NAMES_MAX {
            self.names.insert(name.into(), span);
        }
    }

    #[inline]
    fn check(&self, raw: RawEntry, metadata_bytes: u64) -> Result<usize, Broken> {
        self.entry_limits.check_time(raw.timestamp)?;
        let kept = self.entry_limits.check_line(self.text.get(raw.line))?;
        self.entry_limits.check_metadata(metadata_bytes, self.pairs.len())?;
        Ok(kept)
    }

    #[cold]
    fn refuse_entry(&mut self, known: &KnownStream, broken: Broken, bytes: u64) {
        self.refused.count(broken.0, 1, bytes);
        let cause = Cause { reason: broken.0, stream: known.id, number: broken.1 };
        self.refused.report(cause, || self.entry_limits.text(broken, &known.labels));
    }

    /// Moves `pairs` to the batch with normal names and UTF-8 values, sorted by name. Of pairs with equal
    /// names the last one counts. A pair with an empty value is dropped, as in Loki.
    fn add_metadata(&mut self, start: usize) -> Result<(), Error> {
        for n in 0..self.pairs.len() {
            let (name, value) = self.pairs[n];
            let value = self.clean(value)?;
            if value.len == 0 {
                continue;
            }
            let name = self.normal_name(name)?;
            let bytes = self.text.get(name);
            let sorted = &self.metadata[start..];
            // clients often send sorted pairs: search from the end
            let before = sorted.iter().rposition(|(other, _)| self.text.get(*other) <= bytes);
            match before {
                Some(at) if self.text.get(sorted[at].0) == bytes => self.metadata[start + at].1 = value,
                Some(at) => self.metadata.insert(start + at + 1, (name, value)),
                None => self.metadata.insert(start, (name, value)),
            }
        }
        Ok(())
    }

    /// Returns the span of a name's normal form: the name itself, or appended text.
    pub(crate) fn normal_name(&mut self, name: Span) -> Result<Span, Error> {
        let bytes = self.text.get(name);
        if is_normal(bytes) {
            return Ok(name);
        }
        if let Some(&span) = self.names.get(bytes) {
            return Ok(span);
        }
        let sent: Box<[u8]> = bytes.into();
        let span = self.text.append_with(|tail| write_normal(&sent, tail))?;
        self.remember(&sent, span);
        Ok(span)
    }

    /// Returns the value without its bytes that are not UTF-8.
    fn clean(&mut self, value: Span) -> Result<Span, Error> {
        let bytes = self.text.get(value);
        if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() {
            return Ok(value);
        }
        let valid: String = bytes.utf8_chunks().map(|chunk| chunk.valid()).collect();
        self.text.append(valid.as_bytes())
    }

    fn level_without_metadata(
        &mut self,
        stream: &mut OpenStream,
        line: Span,
        start: usize,
    ) -> Result<Level, Error> {
        if !self.limits.discover_log_levels {
            return Ok(Level::None);
        }
        match stream.known.level {
            LabelLevel::Known(level) => Ok(level),
            LabelLevel::Silent => Ok(line_level(self.text.get(line))),
            LabelLevel::Other(label) => {
                let word = self.label_word(stream, label)?;
                self.add_detected(word, start)
            }
        }
    }

    /// Returns the level of an entry whose metadata begins at `start`: the client's `detected_level`,
    /// else by Loki's rules.
    fn level_with_metadata(
        &mut self,
        stream: &mut OpenStream,
        line: Span,
        start: usize,
    ) -> Result<Level, Error> {
        if !self.limits.discover_log_levels {
            return Ok(Level::None);
        }
        let found = self.find_levels(start);
        if let Some(own) = found.own {
            let known = level_of_value(self.text.get(self.metadata[own].1));
            if known.is_some() {
                self.metadata.remove(own); // the entry's level holds it from now on
            }
            return Ok(known.unwrap_or(Level::None));
        }
        if stream.known.level != LabelLevel::Silent {
            return self.level_without_metadata(stream, line, start);
        }
        if let Some(value) = found.keyed {
            return match level_of_value(self.text.get(value)) {
                Some(level) => Ok(level),
                None => self.add_detected(value, start),
            };
        }
        if let Some(number) = found.severity {
            return Ok(severity_level(self.text.get(number)));
        }
        Ok(line_level(self.text.get(line)))
    }

    fn find_levels(&self, start: usize) -> MetadataLevels {
        let mut found = MetadataLevels::default();
        let mut best = usize::MAX;
        for (n, &(name, value)) in self.metadata[start..].iter().enumerate() {
            let name = self.text.get(name);
            if name == LogPage::DETECTED_LEVEL.as_bytes() {
                found.own = Some(start + n);
            } else if name == SEVERITY_NUMBER.as_bytes() {
                found.severity = Some(value);
            } else if let Some(rank) = level_key_rank(name).filter(|&rank| rank < best) {
                best = rank;
                found.keyed = Some(value);
            }
        }
        found
    }

    /// Stores a value that is no known level as the entry's `detected_level`, and keeps the metadata
    /// sorted.
    fn add_detected(&mut self, word: Span, start: usize) -> Result<Level, Error> {
        let name = self.own_name(LogPage::DETECTED_LEVEL)?;
        let sorted = &self.metadata[start..];
        let at =
            sorted.partition_point(|(other, _)| self.text.get(*other) < LogPage::DETECTED_LEVEL.as_bytes());
        self.metadata.insert(start + at, (name, word));
        Ok(Level::None)
    }

    fn label_word(&mut self, stream: &mut OpenStream, label: &'static str) -> Result<Span, Error> {
        if let Some(word) = stream.other_level {
            return Ok(word);
        }
        let value = stream.known.labels.get(label).unwrap_or_default();
        let word = self.text.append(value.as_bytes())?;
        stream.other_level = Some(word);
        Ok(word)
    }
}

/// The metadata pairs that carry a level.
#[derive(Default)]
struct MetadataLevels {
    /// Index of the client's `detected_level`.
    own: Option<usize>,
    /// Value of the pair whose name ranks highest in `LEVEL_KEYS`.
    keyed: Option<Span>,
    /// Value of OTLP's `severity_number`.
    severity: Option<Span>,
}

fn too_many(what: &'static str, limit: usize) -> Error {
    Error::TooMany { what, limit: limit as u64 }
}
