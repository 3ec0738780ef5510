//! Makes rollups during a merge. The series of a path are held back until all are read, because the
//! series of its rollups come first in the order of a block. A series with tags is treated as a path:
//! its rollups directly precede it.
//!
//! **Invariants.** One path is in memory, and reserved. A series without a path, with start times or
//! histograms, or with labels other than those of its path, is written unchanged.

mod path;
mod saved;

use std::sync::Arc;

use sandur_format::Error as FormatError;
use sandur_format::sample_block::{BlockWriter, Floats};
use sandur_format::stamp::Stamp;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::Labels;

use super::join::{Columns, FloatPart, JoinedFloats, Lists, Stays, join_floats};
use crate::error::Error;
use crate::path_labels::path_of;
use crate::policy::rollups::DayRollup;
use path::{PathSeries, RolledRows, rolled};

pub(crate) use saved::rows_saved;

/// Finding the rule of a path takes as long as merging this many samples.
pub(super) const RULE_ROWS: u64 = 1 << 10;

/// The path that is being merged.
pub(super) struct Rolling {
    rollup: Arc<DayRollup>,
    budget: MemoryBudget,
    path: Option<Labels>,
    series: Vec<PathSeries>,
    memory: Vec<Reservation>,
    /// The last series that was written.
    written: Option<Labels>,
    rows: RolledRows,
    /// Whether points keep their stamps.
    stamped: bool,
}

impl Rolling {
    pub(super) fn new(rollup: Arc<DayRollup>, stamped: bool, budget: MemoryBudget) -> Self {
        let (path, series, memory, written) = (None, Vec::new(), Vec::new(), None);
        Self { rollup, budget, path, series, memory, written, rows: RolledRows::default(), stamped }
    }

    /// The number of rows that were rolled, and of the rows that replaced them.
    pub(super) fn rows(&self) -> (u64, u64) {
        (self.rows.before, self.rows.after)
    }

    /// Holds back the samples of a series if it belongs to a path, and returns their number. Returns
    /// `None` if the caller must write them now.
    pub(super) fn take<'a>(
        &mut self,
        writer: &mut BlockWriter,
        pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
        parts: &mut Vec<FloatPart<'_>>,
        has_histograms: bool,
    ) -> Result<Option<usize>, Error> {
        let has_starts = parts.iter().any(|part| part.starts.iter().any(|start| *start != 0));
        let path = path_of(pairs.clone()).filter(|_| !has_histograms && !has_starts);
        if path.is_none() || path != self.path {
            self.end(writer)?;
        }
        let Some(path) = path else {
            self.written = Some(Labels::from_pairs(pairs));
            return Ok(None);
        };
        let rows: usize = parts.iter().map(|part| part.rows.len()).sum();
        // Times and values, for the held samples and for making steps of them.
        let stamp = if self.stamped { 2 * size_of::<Stamp>() as u64 } else { 0 };
        self.memory.push(self.budget.reserve(rows as u64 * (32 + stamp) + 1_024)?);
        let labels = Labels::from_pairs(pairs);
        let columns = Columns { starts: false, stamps: self.stamped };
        let JoinedFloats { times, values, stamps, .. } =
            join_floats(std::mem::take(parts), &mut Lists::default(), columns, || Stays::of(&labels));
        let found = times.len();
        self.series.push(PathSeries { labels, times: times.to_vec(), values, stamps });
        self.path = Some(path);
        Ok(Some(found))
    }

    /// Writes the path that was held back.
    pub(super) fn end(&mut self, writer: &mut BlockWriter) -> Result<(), Error> {
        let internal = |error: FormatError| Error::Internal(error.to_string());
        let Some(path) = self.path.take() else { return Ok(()) };
        let mut series = std::mem::take(&mut self.series);
        if let Some(step) = self.rollup.step_of(&path) {
            let (all, rows) = rolled(series, step, self.written.as_ref());
            series = all;
            self.rows.before += rows.before;
            self.rows.after += rows.after;
        }
        for PathSeries { labels, times, values, stamps } in &series {
            let ordinal = writer.push_series(labels.iter()).map_err(internal)?;
            let floats = Floats { times, values, starts: &[], stamps };
            writer.push_floats(ordinal, floats).map_err(internal)?;
        }
        self.written = series.pop().map(|last| last.labels);
        self.memory.clear();
        Ok(())
    }
}
