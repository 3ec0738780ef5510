//! All archives of a file, put together.
//!
//! The finest archive stays as it is. A point of a coarser one stands for a whole interval, and is left out
//! when a finer archive tells of that interval: when the interval lies within what the finer archive keeps,
//! and it has a point there. At the end of the finer archive's retention one interval is cut in two: of it
//! both stay, for only the coarser point knows the whole interval.

use crate::error::Error;
use crate::file::Whisper;
use crate::method::Method;
use crate::point::Point;
use crate::source::ReadAt;

/// What stays of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Archives with what stays of each, the finest first; of several with one step the first.
    pub archives: Vec<Kept>,
    /// What was left out.
    pub left: Left,
}

/// What stays of an archive.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Which of the file's.
    pub archive: usize,
    /// Seconds of a point.
    pub step: u32,
    /// How its points were made of finer ones.
    pub method: Method,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// What was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Points of coarser archives whose intervals a finer one tells of.
    pub told_finer: u64,
    /// Points that are not a number.
    pub not_a_number: u64,
    /// Archives with the step of another one: further methods of go-carbon's `mix`.
    pub archives_beside: u64,
}

impl History {
    pub(crate) fn read<S: ReadAt>(file: &Whisper<S>, until: u32) -> Result<Self, Error> {
        let mut left = Left::default();
        let mut all: Vec<(Kept, u64)> = Vec::new();
        for (archive, described) in file.archives().iter().enumerate() {
            let step = described.step;
            if all.last().is_some_and(|(kept, _)| kept.step == step) {
                left.archives_beside += 1;
                continue;
            }
            let mut points = file.points(archive, until)?;
            let before = points.len();
            points.retain(|point| !point.value.is_nan());
            left.not_a_number += (before - points.len()) as u64;
            all.push((Kept { archive, step, method: described.method, points }, described.retention()));
        }
        // From the coarsest on, so that all points of finer ones are still there.
        for coarser in (1..all.len()).rev() {
            let (finer, rest) = all.split_at_mut(coarser);
            let Some((kept, _)) = rest.first_mut() else { continue };
            let before = kept.points.len();
            let begin = |(told, retention): &(Kept, u64)| known_from(&told.points, *retention);
            let begins: Vec<Option<u64>> = finer.iter().map(begin).collect();
            let cuts: Vec<u64> = begins.iter().flatten().copied().collect();
            for ((told, _), begin) in finer.iter().zip(begins) {
                if let Some(begin) = begin {
                    leave_out(kept, &told.points, begin, &cuts);
                }
            }
            left.told_finer += (before - kept.points.len()) as u64;
        }
        Ok(Self { archives: all.into_iter().map(|(kept, _)| kept).collect(), left })
    }

    /// How many points stay.
    pub fn points(&self) -> u64 {
        self.archives.iter().map(|kept| kept.points.len() as u64).sum()
    }
}

/// The first second that points with a retention tell of.
fn known_from(points: &[Point], retention: u64) -> Option<u64> {
    let newest = points.last()?;
    Some((u64::from(newest.time) + 1).saturating_sub(retention))
}

/// Leaves out the points whose intervals finer points tell of, which begin at `known_from`, unless an
/// interval is cut where some finer archive begins.
fn leave_out(kept: &mut Kept, told: &[Point], known_from: u64, cuts: &[u64]) {
    let (step, mut at) = (u64::from(kept.step), 0);
    kept.points.retain(|point| {
        let start = u64::from(point.time);
        while told.get(at).is_some_and(|finer| u64::from(finer.time) < start) {
            at += 1;
        }
        let has_finer = told.get(at).is_some_and(|finer| u64::from(finer.time) < start + step);
        let is_cut = cuts.iter().any(|cut| (start + 1..start + step).contains(cut));
        is_cut || start < known_from || !has_finer
    });
}
