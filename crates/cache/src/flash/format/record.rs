//! A record: header, key, a checksum for each 64 KiB of the value, and the value.
//!
//! Invariant: a [`RecordView`] exists only if the header's checksum matches, which covers the key and
//! the checksums of the value. [`RecordView::value`] returns only bytes whose checksum matches.

use std::ops::Range;

use super::bytes::{CHECKED_BYTES, KEY_BYTES_MAX, RECORD_BYTES_MAX, SEQUENCE_MAX};
use super::bytes::{checksum_with, put, u16_at, u32_at, u64_at};

const MAGIC: u8 = 0xC5;
const HEADER_BYTES: usize = 40;
const CHECKSUM_OFFSET: usize = 36;
const SEQUENCE_BITS: u32 = SEQUENCE_MAX.trailing_ones();
const SUMS_MAX: usize = RECORD_BYTES_MAX as usize / CHECKED_BYTES;

/// Bytes of the key of a piece: hash, nonce, number.
pub const PIECE_KEY_BYTES: usize = 20;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A complete value.
    Whole,
    /// The table of a large value.
    Head,
    /// A piece of a large value.
    Piece,
}

/// Marks that a client set on a value after it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It is out of date but may be served.
    pub stale: bool,
    /// A client has been chosen to refresh it.
    pub won: bool,
}

impl Marks {
    const STALE: u8 = 1 << 4;
    const WON: u8 = 1 << 5;
    /// The bits of the second byte that marks use, above the kind.
    const BITS: u8 = Self::STALE | Self::WON;

    fn bits(self) -> u8 {
        let if_so = |is: bool, bit: u8| if is { bit } else { 0 };
        if_so(self.stale, Self::STALE) | if_so(self.won, Self::WON)
    }

    fn of_bits(bits: u8) -> Self {
        Self { stale: bits & Self::STALE != 0, won: bits & Self::WON != 0 }
    }
}

/// The fields of a record other than key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewHeader {
    /// The content of the record.
    pub kind: Kind,
    /// The client's marks.
    pub marks: Marks,
    /// The client's flags.
    pub flags: u32,
    /// When the value expires, in seconds since 1970; 0 for never.
    pub expires_at: u32,
    /// The tenant that owns the record.
    pub tenant: u32,
    /// Position in the order of all records and journal entries: 48 bits.
    pub sequence: u64,
    /// The unique version that compare-and-swap compares.
    pub cas: u64,
}

/// The table of a large value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeValue {
    /// Bytes of the complete value.
    pub bytes: u64,
    /// Bytes of each piece except the last.
    pub piece_bytes: u32,
    /// Distinguishes the pieces of this value from those of an earlier value of the same key.
    pub nonce: u64,
}

/// Bytes of a record with a key and a value of these lengths, before rounding to units.
pub fn record_bytes(key: usize, value: usize) -> u64 {
    (HEADER_BYTES + key + 4 * value.div_ceil(CHECKED_BYTES) + value) as u64
}

/// The checksums of a value, computed before any lock is taken.
pub struct Sums {
    bytes: [u8; 4 * SUMS_MAX],
    count: usize,
}

impl Sums {
    /// The checksums of a value that fits into a record.
    pub fn of(value: &[u8]) -> Self {
        let mut sums = Self { bytes: [0; 4 * SUMS_MAX], count: 0 };
        for part in value.chunks(CHECKED_BYTES).take(SUMS_MAX) {
            put(&mut sums.bytes, 4 * sums.count, &crc32c::crc32c(part).to_le_bytes());
            sums.count += 1;
        }
        sums
    }
}

/// The mark of a place, which is in units from the start of the segment. It is stored in the upper bits
/// of a record's sequence number and reveals a write that went elsewhere. Records without it, with 0,
/// are accepted at any place.
fn place_mark(place: u32) -> u64 {
    u64::from(place % 0xFFFF + 1) << SEQUENCE_BITS
}

