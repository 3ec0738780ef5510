//! What a header says of an archive, and what must hold of all of them.

use crate::error::Error;
use crate::file::Form;
use crate::method::Method;

/// An archive of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Archive {
    /// Seconds of a point.
    pub step: u32,
    /// Points that it keeps.
    pub points: u32,
    /// How its points are made of those of the finer one.
    pub method: Method,
    /// Where its points or blocks begin.
    pub(crate) offset: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
}

impl Archive {
    /// Seconds that it reaches back.
    pub fn retention(&self) -> u64 {
        u64::from(self.step) * u64::from(self.points)
    }

    /// Whether a point of this time is within the retention when the newest is that of `newest`.
    pub(crate) fn holds(&self, time: u32, newest: u32) -> bool {
        time <= newest && u64::from(newest) - u64::from(time) < self.retention()
    }
}

/// Refuses archives that overlap, reach beyond the file, or have steps that do not divide each other.
pub(crate) fn check(archives: &[Archive], form: Form, header: u64, size: u64) -> Result<(), Error> {
    if archives.is_empty() {
        return Err(Error::Header("it has no archives".to_owned()));
    }
    for (n, archive) in archives.iter().enumerate() {
        let Archive { step, points, offset, bytes, .. } = *archive;
        if step == 0 || points == 0 {
            return Err(Error::archive(n, format!("{points} points of {step} seconds")));
        }
        let end = offset.checked_add(bytes).filter(|end| *end <= size);
        if offset < header || end.is_none() {
            let what = format!(
                "it is said to have {bytes} bytes from {offset} on, and the file has a header of {header} \
                 and {size} in all: it is cut"
            );
            return Err(Error::archive(n, what));
        }
    }
    let mut places: Vec<(u64, u64, usize)> =
        archives.iter().enumerate().map(|(n, archive)| (archive.offset, archive.bytes, n)).collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        if let [(offset, bytes, _), (next, _, n)] = pair
            && offset + bytes > *next
        {
            return Err(Error::archive(*n, "it overlaps with another one"));
        }
    }
    for (n, pair) in archives.windows(2).enumerate() {
        let [finer, coarser] = pair else { continue };
        let is_beside = form == Form::Compressed && coarser.step == finer.step && n > 0;
        if coarser.step % finer.step != 0 || (coarser.step == finer.step && !is_beside) {
            let what = format!("its step of {} s is no multiple of {} s", coarser.step, finer.step);
            return Err(Error::archive(n + 1, what));
        }
    }
    Ok(())
}
