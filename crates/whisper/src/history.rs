//! Merges all archives of a file.
//!
//! The finest archive is kept as it is. A point of a coarser archive covers an interval. It is dropped
//! if a finer archive covers it: the interval is within the retention of the finer archive, which has a
//! point in it. At the end of the finer archive's retention one interval is cut in two. For that one
//! both are kept, because only the coarser point covers the complete interval.

use crate::error::Error;
use crate::file::Whisper;
use crate::form::Form;
use crate::method::Method;
use crate::point::Point;
use crate::reading::Damage;
use crate::source::ReadAt;

/// The merged points of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The kept points of each archive, the finest archive first. Of several archives with the same step
    /// only the first is kept.
    pub archives: Vec<Kept>,
    /// Counts of what was dropped.
    pub left: Left,
    /// Damaged archives and blocks, each with the reason. Empty unless damage is skipped.
    pub damaged: Vec<String>,
}

/// An archive that was read.
struct Archived {
    kept: Kept,
    retention: u64,
    /// First and last second of damaged blocks.
    lost: Vec<(u32, u32)>,
}

/// The points of an archive that are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The archive's index in the file.
    pub archive: usize,
    /// The step in seconds.
    pub step: u32,
    /// How its points were computed from finer ones.
    pub method: Method,
    /// The points, in order.
    pub points: Vec<Point>,
}

/// Counts of what was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Points of coarser archives that a finer archive covers.
    pub covered_by_finer: u64,
    /// Points whose value is NaN.
    pub not_a_number: u64,
    /// Archives with the same step as another one: further methods of go-carbon's `mix`.
    pub archives_of_same_step: u64,
}

impl<S: ReadAt> Whisper<S> {
    /// Merges all archives so that no time is covered twice.
    pub fn history(&self, until: u32) -> Result<History, Error> {
        History::read(self, until)
    }
}

impl History {
    fn read<S: ReadAt>(file: &Whisper<S>, until: u32) -> Result<Self, Error> {
        let mut history = Self { archives: Vec::new(), left: Left::default(), damaged: Vec::new() };
        let mut all: Vec<Archived> = Vec::new();
        let mut before = None;
        for (archive, described) in file.archives().iter().enumerate() {
            let (step, fault) = (described.step, file.fault(archive));
            // If the first archive of a step is damaged, one with another method does not replace it.
            let has_methods = fault.is_none() || file.form() == Form::Compressed;
            if has_methods && before.replace(step) == Some(step) {
                history.left.archives_of_same_step += 1;
                continue;
            }
            if let Some(fault) = fault {
                history.damaged.push(fault.to_string());
                continue;
            }
            let mut reading = file.reading(until);
            let mut points = match file.read(archive, &mut reading) {
                Ok(points) => points,
                Err(error) if reading.damage == Damage::LeftOut => {
                    history.damaged.push(Error::archive(archive, error.to_string()).to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            history.damaged.extend(reading.reason.map(|first| match reading.lost.len() - 1 {
                0 => first.to_string(),
                more => format!("{first}; {more} more of its blocks are damaged"),
            }));
            let before = points.len();
            points.retain(|point| !point.value.is_nan());
            history.left.not_a_number += (before - points.len()) as u64;
            let kept = Kept { archive, step, method: described.method, points };
            all.push(Archived { kept, retention: described.retention(), lost: reading.lost });
        }
        // From the coarsest on, so that all points of finer archives are still there.
        for coarser in (1..all.len()).rev() {
            let (finer, rest) = all.split_at_mut(coarser);
            let Some(Archived { kept, .. }) = rest.first_mut() else { continue };
            let before = kept.points.len();
            let begins: Vec<Option<u64>> = finer.iter().map(Archived::known_from).collect();
            let cuts = cuts(&begins, finer);
            for (archive, begin) in finer.iter().zip(begins) {
                if let Some(begin) = begin {
                    leave_out(kept, &archive.kept.points, begin, &cuts);
                }
            }
            history.left.covered_by_finer += (before - kept.points.len()) as u64;
        }
        history.archives = all.into_iter().map(|archive| archive.kept).collect();
        Ok(history)
    }

    /// Returns the number of points that are kept.
    pub fn points(&self) -> u64 {
        self.archives.iter().map(|kept| kept.points.len() as u64).sum()
    }
}

impl Archived {
    /// Returns the first second that its points cover.
    fn known_from(&self) -> Option<u64> {
        let newest = self.kept.points.last()?;
        Some((u64::from(newest.time) + 1).saturating_sub(self.retention))
    }
}

/// Returns the times at which finer archives begin, and at which their damaged blocks begin and end, in
/// order. Finer points do not cover an interval that contains such a time completely.
fn cuts(begins: &[Option<u64>], finer: &[Archived]) -> Vec<u64> {
    let lost = finer.iter().flat_map(|archive| &archive.lost);
    let lost = lost.flat_map(|(from, to)| [u64::from(*from), u64::from(*to) + 1]);
    let mut cuts: Vec<u64> = begins.iter().flatten().copied().chain(lost).collect();
    cuts.sort_unstable();
    cuts
}

/// Drops the points whose intervals finer points cover, which begin at `known_from`, unless an interval
/// is cut.
fn leave_out(kept: &mut Kept, finer_points: &[Point], known_from: u64, cuts: &[u64]) {
    let (step, mut at) = (u64::from(kept.step), 0);
    kept.points.retain(|point| {
        let start = u64::from(point.time);
        while finer_points.get(at).is_some_and(|finer| u64::from(finer.time) < start) {
            at += 1;
        }
        let has_finer = finer_points.get(at).is_some_and(|finer| u64::from(finer.time) < start + step);
        let next_cut = cuts.get(cuts.partition_point(|cut| *cut <= start));
        let is_cut = next_cut.is_some_and(|cut| *cut < start + step);
        is_cut || start < known_from || !has_finer
    });
}
