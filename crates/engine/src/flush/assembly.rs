//! Writes one planned block in steps: a step runs on the CPU pool, its output goes to the store.

use std::sync::Arc;

use bytes::Bytes;
use sandur_catalog::LogPosition;
use sandur_format::block::{BlockOrigin, BlockSummary};
use sandur_format::log_block::{BlockOptions, BlockWriter, Row};
use sandur_model::TimeRange;

use super::plan::BlockPlan;

/// Bytes of lines per step: some tens of milliseconds, so that queries get their turn on the pool.
const STEP_BYTES: u64 = 4 << 20;

/// A block that is being written.
pub(crate) struct Assembly {
    plan: Arc<BlockPlan>,
    writer: BlockWriter,
    slice: usize,
    ordinal: usize,
    resume_at: Option<i64>,
    duplicates: u64,
}

/// What a step ended with.
pub(crate) enum Step {
    /// There is more to do.
    More(Box<Assembly>),
    /// The block is complete.
    Done {
        summary: BlockSummary,
        /// Rows left out because they were there already.
        duplicates: u64,
    },
}

impl Assembly {
    /// Begins the block of a plan; `seen` is how far the catalog was read.
    pub(crate) fn begin(plan: Arc<BlockPlan>, seen: LogPosition) -> Result<Self, sandur_format::Error> {
        let mut options = BlockOptions::new(plan.tenant.clone(), plan.window, 0);
        options.origin = BlockOrigin { seen, ..BlockOrigin::default() };
        let streams = plan.streams().map(|rows| Arc::clone(&rows.stream().labels)).collect();
        let writer = BlockWriter::new(options, streams)?;
        Ok(Self { plan, writer, slice: 0, ordinal: 0, resume_at: None, duplicates: 0 })
    }

    /// Writes some rows; `out` receives bytes for the store.
    pub(crate) fn step(mut self, out: &mut Vec<Bytes>) -> Result<Step, sandur_format::Error> {
        let mut left = STEP_BYTES;
        while self.slice < self.plan.slices.len() {
            while self.ordinal < self.plan.streams().len() {
                self.write_stream(&mut left)?;
                if left == 0 {
                    self.writer.take_output(out);
                    return Ok(Step::More(Box::new(self)));
                }
            }
            self.writer.cut_page();
            (self.slice, self.ordinal) = (self.slice + 1, 0);
        }
        let duplicates = self.duplicates;
        Ok(Step::Done { summary: self.writer.finish(out)?, duplicates })
    }

    /// Writes rows of the current stream in the current slice until `left` is used up; goes on to the
    /// next stream when there are no more.
    fn write_stream(&mut self, left: &mut u64) -> Result<(), sandur_format::Error> {
        let plan = Arc::clone(&self.plan);
        let slice = plan.slices[self.slice];
        let range = TimeRange::new(self.resume_at.take().unwrap_or(slice.start), slice.end);
        let (writer, stream) = (&mut self.writer, self.ordinal as u32);
        let (mut outcome, used) = (Ok(()), std::cell::Cell::new(0));
        let write = |row: crate::head::Row<'_>| {
            let (timestamp, level) = (row.entry.timestamp, row.entry.level);
            if outcome.is_ok() {
                outcome = writer.push_row(Row { stream, timestamp, level, line: row.line() }, row.metadata());
            }
            used.set(used.get() + 32 + u64::from(row.entry.line.len));
        };
        let visited = plan.stream(self.ordinal).visit_distinct_while(range, write, || used.get() < *left);
        outcome?;
        self.duplicates += visited.duplicates;
        *left = left.saturating_sub(used.get());
        match visited.resume_at {
            Some(timestamp) => self.resume_at = Some(timestamp),
            None => self.ordinal += 1,
        }
        Ok(())
    }
}
