//! The root: describes the device and names its newest image and journal half.
//!
//! Invariant: the two roots are written alternately, so that one of them is always valid.

use super::bytes::{block, put, u16_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"SNDCACHE";
const VERSION: u16 = 1;
const CHECKSUM_OFFSET: usize = 96;

/// The fields of a root. See docs/formats/cache-segment.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Whether the image is complete, after a clean stop.
    pub clean: bool,
    /// Whether journal entries were lost.
    pub journal_lost: bool,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Random id of the device.
    pub device: [u8; 16],
    /// Seed of all hashes.
    pub hash_seed: u64,
    /// Number of this root; the root with the larger one is newer.
    pub turn: u64,
    /// Number of segments.
    pub segments: u32,
    /// Blocks of a half of the journal.
    pub journal_blocks: u32,
    /// Rows of an index shard.
    pub shard_rows: u32,
    /// The journal half that is being written.
    pub journal_half: u8,
    /// Sequence number of the newest image, 0 for none.
    pub image: u64,
    /// All sequence numbers in use when this root was written are below this one.
    pub next_sequence: u64,
    /// Records with a sequence number below this one are void.
    pub flushed_below: u64,
    /// Bytes of the device.
    pub device_bytes: u64,
}

/// Whether a block begins as a root does, of whatever version and however damaged.
pub fn is_root(block: &[u8]) -> bool {
    block.starts_with(MAGIC)
}

impl Root {
    /// Encodes the root as a block.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = block();
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        (bytes[10], bytes[11]) = (u8::from(self.clean), u8::from(self.journal_lost));
        put(&mut bytes, 12, &self.segment_bytes.to_le_bytes());
        put(&mut bytes, 16, &self.device);
        put(&mut bytes, 32, &self.hash_seed.to_le_bytes());
        put(&mut bytes, 40, &self.turn.to_le_bytes());
        put(&mut bytes, 48, &self.segments.to_le_bytes());
        put(&mut bytes, 52, &self.journal_blocks.to_le_bytes());
        put(&mut bytes, 56, &self.shard_rows.to_le_bytes());
        bytes[60] = self.journal_half;
        put(&mut bytes, 64, &self.image.to_le_bytes());
        put(&mut bytes, 72, &self.next_sequence.to_le_bytes());
        put(&mut bytes, 80, &self.flushed_below.to_le_bytes());
        put(&mut bytes, 88, &self.device_bytes.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..CHECKSUM_OFFSET]);
        put(&mut bytes, CHECKSUM_OFFSET, &sum.to_le_bytes());
        bytes
    }

    /// Decodes the root in `bytes` if it is valid and of this version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let body = bytes.get(..CHECKSUM_OFFSET)?;
        let is_ours = &body[..8] == MAGIC && u16_at(body, 8) == VERSION;
        if !is_ours || crc32c::crc32c(body) != u32_at(bytes, CHECKSUM_OFFSET) {
            return None;
        }
        Some(Self {
            clean: body[10] == 1,
            journal_lost: body[11] == 1,
            segment_bytes: u32_at(body, 12),
            device: body[16..32].try_into().ok()?,
            hash_seed: u64_at(body, 32),
            turn: u64_at(body, 40),
            segments: u32_at(body, 48),
            journal_blocks: u32_at(body, 52),
            shard_rows: u32_at(body, 56),
            journal_half: body[60] & 1,
            image: u64_at(body, 64),
            next_sequence: u64_at(body, 72),
            flushed_below: u64_at(body, 80),
            device_bytes: u64_at(body, 88),
        })
    }

    /// The newer of the valid roots.
    pub fn newest(first: &[u8], second: &[u8]) -> Option<Self> {
        let roots = [first, second].into_iter().filter_map(Self::parse);
        roots.max_by_key(|root| root.turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_valid_root_is_used() {
        let old = Root {
            clean: true,
            journal_lost: false,
            segment_bytes: 1 << 20,
            device: [9; 16],
            hash_seed: 1,
            turn: 4,
            segments: 100,
            journal_blocks: 16,
            shard_rows: 32,
            journal_half: 1,
            image: 17,
            next_sequence: 400,
            flushed_below: 3,
            device_bytes: 1 << 30,
        };
        let new = Root { turn: 5, clean: false, journal_lost: true, ..old };
        let (a, mut b) = (old.encode(), new.encode());
        assert_eq!(Root::newest(&a, &b), Some(new));
        assert_eq!(Root::newest(&b, &a), Some(new));
        b[72] ^= 1;
        assert_eq!(Root::newest(&a, &b), Some(old));
        assert_eq!(Root::newest(&[], &b), None);
    }
}
