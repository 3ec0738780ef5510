//! An index entry: twelve bytes and six bits with the place of a record.
//!
//! Invariant: packing keeps all fields exactly, except the length, which is rounded up by less than 1 %.

use crate::flash::expiry::Coarse;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Slot of the segment.
    pub slot: u32,
    /// Offset in the segment, in units of 64 bytes.
    pub offset: u32,
    /// Length in units, rounded up as the index stores it.
    pub units: u32,
    /// When the record expires, rounded.
    pub expiry: Coarse,
    /// Whether it is the head of a large value.
    pub is_large: bool,
}

impl Location {
    /// Rounds a length as the index does.
    pub fn rounded(units: u32) -> u32 {
        unpack_length(pack_length(units))
    }
}

/// What the index stores for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The place of its record.
    pub location: Location,
    /// Number of uses since it was written, up to 3.
    pub frequency: u8,
    /// Whether it was ever used.
    pub is_fetched: bool,
}

impl Entry {
    /// A new entry without uses.
    pub fn new(location: Location) -> Self {
        Self { location, frequency: 0, is_fetched: false }
    }

    /// Whether the record is at this place.
    pub fn is_at(&self, slot: u32, offset: u32) -> bool {
        self.location.slot == slot && self.location.offset == offset
    }

    /// Packs the entry into three words, without the tag. The last word is never 0.
    pub(super) fn pack(&self) -> [u32; 3] {
        let Location { slot, offset, units, expiry, is_large } = self.location;
        let flags = u32::from(self.is_fetched) << 30 | u32::from(is_large) << 31;
        let place = slot | u32::from(expiry.bits()) << 18 | flags;
        [u32::from(self.frequency) << 30, place, offset | pack_length(units) << 20]
    }

    pub(super) fn unpack(words: [u32; 3]) -> Self {
        let location = Location {
            slot: words[1] & 0x3_FFFF,
            offset: words[2] & 0xF_FFFF,
            units: unpack_length(words[2] >> 20),
            expiry: Coarse::from_bits((words[1] >> 18 & 0xFFF) as u16),
            is_large: words[1] >> 31 == 1,
        };
        Self { location, frequency: (words[0] >> 30) as u8, is_fetched: words[1] >> 30 & 1 == 1 }
    }
}

/// Packs a length as eight bits with a shift: the smallest such number that is at least `units`.
fn pack_length(units: u32) -> u32 {
    let units = units.max(1);
    let mut shift = (32 - units.leading_zeros()).saturating_sub(8);
    if units.div_ceil(1 << shift) > 255 {
        shift += 1;
    }
    shift << 8 | units.div_ceil(1 << shift)
}

fn unpack_length(packed: u32) -> u32 {
    (packed & 0xFF) << (packed >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_rounded_up_by_less_than_one_percent() {
        for units in 1..=1 << 16 {
            let packed = pack_length(units);
            let back = unpack_length(packed);
            assert!(packed < 1 << 12 && packed & 0xFF != 0);
            assert!(back >= units && (back - units) * 100 < units.max(100), "{units} became {back}");
        }
    }

    proptest! {
        #[test]
        fn entries_pack_and_unpack(
            slot in 0..1_u32 << 18, offset in 0..1_u32 << 20, units in 1..256_u32, expiry in 0..1_u16 << 12,
            frequency in 0..4_u8, is_fetched: bool, is_large: bool,
        ) {
            let location = Location { slot, offset, units, expiry: Coarse::from_bits(expiry), is_large };
            let entry = Entry { location, frequency, is_fetched };
            prop_assert_eq!(Entry::unpack(entry.pack()), entry);
        }
    }
}