/// Writes a record for `place` of segment `id` to `out`, which receives the parts in order.
pub fn write_record(
    (id, place): (u64, u32),
    header: &NewHeader,
    key: &[u8],
    (value, sums): (&[u8], &Sums),
    mut out: impl FnMut(&[u8]),
) {
    let sums = &sums.bytes[..4 * sums.count];
    let mut head = [0_u8; HEADER_BYTES];
    head[0] = MAGIC;
    head[1] = header.kind as u8 | header.marks.bits();
    put(&mut head, 2, &(key.len() as u16).to_le_bytes());
    put(&mut head, 4, &(value.len() as u32).to_le_bytes());
    put(&mut head, 8, &header.flags.to_le_bytes());
    put(&mut head, 12, &header.expires_at.to_le_bytes());
    put(&mut head, 16, &header.tenant.to_le_bytes());
    put(&mut head, 20, &(header.sequence & SEQUENCE_MAX | place_mark(place)).to_le_bytes());
    put(&mut head, 28, &header.cas.to_le_bytes());
    let sum = checksum_with(id, &[&head[..CHECKSUM_OFFSET], key, sums]);
    put(&mut head, CHECKSUM_OFFSET, &sum.to_le_bytes());
    for part in [&head[..], key, sums, value] {
        out(part);
    }
}

/// A record whose header, key and list of checksums are valid.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// The fields of the header.
    pub header: NewHeader,
    /// The key.
    pub key: &'a [u8],
    value_bytes: usize,
    sums: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Decodes the record at the start of `bytes` if it is valid and was written to `place` of segment
    /// `id`. The value need not be within `bytes`.
    pub fn parse((id, place): (u64, u32), bytes: &'a [u8]) -> Option<Self> {
        let head = bytes.get(..HEADER_BYTES)?;
        let kind = match head[1] & !Marks::BITS {
            0 => Kind::Whole,
            1 => Kind::Head,
            2 => Kind::Piece,
            _ => return None,
        };
        let (key_bytes, value_bytes) = (usize::from(u16_at(head, 2)), u32_at(head, 4) as usize);
        let total = record_bytes(key_bytes, value_bytes);
        if head[0] != MAGIC || key_bytes == 0 || key_bytes > KEY_BYTES_MAX || total > RECORD_BYTES_MAX {
            return None;
        }
        let sums_start = HEADER_BYTES + key_bytes;
        let key = bytes.get(HEADER_BYTES..sums_start)?;
        let sums = bytes.get(sums_start..sums_start + 4 * value_bytes.div_ceil(CHECKED_BYTES))?;
        if checksum_with(id, &[&head[..CHECKSUM_OFFSET], key, sums]) != u32_at(head, CHECKSUM_OFFSET) {
            return None;
        }
        let numbers = u64_at(head, 20);
        let mark = numbers & !SEQUENCE_MAX;
        if mark != 0 && mark != place_mark(place) {
            return None;
        }
        let header = NewHeader {
            kind,
            marks: Marks::of_bits(head[1]),
            flags: u32_at(head, 8),
            expires_at: u32_at(head, 12),
            tenant: u32_at(head, 16),
            sequence: numbers & SEQUENCE_MAX,
            cas: u64_at(head, 28),
        };
        Some(Self { header, key, value_bytes, sums })
    }

    /// Bytes of the value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Bytes of the record before rounding to units.
    pub fn bytes(&self) -> u64 {
        record_bytes(self.key.len(), self.value_bytes)
    }

    /// Offset of the value from the record's first byte.
    pub fn value_start(&self) -> usize {
        HEADER_BYTES + self.key.len() + self.sums.len()
    }

    /// The bytes `wanted` of the value as a range of `bytes`, the slice that was parsed. `None` unless
    /// the value is completely in `bytes` and the checksums of the affected parts match.
    pub fn value(&self, bytes: &[u8], wanted: Range<usize>) -> Option<Range<usize>> {
        let start = self.value_start();
        let value = bytes.get(start..start + self.value_bytes)?;
        if wanted.start > wanted.end || wanted.end > self.value_bytes {
            return None;
        }
        let first = wanted.start / CHECKED_BYTES;
        let last = wanted.end.div_ceil(CHECKED_BYTES).max(first);
        let parts = value.chunks(CHECKED_BYTES).enumerate().skip(first).take(last - first);
        for (place, part) in parts {
            if crc32c::crc32c(part) != u32_at(self.sums, 4 * place) {
                return None;
            }
        }
        Some(start + wanted.start..start + wanted.end)
    }
}

impl LargeValue {
    const BYTES: usize = 20;

