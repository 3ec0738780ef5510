//! Values that no record holds: pieces under keys of their own, then a head that names them.
//!
//! The pieces may be written one by one as buffers become free; nobody finds them before the head is
//! written.
//!
//! Invariant: a head is written after all its pieces; what is given up leaves no piece in the index.

use super::Flash;
use super::append::{NewRecord, Purpose};
use super::core::Core;
use super::format::{Kind, LargeValue, PIECE_KEY_BYTES, piece_key, record_bytes};
use super::observer::Dropped;

/// How far a large value is written.
#[derive(Debug)]
pub struct LargeAppend {
    large: LargeValue,
    /// Pieces that are written.
    done: u32,
}

impl LargeAppend {
    /// Whether all pieces are written.
    pub fn has_all(&self) -> bool {
        u64::from(self.done) * u64::from(self.large.piece_bytes) >= self.large.bytes
    }
}

impl Core {
    /// Whether a value is too long for one record.
    pub fn is_large(&self, record: &NewRecord<'_>) -> bool {
        record_bytes(record.key.len(), record.value.len()) > self.layout.record_bytes_max()
    }

    /// A large value all at once.
    pub fn append_large(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        let mut large = self.begin_large(record);
        let write = |large: &mut LargeAppend| {
            while !large.has_all() {
                self.append_piece(record, large)?;
            }
            self.append_head(record, large)
        };
        let written = write(&mut large);
        if written.is_err() {
            self.abandon_large(record, &large);
        }
        written
    }

    fn begin_large(&self, record: &NewRecord<'_>) -> LargeAppend {
        let overhead = record_bytes(PIECE_KEY_BYTES, 0) + 4 * 64;
        let piece_bytes = (self.layout.record_bytes_max() - overhead) as u32;
        let (bytes, nonce) = (record.value.len() as u64, self.next_sequence());
        LargeAppend { large: LargeValue { bytes, piece_bytes, nonce }, done: 0 }
    }

    fn append_piece(&self, record: &NewRecord<'_>, large: &mut LargeAppend) -> Result<(), Dropped> {
        let span = large.large.piece(u64::from(large.done));
        let value = &record.value[span.start as usize..span.end as usize];
        let key = piece_key(record.hash, large.large.nonce, large.done);
        let piece = NewRecord { key: &key, hash: self.hash(&key), value, ..*record };
        self.append_one(&piece, Kind::Piece, Purpose::New)?;
        large.done += 1;
        Ok(())
    }

    fn append_head(&self, record: &NewRecord<'_>, large: &LargeAppend) -> Result<(), Dropped> {
        let head = NewRecord { value: &large.large.encode(), ..*record };
        self.append_one(&head, Kind::Head, Purpose::New)?;
        self.count_written(record);
        Ok(())
    }

    fn abandon_large(&self, record: &NewRecord<'_>, large: &LargeAppend) {
        for number in 0..large.done {
            let key = piece_key(record.hash, large.large.nonce, number);
            if let Some(entry) = self.index.remove(self.hash(&key)) {
                self.unlink(&entry);
            }
        }
    }
}

/// Writing step by step, for who waits for room between the steps.
impl Flash {
    /// As [`Flash::append`], but what cannot be written is not reported and leaves everything as it was.
    pub fn try_append(&self, record: &NewRecord<'_>) -> Result<(), Dropped> {
        self.core.try_append(record)
    }

    /// Reports a record that was not written.
    pub fn refuse(&self, record: &NewRecord<'_>, reason: Dropped) {
        self.core.refuse(record, reason);
    }

    /// Whether a value is too long for one record.
    pub fn is_large(&self, record: &NewRecord<'_>) -> bool {
        self.core.is_large(record)
    }

    /// Whether a record would take most of the write buffers, so that it should be written step by step.
    pub fn is_beyond_buffers(&self, record: &NewRecord<'_>) -> bool {
        let bytes = record_bytes(record.key.len(), record.value.len());
        self.core.is_large(record) && bytes > self.core.options.write_buffer_bytes / 4 * 3
    }

    /// Begins to write a large value.
    pub fn begin_large(&self, record: &NewRecord<'_>) -> Result<LargeAppend, Dropped> {
        self.core.check_new(record)?;
        Ok(self.core.begin_large(record))
    }

    /// Writes the next piece of a large value that has not all of them.
    pub fn append_piece(&self, record: &NewRecord<'_>, large: &mut LargeAppend) -> Result<(), Dropped> {
        self.core.append_piece(record, large)
    }

    /// Writes the head of a large value, which makes it found.
    pub fn append_head(&self, record: &NewRecord<'_>, large: &LargeAppend) -> Result<(), Dropped> {
        self.core.append_head(record, large)
    }

    /// Forgets the pieces of a large value that will get no head.
    pub fn abandon_large(&self, record: &NewRecord<'_>, large: &LargeAppend) {
        self.core.abandon_large(record, large);
    }
}
