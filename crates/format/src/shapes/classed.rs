//! Skewed numbers as classes, which are entropy-coded, and the low bits within a class.

use crate::error::Error;

use super::bits::{BitReader, BitWriter};
use super::numbers::{class_of, extra_bits, number_of_class};
use super::sink::Sink;
use super::source::Source;

/// Appends the classes of numbers as a plane, and their low bits.
pub(super) fn put_classed(numbers: impl Iterator<Item = u64>, plane: &mut Vec<u8>, sink: &mut Sink) {
    plane.clear();
    let mut bits = BitWriter::new(&mut sink.bits);
    for number in numbers {
        let class = class_of(number);
        plane.push(class);
        let extra = extra_bits(class);
        bits.put(number & ((1_u64 << extra) - 1), extra);
    }
    bits.finish();
    sink.put_plane(plane);
}

/// Reads numbers that [`put_classed`] wrote, and passes them to `each` in order.
pub(super) fn get_classed(
    len: usize,
    source: &mut Source<'_>,
    mut each: impl FnMut(u64),
) -> Result<(), Error> {
    let plane = source.plane(len)?;
    let bits: usize = plane.iter().map(|&class| extra_bits(class) as usize).sum();
    let mut reader = BitReader::new(source.bits.bytes(bits.div_ceil(8))?);
    plane.iter().for_each(|&class| each(number_of_class(class, reader.get(extra_bits(class)))));
    Ok(())
}