    /// Encodes the table as the value of the head's record.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &self.bytes.to_le_bytes());
        put(&mut bytes, 8, &self.piece_bytes.to_le_bytes());
        put(&mut bytes, 12, &self.nonce.to_le_bytes());
        bytes
    }

    /// Decodes the table from the value of a head's record.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (length, piece_bytes, nonce) = (u64_at(bytes, 0), u32_at(bytes, 8), u64_at(bytes, 12));
        let is_sound = bytes.len() == Self::BYTES && piece_bytes > 0;
        is_sound.then_some(Self { bytes: length, piece_bytes, nonce })
    }

    /// The range of the complete value that piece `number` holds.
    pub fn piece(&self, number: u64) -> Range<u64> {
        let start = number * u64::from(self.piece_bytes);
        start..(start + u64::from(self.piece_bytes)).min(self.bytes)
    }
}

/// The key of piece `number` of the large value whose key hashes to `hash`.
pub fn piece_key(hash: u64, nonce: u64, number: u32) -> [u8; PIECE_KEY_BYTES] {
    let mut key = [0; PIECE_KEY_BYTES];
    put(&mut key, 0, &hash.to_le_bytes());
    put(&mut key, 8, &nonce.to_le_bytes());
    put(&mut key, 16, &number.to_le_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: u32 = 900_000;

    fn encoded(id: u64, header: &NewHeader, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_record((id, PLACE), header, key, (value, &Sums::of(value)), |part| {
            bytes.extend_from_slice(part);
        });
        bytes
    }

    fn header() -> impl Strategy<Value = NewHeader> {
        let kind = prop_oneof![Just(Kind::Whole), Just(Kind::Head), Just(Kind::Piece)];
        let marks = any::<(bool, bool)>().prop_map(|(stale, won)| Marks { stale, won });
        let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), 0..=SEQUENCE_MAX, any::<u64>());
        (kind, marks, numbers).prop_map(|(kind, marks, (flags, expires_at, tenant, sequence, cas))| {
            NewHeader { kind, marks, flags, expires_at, tenant, sequence, cas }
        })
    }

    proptest! {
        #[test]
        fn a_record_round_trips_completely_and_in_ranges(
            id: u64, header in header(), key in prop::collection::vec(any::<u8>(), 1..300),
            size in 0_usize..200_000, seed: u8, cut in (0.0..1.0, 0.0..1.0),
        ) {
            let value: Vec<u8> = (0..size).map(|i| (i / 251) as u8 ^ (i as u8) ^ seed).collect();
            let bytes = encoded(id, &header, &key, &value);
            prop_assert_eq!(bytes.len() as u64, record_bytes(key.len(), size));
            let view = RecordView::parse((id, PLACE), &bytes).unwrap();
            prop_assert_eq!((view.header, view.key, view.value_bytes()), (header, &key[..], size));
            let place = |part: f64| (part * (size + 1) as f64) as usize;
            let (from, to) = (place(cut.0).min(place(cut.1)), place(cut.0).max(place(cut.1)));
            let found = view.value(&bytes, from..to).unwrap();
            prop_assert_eq!(&bytes[found], &value[from..to]);
            prop_assert!(view.value(&bytes, 0..size + 1).is_none());
            prop_assert!(RecordView::parse((id.wrapping_add(1), PLACE), &bytes).is_none());
            prop_assert!(RecordView::parse((id, PLACE + 1), &bytes).is_none());
        }

        #[test]
        fn any_flipped_bit_and_any_torn_tail_is_detected(
            size in 0_usize..140_000, bit: prop::sample::Index, keep: prop::sample::Index,
        ) {
            let header = NewHeader {
                kind: Kind::Whole, marks: Marks::default(), flags: 1, expires_at: 2, tenant: 3,
                sequence: 4, cas: 5,
            };
            let value: Vec<u8> = (0..size).map(|i| (i % 253) as u8).collect();
            let bytes = encoded(9, &header, b"key", &value);
            let whole = |bytes: &[u8]| {
                let view = RecordView::parse((9, PLACE), bytes)?;
                view.value(bytes, 0..view.value_bytes()).map(|range| bytes[range].to_vec())
            };
            let read = whole(&bytes);
            prop_assert_eq!(read.as_ref(), Some(&value));
            let mut flipped = bytes.clone();
            let place = bit.index(bytes.len() * 8);
            flipped[place / 8] ^= 1 << (place % 8);
            prop_assert!(whole(&flipped).is_none());
            let torn = keep.index(bytes.len());
            prop_assert!(whole(&bytes[..torn]).is_none());
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            let _ = RecordView::parse((1, PLACE), &bytes);
            if let Some(first) = bytes.first_mut() {
                *first = MAGIC;
            }
            prop_assert!(RecordView::parse((1, PLACE), &bytes).is_none());
        }
    }
}
