//! The frame of a segment: superblock at its start, footer and trailer at its end.
//!
//! Invariant: all checksums are seeded with the segment's id, so that frames of an earlier use of the
//! slot never match.

use super::bytes::{block, checksum_with, put, u16_at, u32_at, u64_at};
use super::record::Kind;
use super::tenants::{TENANTS_MAX, TenantUnits};
use crate::device::BLOCK;

const HEAD_MAGIC: &[u8; 8] = b"SNDSEGMT";
const TRAILER_MAGIC: &[u8; 8] = b"SNDTRAIL";
const VERSION: u16 = 1;
const ROW_BYTES: usize = 24;
/// Bits of a tenant's number in a row. A larger number is read back as 0, which is no tenant.
pub const TENANT_BITS: u32 = 25;
/// Offset of the tenants in a trailer.
const TENANTS_AT: usize = 48;

/// The expected lifetime that the records of a segment share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Newly written data.
    Ingest,
    /// On probation: stored after a miss.
    Probation,
    /// Protected: read again on probation, admitted by a ghost hit, or written again.
    Protected,
    /// Expires soon.
    Brief,
    /// No records, but a copy of the index.
    Image,
}

impl Class {
    /// The classes of records.
    pub const OF_RECORDS: [Class; 4] = [Class::Ingest, Class::Probation, Class::Protected, Class::Brief];

    fn from_byte(byte: u8) -> Option<Self> {
        Self::OF_RECORDS.into_iter().chain([Class::Image]).find(|class| *class as u8 == byte)
    }

    /// The name that statistics use.
    pub fn name(self) -> &'static str {
        match self {
            Class::Ingest => "ingest",
            Class::Probation => "fill",
            Class::Protected => "kept",
            Class::Brief => "brief",
            Class::Image => "image",
        }
    }
}

/// The superblock of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    /// Class of its records.
    pub class: Class,
    /// Id of the device.
    pub device: [u8; 16],
    /// Its id: the sequence number at which it was opened.
    pub id: u64,
    /// When it was opened, in seconds since 1970.
    pub opened_at: u32,
    /// Part and sequence number of an image.
    pub image: (u32, u64),
}

impl SegmentHead {
    /// Encodes the superblock as a block.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = block();
        put(&mut bytes, 0, HEAD_MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        bytes[10] = self.class as u8;
        put(&mut bytes, 16, &self.device);
        put(&mut bytes, 32, &self.id.to_le_bytes());
        put(&mut bytes, 40, &self.opened_at.to_le_bytes());
        put(&mut bytes, 44, &self.image.0.to_le_bytes());
        put(&mut bytes, 48, &self.image.1.to_le_bytes());
        let sum = checksum_with(self.id, &[&bytes[..56]]);
        put(&mut bytes, 56, &sum.to_le_bytes());
        bytes
    }

    /// Decodes the superblock in `bytes` if it is valid and of `device`.
    pub fn parse(bytes: &[u8], device: &[u8; 16]) -> Option<Self> {
        let body = bytes.get(..56)?;
        let id = u64_at(body, 32);
        let is_ours = &body[..8] == HEAD_MAGIC && u16_at(body, 8) == VERSION && &body[16..32] == device;
        if !is_ours || checksum_with(id, &[body]) != u32_at(bytes, 56) {
            return None;
        }
        Some(Self {
            class: Class::from_byte(body[10])?,
            device: *device,
            id,
            opened_at: u32_at(body, 40),
            image: (u32_at(body, 44), u64_at(body, 48)),
        })
    }
}

/// A record in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Hash of its key.
    pub hash: u64,
    /// Offset in the segment, in units.
    pub offset: u32,
    /// Length in units.
    pub units: u32,
    /// The content of the record.
    pub kind: Kind,
    /// The tenant that owns the record; 0 if its number is too large for the footer.
    pub tenant: u32,
    /// Sequence number minus the segment's id.
    pub sequence: u32,
    /// When the record expires, in seconds since 1970; 0 for never.
    pub expires_at: u32,
}

/// Bytes of a footer of `rows` rows, rounded up to blocks.
pub fn footer_bytes(rows: usize) -> u64 {
    ((rows * ROW_BYTES) as u64).next_multiple_of(BLOCK)
}

