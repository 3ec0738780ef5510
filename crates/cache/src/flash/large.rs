//! Values that are too long for a record: pieces under keys of their own, then a head that names them.
//!
//! The pieces may be written one by one as buffers become free. Lookups do not find them before the head
//! is written.
//!
//! Invariant: a head is written after all its pieces. An abandoned value leaves no piece in the index.

use super::format::{Kind, LargeValue, PIECE_KEY_BYTES, piece_key, record_bytes};
use super::new_record::{NewRecord, Purpose};
use super::observer::Dropped;
use super::writer::Writer;

/// The progress of writing a large value.
#[derive(Debug)]
pub struct LargeAppend {
    large: LargeValue,
    /// Number of pieces written.
    done: u32,
}

impl LargeAppend {
    /// Whether all pieces are written.
    pub fn has_all(&self) -> bool {
        u64::from(self.done) * u64::from(self.large.piece_bytes) >= self.large.bytes
    }
}

impl Writer {
    /// Whether a value is too long for one record.
    pub fn is_large(&self, record: &NewRecord<'_>) -> bool {
        record_bytes(record.key.len(), record.value.len()) > self.disk.layout.record_bytes_max()
    }

    /// Writes a large value completely.
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

    pub fn begin_large(&self, record: &NewRecord<'_>) -> LargeAppend {
        let overhead = record_bytes(PIECE_KEY_BYTES, 0) + 4 * 64;
        let piece_bytes = (self.disk.layout.record_bytes_max() - overhead) as u32;
        let (bytes, nonce) = (record.value.len() as u64, self.keys.next_sequence());
        LargeAppend { large: LargeValue { bytes, piece_bytes, nonce }, done: 0 }
    }

    pub fn append_piece(&self, record: &NewRecord<'_>, large: &mut LargeAppend) -> Result<(), Dropped> {
        let span = large.large.piece(u64::from(large.done));
        let value = &record.value[span.start as usize..span.end as usize];
        let key = piece_key(record.hash, large.large.nonce, large.done);
        let piece = NewRecord { key: &key, hash: self.disk.hash(&key), value, ..*record };
        self.append_one(&piece, Kind::Piece, Purpose::New)?;
        large.done += 1;
        Ok(())
    }

    pub fn append_head(&self, record: &NewRecord<'_>, large: &LargeAppend) -> Result<(), Dropped> {
        let head = NewRecord { value: &large.large.encode(), ..*record };
        self.append_one(&head, Kind::Head, Purpose::New)?;
        self.count_written(record);
        Ok(())
    }

    pub fn abandon_large(&self, record: &NewRecord<'_>, large: &LargeAppend) {
        for number in 0..large.done {
            let key = piece_key(record.hash, large.large.nonce, number);
            if let Some(entry) = self.keys.index.remove(self.disk.hash(&key)) {
                self.keys.unlink(&entry);
            }
        }
    }
}
