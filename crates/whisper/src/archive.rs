//! The description of an archive, and the consistency checks of all archives.

use crate::error::Error;
use crate::form::Form;
use crate::method::Method;

/// An archive of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Archive {
    /// The step in seconds.
    pub step: u32,
    /// The number of points that it keeps.
    pub points: u32,
    /// How its points are computed from those of the finer archive.
    pub method: Method,
    /// Offset in the file of its points or blocks.
    pub(crate) offset: u64,
    /// Size in bytes of its points or blocks.
    pub(crate) bytes: u64,
}

impl Archive {
    /// Returns its retention in seconds.
    pub fn retention(&self) -> u64 {
        u64::from(self.step) * u64::from(self.points)
    }

    /// Returns whether the time of a point is within the retention before `newest`.
    pub(crate) fn holds(&self, time: u32, newest: u32) -> bool {
        time <= newest && u64::from(newest) - u64::from(time) < self.retention()
    }
}

/// Returns the archives that cannot be read as they are described, and why: an archive extends beyond
/// the file, overlaps with another, or has a step that is not a multiple of the finer step.
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
                "it has {bytes} bytes from offset {offset} on, but the file has a header of {header} \
                 and {size} in all: it is truncated"
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
            faults.push((*n, "it overlaps with another archive".to_owned()));
            faults.push((*other, "another archive overlaps with it".to_owned()));
        }
    }
    let mut finer: Option<(usize, u32)> = None;
    for (n, archive) in archives.iter().enumerate().filter(|(_, archive)| archive.step > 0) {
        let is_divided = finer.is_none_or(|(before, step)| {
            let is_further_method = form == Form::Compressed && archive.step == step && before > 0;
            archive.step % step == 0 && (archive.step != step || is_further_method)
        });
        match finer {
            Some((_, step)) if !is_divided => {
                faults.push((n, format!("its step of {} s is not a multiple of {step} s", archive.step)));
            }
            _ => finer = Some((n, archive.step)),
        }
    }
    faults.into_iter().map(|(n, what)| (n, Error::archive(n, what))).collect()
}
