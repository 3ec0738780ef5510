//! Writes one planned block of logs.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::block::BlockOrigin;
use sandur_format::catalog_entry::BlockForms;
use sandur_format::log_block::{BlockOptions, BlockWriter, Row, VERSION};
use sandur_model::TimeRange;

use super::flush_plan::BlockPlan;
use crate::blocks::assembly::{Assembled, Assembly, ENDED, Plan, STEP_BYTES};

impl Plan for BlockPlan {
    fn window(&self) -> TimeRange {
        self.of.window
    }

    fn raw_bytes(&self) -> u64 {
        self.of.bytes
    }

    fn begin(
        self: Box<Self>,
        origin: BlockOrigin,
        forms: BlockForms,
    ) -> Result<Box<dyn Assembly>, FormatError> {
        Ok(Box::new(LogAssembly::begin(*self, origin, forms)?))
    }
}

/// A block that is being written.
pub(super) struct LogAssembly {
    plan: BlockPlan,
    /// The streams with rows in the block.
    present: Vec<u32>,
    /// The time slices of the window, which are written one after the other.
    slices: Vec<TimeRange>,
    /// `None` once the block is complete.
    writer: Option<BlockWriter>,
    slice: usize,
    ordinal: usize,
    resume_at: Option<i64>,
    duplicates: u64,
    encoded_bytes: u64,
}

impl LogAssembly {
    /// Begins the block of a plan.
    pub(super) fn begin(
        plan: BlockPlan,
        origin: BlockOrigin,
        forms: BlockForms,
    ) -> Result<Self, FormatError> {
        let mut options = BlockOptions::new(plan.tenant.clone(), plan.window(), 0);
        (options.origin, options.version) = (origin, forms.logs.min(VERSION));
        let present = plan.present();
        let slices = plan.slices(&present);
        let streams = present.iter().map(|at| Arc::clone(&plan.stream(*at).stream().labels)).collect();
        let writer = Some(BlockWriter::new(options, streams)?);
        let (slice, ordinal, resume_at, duplicates, encoded_bytes) = (0, 0, None, 0, 0);
        Ok(Self { plan, present, slices, writer, slice, ordinal, resume_at, duplicates, encoded_bytes })
    }

    /// Writes rows of the current stream in the current slice until `left` is used up. Advances to the
    /// next stream when the current one has no more rows in the slice.
    fn write_stream(&mut self, left: &mut u64) -> Result<(), FormatError> {
        let slice = self.slices[self.slice];
        let range = TimeRange::new(self.resume_at.take().unwrap_or(slice.start), slice.end);
        let (writer, stream) = (self.writer.as_mut().ok_or(ENDED)?, self.ordinal as u32);
        let (mut outcome, used, encoded) = (Ok(()), std::cell::Cell::new(0), &mut self.encoded_bytes);
        let write = |row: super::head::Row<'_>| {
            let (timestamp, level) = (row.entry.timestamp, row.entry.level);
            if outcome.is_ok() {
                outcome = writer.push_row(Row { stream, timestamp, level, line: row.line() }, row.metadata());
            }
            used.set(used.get() + 32 + u64::from(row.entry.line.len));
            *encoded += u64::from(row.entry.line.len);
        };
        let rows = self.plan.stream(self.present[self.ordinal]);
        let visited = rows.visit_distinct_while(range, write, || used.get() < *left);
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

impl Assembly for LogAssembly {
    fn step(&mut self, out: &mut Vec<Bytes>) -> Result<Option<Assembled>, FormatError> {
        let mut left = STEP_BYTES;
        while self.slice < self.slices.len() {
            while self.ordinal < self.present.len() {
                self.write_stream(&mut left)?;
                if left == 0 {
                    self.writer.as_mut().ok_or(ENDED)?.take_output(out);
                    return Ok(None);
                }
            }
            self.writer.as_mut().ok_or(ENDED)?.cut_page();
            (self.slice, self.ordinal) = (self.slice + 1, 0);
        }
        let summary = self.writer.take().ok_or(ENDED)?.finish(out)?;
        Ok(Some(Assembled { summary, duplicates: self.duplicates }))
    }

    fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes
    }
}
