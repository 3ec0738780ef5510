//! Writes one planned block of samples.

use bytes::Bytes;
use sandur_catalog::LogPosition;
use sandur_format::Error as FormatError;
use sandur_format::block::{BlockOrigin, SeriesList};
use sandur_format::sample_block::{BlockOptions, BlockWriter};

use super::SAMPLE_BYTES;
use super::flush_plan::SamplePlan;
use crate::assembly::{Assembled, Assembly, ENDED, STEP_BYTES};

/// A block that is being written.
pub(super) struct SampleAssembly {
    plan: SamplePlan,
    /// Until the block is complete.
    writer: Option<BlockWriter>,
    ordinal: usize,
    duplicates: u64,
}

impl SampleAssembly {
    /// Begins the block of a plan; `seen` is how far the catalog was read.
    pub(super) fn begin(plan: SamplePlan, seen: LogPosition) -> Result<Self, FormatError> {
        let mut options = BlockOptions::new(plan.tenant.clone(), plan.window, 0);
        options.origin = BlockOrigin { seen, ..BlockOrigin::default() };
        let mut series = SeriesList::default();
        for at in &plan.present {
            series.push(plan.series.pairs(*at as usize))?;
        }
        Ok(Self { plan, writer: Some(BlockWriter::new(options, series)), ordinal: 0, duplicates: 0 })
    }
}

impl Assembly for SampleAssembly {
    fn step(&mut self, out: &mut Vec<Bytes>) -> Result<Option<Assembled>, FormatError> {
        let writer = self.writer.as_mut().ok_or(ENDED)?;
        let mut written = 0;
        while let Some(at) = self.plan.present.get(self.ordinal) {
            if written >= STEP_BYTES {
                writer.take_output(out);
                return Ok(None);
            }
            let (samples, duplicates) = self.plan.series.samples(*at as usize, self.plan.times_ms);
            for (time_ms, value) in samples.timestamps.iter().zip(&samples.values) {
                writer.push(self.ordinal as u32, *time_ms, *value)?;
            }
            self.duplicates += duplicates;
            written += samples.timestamps.len() as u64 * SAMPLE_BYTES;
            self.ordinal += 1;
        }
        let summary = self.writer.take().ok_or(ENDED)?.finish(out)?;
        Ok(Some(Assembled { summary, duplicates: self.duplicates }))
    }
}
