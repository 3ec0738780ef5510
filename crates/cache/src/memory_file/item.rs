//! The head of an item in the memory file: all fields except key and value, which follow it.
//!
//! Invariant: decoding returns what was encoded, or `None`.

use crate::hint::Hint;
use crate::ram::Record;

/// Bytes of a head.
pub(super) const HEAD: usize = 56;

const END: u8 = 0;
const ITEM: u8 = 1;

const FETCHED: u8 = 1;
const STALE: u8 = 2;
const WON: u8 = 4;
const ON_FLASH: u8 = 8;

/// The fields before a key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub key_bytes: u16,
    pub value_bytes: u64,
    pub flags: u32,
    pub expires_at: u32,
    pub accessed_at: u32,
    pub stored_at: u32,
    pub tenant: u32,
    pub hint: Hint,
    pub cas: u64,
    pub fetched: bool,
    pub stale: bool,
    pub won: bool,
    pub on_flash: bool,
}

/// The content of a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Item(Head),
    /// The end, after this number of items.
    End {
        items: u64,
    },
}

impl Head {
    pub fn of(record: &Record) -> Self {
        Self {
            key_bytes: record.key().len() as u16, // keys are not longer: see LONGEST_KEY
            value_bytes: record.length() as u64,
            flags: record.flags,
            expires_at: record.expires_at,
            accessed_at: record.accessed_at,
            stored_at: record.stored_at,
            tenant: record.tenant,
            hint: record.hint,
            cas: record.cas,
            fetched: record.fetched,
            stale: record.stale,
            won: record.won,
            on_flash: record.on_flash,
        }
    }

    pub fn encode(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        let marks =
            [(self.fetched, FETCHED), (self.stale, STALE), (self.won, WON), (self.on_flash, ON_FLASH)];
        bytes[0] = ITEM;
        bytes[1] = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| mark).sum();
        put(&mut bytes, 2, &self.key_bytes.to_le_bytes());
        let words = [self.flags, self.expires_at, self.accessed_at, self.stored_at, self.tenant];
        for (number, word) in words.iter().enumerate() {
            put(&mut bytes, 4 + 4 * number, &word.to_le_bytes());
        }
        let (hint, scan_bytes) = match self.hint {
            Hint::Ingest => (0, 0),
            Hint::Point => (1, 0),
            Hint::Metadata => (2, 0),
            Hint::Scan { bytes } => (3, bytes),
        };
        bytes[24] = hint;
        put(&mut bytes, 32, &self.value_bytes.to_le_bytes());
        put(&mut bytes, 40, &self.cas.to_le_bytes());
        put(&mut bytes, 48, &scan_bytes.to_le_bytes());
        bytes
    }
}

impl Next {
    /// The head after the last item.
    pub fn encode_end(items: u64) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[0] = END;
        put(&mut bytes, 32, &items.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEAD]) -> Option<Self> {
        match bytes[0] {
            END => return Some(Self::End { items: u64_at(bytes, 32) }),
            ITEM => {}
            _ => return None,
        }
        let marks = bytes[1];
        let hint = match bytes[24] {
            0 => Hint::Ingest,
            1 => Hint::Point,
            2 => Hint::Metadata,
            3 => Hint::Scan { bytes: u64_at(bytes, 48) },
            _ => return None,
        };
        Some(Self::Item(Head {
            key_bytes: u16::from_le_bytes([bytes[2], bytes[3]]),
            value_bytes: u64_at(bytes, 32),
            flags: u32_at(bytes, 4),
            expires_at: u32_at(bytes, 8),
            accessed_at: u32_at(bytes, 12),
            stored_at: u32_at(bytes, 16),
            tenant: u32_at(bytes, 20),
            hint,
            cas: u64_at(bytes, 40),
            fetched: marks & FETCHED != 0,
            stale: marks & STALE != 0,
            won: marks & WON != 0,
            on_flash: marks & ON_FLASH != 0,
        }))
    }
}

fn put(into: &mut [u8; HEAD], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u32_at(bytes: &[u8; HEAD], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8; HEAD], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
