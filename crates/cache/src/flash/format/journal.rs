//! A block of the journal: up to 254 entries of 16 bytes, written once.
//!
//! Invariant: one checksum covers the block, which carries the epoch of its half, so that a block of an
//! earlier use of the half is never accepted.

use super::bytes::{block, checksum_with, put, u16_at, u32_at, u64_at};
use crate::device::BLOCK;

const MAGIC: &[u8; 4] = b"SJNL";
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;

/// Entries of a full block.
pub const ENTRIES_PER_BLOCK: usize = (BLOCK as usize - HEADER_BYTES) / ENTRY_BYTES;

/// The largest distance of a sequence number from the base of its block.
const DISTANCE_MAX: u64 = (1 << 24) - 1;

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalKind {
    /// It was deleted or overwritten.
    Forgotten,
    /// Its expiry was changed.
    Touched {
        /// Seconds since 1970, 0 for never.
        expires_at: u32,
    },
    /// All keys were removed.
    Flushed,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Hash of the key; 0 for [`JournalKind::Flushed`].
    pub hash: u64,
    /// Position in the order of all records and entries.
    pub sequence: u64,
    /// What happened.
    pub kind: JournalKind,
}

/// Entries that are made durable together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalBlock {
    /// The epoch of the half that holds the block.
    pub epoch: u64,
    /// Sorted by their sequence numbers.
    pub entries: Vec<JournalEntry>,
}

impl JournalBlock {
    /// Number of `entries`, from the first on, that fit into a block.
    pub fn fitting(entries: &[JournalEntry]) -> usize {
        let Some(first) = entries.first() else { return 0 };
        let is_near = |e: &&JournalEntry| e.sequence.wrapping_sub(first.sequence) <= DISTANCE_MAX;
        entries.iter().take(ENTRIES_PER_BLOCK).take_while(is_near).count()
    }

    /// Encodes a block of the device whose id begins with `device`.
    pub fn encode(device: u64, epoch: u64, entries: &[JournalEntry]) -> Vec<u8> {
        let mut bytes = block();
        let base = entries.first().map_or(0, |entry| entry.sequence);
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &epoch.to_le_bytes());
        put(&mut bytes, 16, &base.to_le_bytes());
        put(&mut bytes, 24, &(entries.len() as u16).to_le_bytes());
        for (entry, into) in entries.iter().zip(bytes[HEADER_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
            let (kind, expires_at) = match entry.kind {
                JournalKind::Forgotten => (0, 0),
                JournalKind::Touched { expires_at } => (1, expires_at),
                JournalKind::Flushed => (2, 0),
            };
            put(into, 0, &entry.hash.to_le_bytes());
            put(into, 8, &((entry.sequence - base) as u32 | kind << 24).to_le_bytes());
            put(into, 12, &expires_at.to_le_bytes());
        }
        let sum = checksum_with(device, &[&bytes[8..]]);
        put(&mut bytes, 4, &sum.to_le_bytes());
        bytes
    }

    /// Decodes the block in `bytes` if it is valid and of this device.
    pub fn parse(device: u64, bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(8..BLOCK as usize)?;
        if &bytes[..4] != MAGIC || checksum_with(device, &[body]) != u32_at(bytes, 4) {
            return None;
        }
        let (base, count) = (u64_at(bytes, 16), usize::from(u16_at(bytes, 24)));
        let entries = bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).take(count).map(|entry| {
            let word = u32_at(entry, 8);
            let kind = match word >> 24 {
                0 => JournalKind::Forgotten,
                1 => JournalKind::Touched { expires_at: u32_at(entry, 12) },
                2 => JournalKind::Flushed,
                _ => return None,
            };
            let sequence = base + u64::from(word & 0xFF_FFFF);
            Some(JournalEntry { hash: u64_at(entry, 0), sequence, kind })
        });
        Some(Self { epoch: u64_at(bytes, 8), entries: entries.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_round_trip_and_detect_every_flipped_byte() {
        let entries: Vec<_> = (0..300)
            .map(|n: u64| JournalEntry {
                hash: n * 0x1234_5678_9ABC,
                sequence: 1000 + n * 60_000,
                kind: match n % 3 {
                    0 => JournalKind::Forgotten,
                    1 => JournalKind::Touched { expires_at: n as u32 },
                    _ => JournalKind::Flushed,
                },
            })
            .collect();
        assert_eq!(JournalBlock::fitting(&entries), ENTRIES_PER_BLOCK);
        let bytes = JournalBlock::encode(7, 55, &entries[..ENTRIES_PER_BLOCK]);
        let block = JournalBlock::parse(7, &bytes).unwrap();
        assert_eq!((block.epoch, &block.entries[..]), (55, &entries[..ENTRIES_PER_BLOCK]));
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 2;
            assert_eq!(JournalBlock::parse(7, &flipped), None, "byte {place}");
        }
        let far = [entries[0], JournalEntry { sequence: 1000 + (1 << 24), ..entries[1] }];
        assert_eq!(JournalBlock::fitting(&far), 1);
    }
}
