//! Writes one planned block of samples.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::block::BlockOrigin;
use sandur_format::catalog_entry::BlockForms;
use sandur_format::sample_block::{BlockOptions, BlockWriter, Floats, Histograms};
use sandur_model::TimeRange;

use super::SAMPLE_BYTES;
use super::flush_plan::SamplePlan;
use super::head::{SampleColumns, Wanted};
use super::may_be_stamped;
use crate::blocks::assembly::{Assembled, Assembly, ENDED, Plan, STEP_BYTES};

impl Plan for SamplePlan {
    fn window(&self) -> TimeRange {
        self.window
    }

    fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    fn begin(
        self: Box<Self>,
        origin: BlockOrigin,
        forms: BlockForms,
    ) -> Result<Box<dyn Assembly>, FormatError> {
        Ok(Box::new(SampleAssembly::begin(*self, origin, forms)))
    }
}

/// A block that is being written.
pub(super) struct SampleAssembly {
    plan: SamplePlan,
    /// `None` once the block is complete.
    writer: Option<BlockWriter>,
    ordinal: usize,
    /// The position in the exemplars.
    exemplar: usize,
    duplicates: u64,
    encoded_bytes: u64,
    stamps: Wanted,
}

impl SampleAssembly {
    /// Begins the block of a plan.
    pub(super) fn begin(plan: SamplePlan, origin: BlockOrigin, forms: BlockForms) -> Self {
        let mut options = BlockOptions::new(plan.tenant.clone(), plan.window, 0);
        options.origin = origin;
        options.stamped = may_be_stamped(forms) && plan.series.have_stamps();
        let stamps = if options.stamped { Wanted::Yes } else { Wanted::No };
        let writer = Some(BlockWriter::new(options));
        Self { plan, writer, ordinal: 0, exemplar: 0, duplicates: 0, encoded_bytes: 0, stamps }
    }
}

impl Assembly for SampleAssembly {
    fn step(&mut self, out: &mut Vec<Bytes>) -> Result<Option<Assembled>, FormatError> {
        let writer = self.writer.as_mut().ok_or(ENDED)?;
        let mut written = 0;
        while self.ordinal < self.plan.series.len() {
            if written >= STEP_BYTES {
                writer.take_output(out);
                return Ok(None);
            }
            let at = self.ordinal;
            self.ordinal += 1;
            // Checking a series costs a twentieth of encoding a sample.
            written += 1;
            let Some((samples, duplicates)) = self.plan.samples(at, self.stamps) else { continue };
            let series = writer.push_series(self.plan.series.pairs(at))?;
            push(writer, series, &samples)?;
            self.duplicates += duplicates;
            let bytes = samples.rows() as u64 * SAMPLE_BYTES;
            written += bytes;
            self.encoded_bytes += bytes;
        }
        loop {
            if written >= STEP_BYTES {
                writer.take_output(out);
                return Ok(None);
            }
            let next = self.plan.exemplars.next(&mut self.exemplar, self.plan.times_ms);
            let Some(series) = next else { break };
            written += series.memory_bytes();
            writer.push_exemplars(series)?;
        }
        if let Some(head) = &self.plan.metadata_of {
            head.each_metadata(&self.plan.tenant, |one| writer.push_metadata(one))?;
        }
        let summary = self.writer.take().ok_or(ENDED)?.finish(out)?;
        Ok(Some(Assembled { summary, duplicates: self.duplicates }))
    }

    fn encoded_bytes(&self) -> u64 {
        self.encoded_bytes
    }
}

fn push(writer: &mut BlockWriter, series: u32, samples: &SampleColumns) -> Result<(), FormatError> {
    let SampleColumns { timestamps, values, starts, histograms, stamps, .. } = samples;
    writer.push_floats(series, Floats { times: timestamps, values, starts, stamps })?;
    if histograms.is_empty() {
        return Ok(());
    }
    let times: Vec<i64> = histograms.iter().map(|one| one.timestamp).collect();
    let integers: Vec<bool> = histograms.iter().map(|one| one.integer).collect();
    let starts: Vec<i64> = histograms.iter().map(|one| one.start).collect();
    let starts = if starts.iter().all(|start| *start == 0) { Vec::new() } else { starts };
    let histograms: Vec<_> = histograms.iter().map(|one| Arc::clone(&one.histogram)).collect();
    let (times, integers, starts) = (&times, &integers, &starts);
    let stamps = &samples.histogram_stamps;
    let all = Histograms { times, histograms: &histograms, integers, starts, stamps };
    writer.push_histograms(series, all)
}