/// The last block of a full segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// The segment's id.
    pub id: u64,
    /// Number of rows of the footer.
    pub rows: u32,
    /// When the last record expires, in seconds since 1970; 0 if one never does.
    pub latest_expiry: u32,
    /// Sequence number of the last record.
    pub last_sequence: u64,
    /// Bytes of all records, rounded up to units.
    pub record_bytes: u64,
}

impl Trailer {
    /// Encodes footer and trailer as they stand at the end of the slot: `footer_bytes(rows)` and a block.
    pub fn encode(&self, rows: &[Row]) -> Vec<u8> {
        let footer = footer_bytes(rows.len()) as usize;
        let mut bytes = vec![0; footer + BLOCK as usize];
        let first = footer - rows.len() * ROW_BYTES;
        for (row, into) in rows.iter().zip(bytes[first..footer].chunks_exact_mut(ROW_BYTES)) {
            let tenant = if row.tenant >> TENANT_BITS == 0 { u64::from(row.tenant) } else { 0 };
            let place = u64::from(row.offset) | u64::from(row.units) << 20;
            let place = place | (row.kind as u64) << 37 | tenant << 39;
            put(into, 0, &row.hash.to_le_bytes());
            put(into, 8, &place.to_le_bytes());
            put(into, 16, &row.sequence.to_le_bytes());
            put(into, 20, &row.expires_at.to_le_bytes());
        }
        let rows_sum = checksum_with(self.id, &[&bytes[first..footer]]);
        let block = &mut bytes[footer..];
        put(block, 0, TRAILER_MAGIC);
        put(block, 8, &self.id.to_le_bytes());
        put(block, 16, &self.rows.to_le_bytes());
        put(block, 20, &self.latest_expiry.to_le_bytes());
        put(block, 24, &self.last_sequence.to_le_bytes());
        put(block, 32, &self.record_bytes.to_le_bytes());
        put(block, 40, &rows_sum.to_le_bytes());
        let sum = checksum_with(self.id, &[&block[..44]]);
        put(block, 44, &sum.to_le_bytes());
        let tenants = tenants_of(rows);
        let end = TENANTS_AT + 4 + 8 * tenants.iter().len();
        put(block, TENANTS_AT, &(tenants.iter().len() as u32).to_le_bytes());
        let places = block[TENANTS_AT + 4..].chunks_exact_mut(8);
        for ((tenant, units), into) in tenants.iter().zip(places) {
            put(into, 0, &tenant.to_le_bytes());
            put(into, 4, &units.to_le_bytes());
        }
        let sum = checksum_with(self.id, &[&block[TENANTS_AT..end]]);
        put(block, end, &sum.to_le_bytes());
        bytes
    }

    /// Decodes the tenants of the trailer in `bytes`, the last block of a slot. Trailers of early
    /// versions list none.
    pub fn tenants(&self, bytes: &[u8]) -> TenantUnits {
        self.listed_tenants(bytes).unwrap_or_else(|| TenantUnits::of_others(self.record_bytes))
    }

    fn listed_tenants(&self, bytes: &[u8]) -> Option<TenantUnits> {
        let body = bytes.get(TENANTS_AT..BLOCK as usize)?;
        let count = u32_at(body, 0) as usize;
        let end = 4 + 8 * count;
        if count > TENANTS_MAX || checksum_with(self.id, &[&body[..end]]) != u32_at(body, end) {
            return None;
        }
        let mut tenants = TenantUnits::default();
        for pair in body[4..end].chunks_exact(8) {
            tenants.add(u32_at(pair, 0), u32_at(pair, 4));
        }
        Some(tenants)
    }

    /// Decodes the trailer in the last block of a slot if it is valid and of segment `id`, with the
    /// checksum of its rows.
    pub fn parse(bytes: &[u8], id: u64) -> Option<(Self, u32)> {
        let body = bytes.get(..44)?;
        if &body[..8] != TRAILER_MAGIC || u64_at(body, 8) != id {
            return None;
        }
        if checksum_with(id, &[body]) != u32_at(bytes, 44) {
            return None;
        }
        let trailer = Self {
            id,
            rows: u32_at(body, 16),
            latest_expiry: u32_at(body, 20),
            last_sequence: u64_at(body, 24),
            record_bytes: u64_at(body, 32),
        };
        Some((trailer, u32_at(body, 40)))
    }

