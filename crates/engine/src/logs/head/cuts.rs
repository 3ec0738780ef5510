//! Cuts a batch of entries into parts with bounded memory.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use sandur_model::{Entry, EntryPlace, LogBatch, Span, StreamEntries};

use super::memory::{PIECE_BYTES, ROW_BYTES, WAL_ROW_BYTES, stream_bytes};

/// Bytes of an entry in the part, in the head, and in its encoded form for the WAL.
const ENTRY_BYTES: u64 = size_of::<Entry>() as u64 + ROW_BYTES + WAL_ROW_BYTES;
/// Bytes of a pair of metadata in the part, and in its encoded form for the WAL.
const PAIR_BYTES: u64 = 2 * size_of::<(Span, Span)>() as u64;
/// Bytes of the entry of a text span in a hash table with its spare capacity, here and while a part is made.
const PLACE_BYTES: u64 = 48;

/// A part of a batch.
#[derive(Clone, Copy, Debug)]
pub struct EntryCut {
    /// Where it begins.
    pub from: EntryPlace,
    /// Where the next one begins.
    pub to: EntryPlace,
    /// Upper bound of its memory in bytes until it is in a head: the part, its encoded form for the WAL,
    /// and what the head keeps of it.
    pub bytes: u64,
}

/// Bytes of memory that [`cuts`] takes.
pub fn cutting_bytes(batch: &LogBatch) -> u64 {
    batch.metadata.len() as u64 * 2 * PLACE_BYTES
}

/// Cuts a batch into parts of at most `most` bytes. Only a part with a single entry takes more.
pub fn cuts(batch: &LogBatch, most: u64) -> Vec<EntryCut> {
    let (from, at) = (EntryPlace::default(), EntryPlace::default());
    let (seen, cuts) = (HashSet::default(), Vec::new());
    let mut cutter = Cutter { batch, seen, from, at, bytes: 0, has_entries: false, is_open: false, cuts };
    for (number, stream) in batch.streams.iter().enumerate() {
        cutter.at = EntryPlace { stream: number, entry: 0 };
        cutter.is_open = false;
        for entry in &stream.entries {
            let bytes = cutter.entry_bytes(stream, entry);
            if cutter.has_entries && cutter.bytes + bytes > most {
                cutter.cut();
                cutter.bytes = cutter.entry_bytes(stream, entry);
            } else {
                cutter.bytes += bytes;
            }
            (cutter.has_entries, cutter.is_open) = (true, true);
            cutter.at.entry += 1;
        }
    }
    cutter.at = EntryPlace { stream: batch.streams.len(), entry: 0 };
    cutter.cut();
    cutter.cuts
}

struct Cutter<'a> {
    batch: &'a LogBatch,
    /// The metadata texts that the part already has.
    seen: HashSet<(u32, u32), RandomState>,
    from: EntryPlace,
    at: EntryPlace,
    bytes: u64,
    has_entries: bool,
    /// Whether the part already has entries of the current stream.
    is_open: bool,
    cuts: Vec<EntryCut>,
}

impl Cutter<'_> {
    /// Bytes that an entry adds to the part. Its text counts twice: once in the encoded form for the WAL.
    fn entry_bytes(&mut self, stream: &StreamEntries, entry: &Entry) -> u64 {
        let stream = match self.is_open {
            true => 0,
            false => stream_bytes(stream) + PIECE_BYTES + size_of::<StreamEntries>() as u64,
        };
        let first = entry.metadata_start as usize;
        let pairs = &self.batch.metadata[first..first + usize::from(entry.metadata_len)];
        let (mut text, mut places) = (u64::from(entry.line.len), 0);
        for piece in pairs.iter().flat_map(|(name, value)| [name, value]) {
            if self.seen.insert((piece.start, piece.len)) {
                (text, places) = (text + u64::from(piece.len), places + PLACE_BYTES);
            }
        }
        stream + ENTRY_BYTES + pairs.len() as u64 * PAIR_BYTES + places + 2 * text
    }

    fn cut(&mut self) {
        if self.has_entries {
            let Self { from, at, bytes, .. } = *self;
            self.cuts.push(EntryCut { from, to: at, bytes });
        }
        (self.from, self.bytes, self.has_entries, self.is_open) = (self.at, 0, false, false);
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use sandur_base::Id;
    use sandur_format::wal_segment::Record;
    use sandur_memory::MemoryBudget;
    use sandur_model::{Labels, Level, LogBatchBuilder, TenantId};

    use super::super::LogHead;
    use super::*;

    /// Bytes that a part and a new head actually take.
    fn taken(part: LogBatch) -> u64 {
        let of_record = Record::of_logs(&part).unwrap().frame_bytes() as u64;
        let memory = MemoryBudget::root("test", u64::MAX).reserve(1 << 40).unwrap();
        of_record + LogHead::new(Id(1), 0).insert(0, part, memory).memory_bytes()
    }

    proptest! {
        #[test]
        fn parts_take_at_most_their_bound_and_make_up_the_batch(
            streams in prop::collection::vec((0..8i64, 0..400usize), 1..30),
            shares_text in any::<bool>(),
            most in 1_000..100_000u64,
        ) {
            let mut builder = LogBatchBuilder::new(TenantId::default_tenant());
            for (number, (rows, length)) in streams.iter().enumerate() {
                let labels = Arc::new(Labels::from_pairs([("app", format!("app{number}"))]));
                for row in 0..*rows {
                    let pairs = [("trace", "x".repeat(*length)), ("k", "v".to_owned())];
                    builder.row_with(&labels, row, "y".repeat(*length), pairs, Level::Info);
                }
            }
            let mut batch = builder.build();
            if let Some(first) = batch.metadata.first().copied().filter(|_| shares_text) {
                batch.metadata.fill(first);
            }
            let (mut rows, mut from) = (0, EntryPlace::default());
            for cut in cuts(&batch, most) {
                let part = batch.part(cut.from, cut.to);
                prop_assert_eq!(cut.from, from);
                (rows, from) = (rows + part.rows(), cut.to);
                prop_assert!(part.rows() == 1 || cut.bytes <= most);
                let taken = taken(part);
                prop_assert!(taken <= cut.bytes, "{} of {}", taken, cut.bytes);
            }
            prop_assert_eq!(rows, batch.rows());
        }
    }
}
