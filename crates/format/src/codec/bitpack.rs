//! Bit packing with a frame of reference: blocks of 128 values, each with its own minimum and width.
//!
//! A block is: minimum (LEB128), width in bits (one byte, 0 to 64), then the values minus the minimum,
//! `width` bits each, least significant bit first, in `ceil(n * width / 8)` bytes. The last block holds
//! the remaining values. The number of values is not stored: the reader knows it.

use crate::codec::reader::Reader;
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Values per block.
pub const BLOCK: usize = 128;

/// Appends `values` in blocks.
pub fn put_packed(out: &mut Vec<u8>, values: &[u64]) {
    for block in values.chunks(BLOCK) {
        put_block(out, block);
    }
}

fn put_block(out: &mut Vec<u8>, values: &[u64]) {
    let minimum = values.iter().copied().min().unwrap_or(0);
    let spread = values.iter().fold(0, |bits, v| bits | (v - minimum));
    let width = 64 - spread.leading_zeros();
    put_varint(out, minimum);
    out.push(width as u8);
    let end = out.len() + packed_bytes(values.len(), width);
    let (mut buffer, mut filled) = (0u128, 0u32);
    for value in values {
        buffer |= u128::from(value - minimum) << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&(buffer as u64).to_le_bytes());
            buffer >>= 64;
            filled -= 64;
        }
    }
    out.extend_from_slice(&(buffer as u64).to_le_bytes());
    out.truncate(end);
}

fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Reads `count` values and passes each to `sink`. The caller bounds `count`.
#[inline]
pub fn each_packed(reader: &mut Reader<'_>, count: usize, mut sink: impl FnMut(u64)) -> Result<(), Error> {
    let (mut left, mut padded) = (count, PADDED);
    while left > 0 {
        let values = left.min(BLOCK);
        left -= values;
        each_of_block(reader, &mut padded, values, &mut sink)?;
    }
    Ok(())
}

/// Space for one block of the largest width, and a load of 16 bytes that begins in its last byte.
type Padded = [u8; BLOCK * 8 + 16];
const PADDED: Padded = [0; BLOCK * 8 + 16];

/// Reads one block of at most [`BLOCK`] values.
#[inline]
fn each_of_block(
    reader: &mut Reader<'_>,
    padded: &mut Padded,
    values: usize,
    mut sink: impl FnMut(u64),
) -> Result<(), Error> {
    let minimum = reader.varint()?;
    let width = u32::from(reader.u8()?);
    if width > 64 {
        return Err(reader.malformed("a bit width exceeds 64"));
    }
    let packed = reader.bytes(packed_bytes(values, width))?;
    if width == 0 {
        (0..values).for_each(|_| sink(minimum));
        return Ok(());
    }
    padded[..packed.len()].copy_from_slice(packed);
    padded[packed.len()..packed.len() + 16].fill(0);
    match width {
        ..=57 => unpack_narrow(padded, values, width, |value| sink(minimum.wrapping_add(value))),
        _ => unpack_wide(padded, values, width, |value| sink(minimum.wrapping_add(value))),
    }
    Ok(())
}

/// Unpacks widths up to 57 bits: one load of 8 bytes always holds a complete value.
#[inline]
fn unpack_narrow(padded: &Padded, count: usize, width: u32, mut sink: impl FnMut(u64)) {
    let mask = (1u64 << width) - 1;
    let mut bit = 0usize;
    for _ in 0..count.min(BLOCK) {
        let at = bit >> 3;
        let word = u64::from_le_bytes(padded[at..at + 8].try_into().expect("eight bytes"));
        sink((word >> (bit & 7)) & mask);
        bit += width as usize;
    }
}

fn unpack_wide(padded: &Padded, count: usize, width: u32, mut sink: impl FnMut(u64)) {
    let mask = u64::MAX >> (64 - width);
    let mut bit = 0usize;
    for _ in 0..count.min(BLOCK) {
        let at = bit >> 3;
        let word = u128::from_le_bytes(padded[at..at + 16].try_into().expect("sixteen bytes"));
        sink((word >> (bit & 7)) as u64 & mask);
        bit += width as usize;
    }
}

/// Reads `count` values and converts each with `make`.
pub fn get_packed<T: Copy + Default>(
    reader: &mut Reader<'_>,
    count: usize,
    mut make: impl FnMut(u64) -> T,
) -> Result<Vec<T>, Error> {
    bound(reader, count)?;
    let (mut values, mut padded) = (vec![T::default(); count], PADDED);
    for block in values.chunks_mut(BLOCK) {
        // Filling slots in order is faster than appending.
        let mut slots = block.iter_mut();
        each_of_block(reader, &mut padded, slots.len(), |value| {
            if let Some(slot) = slots.next() {
                *slot = make(value);
            }
        })?;
    }
    Ok(values)
}

/// Reads `count` values of 32 bits.
pub fn get_packed_u32(reader: &mut Reader<'_>, count: usize) -> Result<Vec<u32>, Error> {
    let mut high = 0;
    let values = get_packed(reader, count, |value| {
        high |= value >> 32;
        value as u32
    })?;
    if high != 0 {
        return Err(reader.malformed("a value has more than 32 bits"));
    }
    Ok(values)
}

/// Checks that `count` values can be present before memory is reserved for them: a block takes at least
/// two bytes.
fn bound(reader: &Reader<'_>, count: usize) -> Result<(), Error> {
    let needed = count.div_ceil(BLOCK) * 2;
    if needed > reader.remaining() {
        return Err(Error::Truncated {
            part: reader.part(),
            offset: reader.offset(),
            needed: needed as u64,
            available: reader.remaining() as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[u64]) {
        let mut bytes = Vec::new();
        put_packed(&mut bytes, values);
        let mut reader = Reader::new("test", 0, &bytes);
        assert_eq!(get_packed(&mut reader, values.len(), |v| v).unwrap(), values);
        reader.finish().unwrap();
        for cut in 0..bytes.len() {
            let mut reader = Reader::new("test", 0, &bytes[..cut]);
            assert!(get_packed(&mut reader, values.len(), |v| v).is_err());
        }
    }

    #[test]
    fn every_width_round_trips() {
        for width in 0..=64u32 {
            let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
            let values: Vec<u64> =
                (0..300u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15) & mask).collect();
            round_trip(&values);
        }
    }

    #[test]
    fn a_count_without_bytes_allocates_no_memory() {
        assert!(get_packed(&mut Reader::new("test", 0, &[0; 8]), usize::MAX / 8, |v| v).is_err());
    }

    proptest! {
        #[test]
        fn any_values_round_trip(values in prop::collection::vec(any::<u64>(), 0..300), shift in 0..64u32) {
            let values: Vec<u64> = values.iter().map(|v| v >> shift).collect();
            round_trip(&values);
        }
    }
}
