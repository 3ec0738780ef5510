//! The state of a group in a part of the series, which other processes send.

use foldhash::{HashMap, HashMapExt};
use sandur_memory::Reservation;
use sandur_model::Labels;
use sandur_model::histogram::HistogramSum;
use sandur_protobuf::Writer as _;
use sandur_query::Error;
use sandur_query::wire::{Fields, Put as _, malformed};

use super::accumulate::Floats;
use crate::token::Kind;

/// The bytes of an entry for the histograms of a step.
pub(super) const HISTOGRAM_BYTES: u64 = 64;

/// The histograms of a group at a step.
pub(super) enum StepHistograms {
    Sum(Box<HistogramSum>),
    /// Some are exponential, others have custom bounds.
    Incompatible,
}

/// The histograms of a group by step.
pub(super) type Histograms = HashMap<usize, StepHistograms>;

/// The state of a group in a part of the series.
pub struct GroupPart {
    /// The labels of the group.
    pub labels: Labels,
    pub(super) drop_name: bool,
    pub(super) floats: Floats,
    pub(super) histograms: Histograms,
}

impl GroupPart {
    /// Writes the group for another process.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.floats.write(out);
        out.put_labels(6, &self.labels);
        out.number(7, u64::from(self.drop_name));
        let mut all: Vec<_> = self.histograms.iter().collect();
        all.sort_unstable_by_key(|(step, _)| **step);
        for (step, histograms) in all {
            out.varint(8, *step as u64);
            match histograms {
                StepHistograms::Sum(sum) => out.put_histogram_sum(9, sum),
                StepHistograms::Incompatible => out.varint(10, 1),
            }
        }
    }

    /// Reads a group of an operator over a number of steps.
    pub fn read(
        fields: &mut Fields<'_>,
        op: Kind,
        steps: usize,
        memory: &mut Reservation,
    ) -> Result<Self, Error> {
        memory.grow(size_of::<Self>() as u64 + size_of::<u64>() as u64 * steps.div_ceil(64) as u64)?;
        let (labels, floats, histograms) = (Labels::default(), Floats::unread(steps), Histograms::new());
        let (mut part, mut step) = (Self { labels, drop_name: false, floats, histograms }, 0);
        while let Some(field) = fields.field()? {
            let histograms = match field {
                6 => {
                    part.labels = fields.labels(memory)?;
                    continue;
                }
                7 => {
                    part.drop_name = fields.number()? != 0;
                    continue;
                }
                8 => {
                    step = fields.number()? as usize;
                    continue;
                }
                9 => StepHistograms::Sum(Box::new(fields.histogram_sum(memory)?)),
                10 => {
                    fields.number()?;
                    StepHistograms::Incompatible
                }
                field => {
                    if !part.floats.read(field, fields, memory)? {
                        fields.skip()?;
                    }
                    continue;
                }
            };
            memory.grow(HISTOGRAM_BYTES)?;
            if step >= steps || part.histograms.insert(step, histograms).is_some() {
                return Err(malformed("a histogram of a step that does not exist, or exists twice"));
            }
        }
        match part.floats.is_of(op) {
            true => Ok(part),
            false => Err(malformed("a group of another operator or of other steps")),
        }
    }
}
