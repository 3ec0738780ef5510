//! Decodes the points of a block: the first is stored in plain form, the others as differences, in the
//! style of Gorilla.

use super::bits::Bits;
use crate::point::Point;

/// A block to decode.
pub(super) struct Coded<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) step: u32,
    /// Time of its first point, in seconds since the epoch.
    pub(super) start: u32,
    /// Time of its last point, in seconds since the epoch.
    pub(super) end: u32,
}

/// Bits of the change of the distance between points, in steps, by the number of one bits in the prefix.
const CHANGE_BITS: [usize; 4] = [0, 7, 9, 12];
/// Bits of a time that is stored in plain form.
const TIME_BITS: usize = 32;
/// A length that means that all bits changed.
const ALL_BITS: u64 = 63;

impl Coded<'_> {
    /// Decodes the points and appends them to `found`.
    pub(super) fn read(&self, found: &mut Vec<Point>) -> Result<(), &'static str> {
        let first = Point::decode(self.bytes).ok_or("it is shorter than a point")?;
        if first.time != self.start {
            return Err("its first time is not that of the index");
        }
        self.keep(first, found);
        let mut bits = Bits::from(self.bytes, Point::BYTES);
        let (mut before, mut last) = (first, first);
        while last.time < self.end {
            let Some(time) = self.time(&mut bits, before.time, last.time)? else {
                return Err("it ends before the last time of the index");
            };
            let value = value(&mut bits, before.value, last.value)?;
            if time <= last.time || time > self.end {
                return Err("its times do not increase up to the last time of the index");
            }
            (before, last) = (last, Point { time, value });
            self.keep(last, found);
        }
        Ok(())
    }

    /// Keeps a point unless its time is not a multiple of the step. There are never more points than
    /// steps.
    fn keep(&self, point: Point, found: &mut Vec<Point>) {
        if point.time.is_multiple_of(self.step) {
            found.push(point);
        }
    }

    /// Decodes the next time. Returns `None` at the end mark of the block.
    #[inline]
    fn time(&self, bits: &mut Bits<'_>, before: u32, last: u32) -> Result<Option<u32>, &'static str> {
        let mut ones = 0;
        while ones < CHANGE_BITS.len() && bits.bit().ok_or(CUT)? {
            ones += 1;
        }
        let Some(width) = CHANGE_BITS.get(ones) else {
            let time = bits.number(TIME_BITS).ok_or(CUT)? as u32;
            return Ok(Some(time).filter(|time| *time != 0));
        };
        let coded = bits.number(*width).ok_or(CUT)? as i64;
        let sign = if *width == 0 { 0 } else { 1i64 << (width - 1) };
        let change = if coded & sign != 0 { -(coded & (sign - 1)) } else { coded };
        let time = 2 * i64::from(last) - i64::from(before) + change * i64::from(self.step);
        u32::try_from(time).map(Some).map_err(|_| "a time is out of range")
    }
}

const CUT: &str = "it is truncated";

/// Decodes the next value.
#[inline]
fn value(bits: &mut Bits<'_>, before: f64, last: f64) -> Result<f64, &'static str> {
    if !bits.bit().ok_or(CUT)? {
        return Ok(last);
    }
    let changed = match bits.bit().ok_or(CUT)? {
        // The changed bits are within those that changed last time.
        false => {
            let former = before.to_bits() ^ last.to_bits();
            if former == 0 {
                return Err("a value reuses the changed bits of the previous one, which did not change");
            }
            let (leading, trailing) = (former.leading_zeros(), former.trailing_zeros());
            bits.number((64 - leading - trailing) as usize).ok_or(CUT)? << trailing
        }
        true => {
            let leading = bits.number(5).ok_or(CUT)?;
            let length = bits.number(6).ok_or(CUT)?;
            match length {
                ALL_BITS => bits.number(64).ok_or(CUT)?,
                length => {
                    let changed = bits.number(length as usize).ok_or(CUT)?;
                    let shift =
                        64u64.checked_sub(leading + length).ok_or("more bits changed than a value has")?;
                    changed.checked_shl(shift as u32).unwrap_or(0)
                }
            }
        }
    };
    Ok(f64::from_bits(last.to_bits() ^ changed))
}
