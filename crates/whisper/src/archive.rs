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

/// Why archives cannot be read as they are described: one that reaches beyond the file, overlaps with another
/// one, or has a step that the finer one's does not divide.
pub(crate) fn faults(archives: &[Archive], form: Form, header: u64, size: u64) -> Vec<(usize, Error)> {
    let mut faults: Vec<(usize, String)> = Vec::new();
    for (n, archive) in archives.iter().enumerate() {
        let Archive { step, points, offset, bytes, .. } = *archive;
        if step == 0 || points == 0 {
            faults.push((n, format!("{points} points of {step} seconds")));
            continue;
        }
        let end = offset.checked_add(bytes).filter(|end| *end <= size);
        if offset < header || end.is_none() {
            let what = format!(
                "it is said to have {bytes} bytes from {offset} on, and the file has a header of {header} \
                 and {size} in all: it is cut"
            );
            faults.push((n, what));
        }
    }
    let mut places: Vec<(u64, u64, usize)> =
        archives.iter().enumerate().map(|(n, archive)| (archive.offset, archive.bytes, n)).collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        if let [(offset, bytes, other), (next, _, n)] = pair
            && offset.saturating_add(*bytes) > *next
        {
            faults.push((*n, "it overlaps with another one".to_owned()));
            faults.push((*other, "another one overlaps with it".to_owned()));
        }
    }
    let mut finer: Option<(usize, u32)> = None;
    for (n, archive) in archives.iter().enumerate().filter(|(_, archive)| archive.step > 0) {
        let is_divided = finer.is_none_or(|(before, step)| {
            let is_beside = form == Form::Compressed && archive.step == step && before > 0;
            archive.step % step == 0 && (archive.step != step || is_beside)
        });
        match finer {
            Some((_, step)) if !is_divided => {
                faults.push((n, format!("its step of {} s is no multiple of {step} s", archive.step)));
            }
            _ => finer = Some((n, archive.step)),
        }
    }
    faults.into_iter().map(|(n, what)| (n, Error::archive(n, what))).collect()
}
