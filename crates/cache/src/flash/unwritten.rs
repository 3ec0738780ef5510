//! Unwritten records: reads find them in the write buffers.
//!
//! Invariant: a buffer is kept until every record that begins in it is completely on the device, so that
//! a record is either completely in memory or completely on the device.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::AlignedBuffer;

/// A full write buffer.
pub(super) struct Piece {
    pub slot: u32,
    pub id: u64,
    /// Offset in the segment in bytes.
    pub start: u64,
    pub buffer: AlignedBuffer,
    /// Bytes in use: a multiple of a block.
    pub bytes: usize,
    /// The end of the last record that begins in it.
    pub needed_to: u64,
}

impl Piece {
    pub fn end(&self) -> u64 {
        self.start + self.bytes as u64
    }
}

/// Full buffers by slot and start.
#[derive(Default)]
pub(super) struct Unwritten(Mutex<BTreeMap<(u32, u64), Arc<Piece>>>);

impl Unwritten {
    pub fn add(&self, piece: Arc<Piece>) {
        self.lock().insert((piece.slot, piece.start), piece);
    }

    /// Drops the buffers of a segment that is on the device up to `written_to`.
    pub fn written(&self, slot: u32, written_to: u64) {
        self.lock().retain(|&(of, _), piece| of != slot || piece.needed_to > written_to);
    }

    /// Bytes in all buffers.
    pub fn bytes(&self) -> u64 {
        self.lock().values().map(|piece| piece.bytes as u64).sum()
    }

    /// Drops all buffers of a segment.
    pub fn forget(&self, slot: u32) {
        self.lock().retain(|&(of, _), _| of != slot);
    }

    /// Appends the bytes from `start` to `end` of a segment to `into`, as far as they are in buffers.
    /// Returns whether `start` is.
    pub fn read(&self, slot: u32, start: u64, end: u64, into: &mut Vec<u8>) -> bool {
        let pieces = self.lock();
        let mut at = start;
        let first = pieces.range(..=(slot, start)).next_back().map_or((slot, start), |(key, _)| *key);
        for (&(of, from), piece) in pieces.range(first..=(slot, end)) {
            if of != slot || from > at || piece.end() <= at {
                continue;
            }
            let upto = piece.end().min(end);
            into.extend_from_slice(&piece.buffer.as_ref()[(at - from) as usize..(upto - from) as usize]);
            at = upto;
        }
        at > start
    }

    /// Overwrites a segment's bytes from the device with those in buffers.
    pub fn overlay(&self, slot: u32, bytes: &mut [u8]) {
        for piece in self.lock().range((slot, 0)..(slot + 1, 0)).map(|(_, piece)| piece) {
            bytes[piece.start as usize..piece.end() as usize]
                .copy_from_slice(&piece.buffer.as_ref()[..piece.bytes]);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, u64), Arc<Piece>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