    /// Decodes the rows of a footer (`footer_bytes` long) if they match the checksum of the trailer.
    pub fn parse_rows(&self, footer: &[u8], rows_sum: u32) -> Option<Vec<Row>> {
        let first = footer.len().checked_sub(self.rows as usize * ROW_BYTES)?;
        let bytes = &footer[first..];
        if checksum_with(self.id, &[bytes]) != rows_sum {
            return None;
        }
        Some(bytes.chunks_exact(ROW_BYTES).map(parse_row).collect())
    }
}

fn parse_row(bytes: &[u8]) -> Row {
    let place = u64_at(bytes, 8);
    let kind = match place >> 37 & 3 {
        1 => Kind::Head,
        2 => Kind::Piece,
        _ => Kind::Whole,
    };
    Row {
        hash: u64_at(bytes, 0),
        offset: (place & 0xF_FFFF) as u32,
        units: (place >> 20 & 0x1_FFFF) as u32,
        kind,
        tenant: (place >> 39) as u32,
        sequence: u32_at(bytes, 16),
        expires_at: u32_at(bytes, 20),
    }
}

/// The units of each tenant among the rows of a footer.
pub fn tenants_of(rows: &[Row]) -> TenantUnits {
    let mut all = TenantUnits::default();
    for row in rows {
        all.add(row.tenant, row.units);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row() -> impl Strategy<Value = Row> {
        let kind = prop_oneof![Just(Kind::Whole), Just(Kind::Head), Just(Kind::Piece)];
        let place = (0..1_u32 << 20, 1..=1_u32 << 16, 0..1_u32 << 25);
        (any::<u64>(), place, kind, any::<u32>(), any::<u32>()).prop_map(
            |(hash, (offset, units, tenant), kind, sequence, expires_at)| Row {
                hash,
                offset,
                units,
                kind,
                tenant,
                sequence,
                expires_at,
            },
        )
    }

    proptest! {
        #[test]
        fn footers_round_trip_and_detect_every_flipped_bit(
            id: u64, rows in prop::collection::vec(row(), 0..400), bit: prop::sample::Index,
        ) {
            let trailer = Trailer {
                id, rows: rows.len() as u32, latest_expiry: 7, last_sequence: 8, record_bytes: 9,
            };
            let read = |bytes: &[u8]| {
                let (footer, block) = bytes.split_at(bytes.len() - BLOCK as usize);
                let (trailer, sum) = Trailer::parse(block, id)?;
                Some((trailer, trailer.parse_rows(footer, sum)?))
            };
            let bytes = trailer.encode(&rows);
            prop_assert_eq!(bytes.len() as u64, footer_bytes(rows.len()) + BLOCK);
            prop_assert_eq!(read(&bytes), Some((trailer, rows.clone())));
            let tenants = |bytes: &[u8]| trailer.tenants(&bytes[bytes.len() - BLOCK as usize..]);
            prop_assert_eq!(tenants(&bytes), tenants_of(&rows));
            let mut other = bytes.clone();
            other[bytes.len() - BLOCK as usize + TENANTS_AT] ^= 1;
            prop_assert_eq!(tenants(&other), TenantUnits::of_others(trailer.record_bytes));
            let used = rows.len() * ROW_BYTES + 48;
            let end = bytes.len() - BLOCK as usize + 48;
            let place = (end - used) * 8 + bit.index(used * 8);
            let mut flipped = bytes;
            flipped[place / 8] ^= 1 << (place % 8);
            prop_assert_eq!(read(&flipped), None);
        }
    }

    #[test]
    fn a_superblock_is_valid_only_on_its_own_device() {
        let head = SegmentHead { class: Class::Image, device: [3; 16], id: 77, opened_at: 5, image: (2, 70) };
        let bytes = head.encode();
        assert_eq!(SegmentHead::parse(&bytes, &[3; 16]), Some(head));
        assert_eq!(SegmentHead::parse(&bytes, &[4; 16]), None);
        for place in 0..60 {
            let mut flipped = bytes.clone();
            flipped[place] ^= 0x10;
            assert_eq!(SegmentHead::parse(&flipped, &[3; 16]), None, "byte {place}");
        }
    }
}
