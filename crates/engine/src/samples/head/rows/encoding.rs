//! The encoding of a float sample relative to the previous one, and marks: positions among the samples.
//!
//! A float sample is written relative to the previous one: a byte of kinds, the distance of its frame's
//! number from the previous frame (so that a head can be cut at a floor), the change of the distance in
//! time, and the differing bytes of its value. A sample of a scrape takes about six bytes.
//!
//! **Kinds.** Bits 0 to 2: number of trailing zero bytes of the difference of values. Bits 3 to 5:
//! number of its other bytes, minus one. All six set: no difference. Bits 6 and 7: the change of the
//! distance in time is 0, takes one byte, or takes eight. The frame distance takes two bytes, or
//! [`LATE_FRAME`] and four more bytes when these do not suffice.

/// In place of the two bytes of a frame distance: four bytes follow.
const LATE_FRAME: u16 = u16::MAX;
/// Kind of a value that equals the previous one.
const SAME: u8 = 0x3F;
const STEP_IS_SHORT: u8 = 1 << 6;
const STEP_IS_LONG: u8 = 2 << 6;
/// The most bytes of a sample: kinds, frame, time, value.
const SAMPLE_BYTES_MAX: usize = 1 + 6 + 8 + 8;

/// The state against which the next sample is encoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    pub(super) time_ms: i64,
    pub(super) value: u64,
    pub(super) frame: u32,
    /// Distance between the last two times; 0 when it does not fit.
    pub(super) step_ms: i32,
}

impl Before {
    /// Encodes a sample, and becomes the state for the next one. Returns the bytes and their number.
    #[inline]
    pub(super) fn write(&mut self, frame: u32, time_ms: i64, value: u64) -> ([u8; SAMPLE_BYTES_MAX], usize) {
        let (mut out, mut at) = ([0; SAMPLE_BYTES_MAX], 1);
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        let frames = frame.saturating_sub(self.frame);
        match u16::try_from(frames) {
            Ok(frames) if frames != LATE_FRAME => put(&frames.to_le_bytes()),
            _ => {
                put(&LATE_FRAME.to_le_bytes());
                put(&frames.to_le_bytes());
            }
        }
        let step = time_ms.wrapping_sub(self.time_ms);
        let change = step.wrapping_sub(self.step_ms.into());
        let mut kinds = match i8::try_from(change) {
            Ok(0) => 0,
            Ok(change) => {
                put(&change.to_le_bytes());
                STEP_IS_SHORT
            }
            Err(_) => {
                put(&change.to_le_bytes());
                STEP_IS_LONG
            }
        };
        let differing = value ^ self.value;
        if differing == 0 {
            kinds |= SAME;
        } else {
            let trailing = differing.trailing_zeros() / 8;
            let length = 8 - differing.leading_zeros() / 8 - trailing;
            kinds |= trailing as u8 | (length as u8 - 1) << 3;
            put(&(differing >> (8 * trailing)).to_le_bytes()[..length as usize]);
        }
        out[0] = kinds;
        let step_ms = i32::try_from(step).unwrap_or(0);
        *self = Self { time_ms, value, frame: self.frame.saturating_add(frames), step_ms };
        (out, at)
    }

    /// Decodes the next sample from the beginning of `bytes`; `None` at the end.
    #[inline]
    pub(super) fn take(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let kinds = *bytes.split_off_first()?;
        let frames = match u16::from_le_bytes(take_array(bytes)?) {
            LATE_FRAME => u32::from_le_bytes(take_array(bytes)?),
            frames => frames.into(),
        };
        let change = match kinds & (STEP_IS_SHORT | STEP_IS_LONG) {
            0 => 0,
            STEP_IS_SHORT => i64::from(*bytes.split_off_first()? as i8),
            _ => i64::from_le_bytes(take_array(bytes)?),
        };
        let step = change.wrapping_add(self.step_ms.into());
        self.time_ms = self.time_ms.wrapping_add(step);
        self.step_ms = i32::try_from(step).unwrap_or(0);
        self.frame = self.frame.saturating_add(frames);
        if kinds & SAME != SAME {
            let (trailing, length) = (kinds & 7, usize::from(kinds >> 3 & 7) + 1);
            let mut differing = [0; 8];
            differing[..length].copy_from_slice(bytes.split_off(..length)?);
            self.value ^= u64::from_le_bytes(differing) << (8 * trailing);
        }
        Some(())
    }
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

/// Float samples between two marks. A mark takes 48 bytes, which is less than half a byte per sample.
pub(super) const MARK_ROWS: u32 = 128;
/// Bytes of a sample in an index: its time, its value or position, and spare capacity in the nodes of
/// the tree, at least half of which is in use.
pub(super) const INDEXED_BYTES: u64 = 36;

/// A position among the float samples.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// The offset of the next sample's bytes.
    pub(super) start: usize,
    /// The state against which that sample is encoded.
    pub(super) before: Before,
    /// The latest time of all samples before it.
    pub(super) latest_ms: i64,
}
