//! Decodes chunks of floats (XOR).

use crate::bits::{Bits, Xor};
use crate::error::Error;

/// Widths of the differences of time deltas by the number of leading ones.
const WIDTHS: [u32; 5] = [0, 14, 17, 20, 64];

/// Calls `each` for each sample: milliseconds and value.
pub fn decode(data: &[u8], mut each: impl FnMut(i64, f64)) -> Result<(), Error> {
    let mut from = Bits::new(data);
    let count = from.read(16)?;
    if count == 0 {
        return Ok(());
    }
    let mut time = from.varint()?;
    let mut value = Xor::new(from.float()?);
    each(time, value.value());
    let mut delta = 0i64;
    for n in 1..count {
        if n == 1 {
            delta = from.uvarint()? as i64;
        } else {
            let width = WIDTHS[from.ones(4)? as usize];
            let change = if width == 0 { 0 } else { from.signed(width)? };
            delta = delta.wrapping_add(change);
        }
        time = time.wrapping_add(delta);
        value.read(&mut from)?;
        each(time, value.value());
    }
    Ok(())
}
