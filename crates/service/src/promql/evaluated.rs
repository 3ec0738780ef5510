//! The answer of an evaluated PromQL query.

use sandur_promql::Answer;

use super::rows::Rows;

/// The rows of an answer, with warnings, infos and counts.
pub struct Evaluated {
    /// The series, vector or number.
    pub rows: Rows,
    /// Warnings of the evaluation.
    pub warnings: Vec<String>,
    /// Infos of the evaluation.
    pub infos: Vec<String>,
    /// Number of samples that were read.
    pub samples: u64,
    /// Samples that the largest piece read.
    pub peak_samples: u64,
}

impl Evaluated {
    /// Converts the answer of one evaluation.
    pub(super) fn of(mut answer: Answer) -> Self {
        let (warnings, infos) = (std::mem::take(&mut answer.warnings), std::mem::take(&mut answer.infos));
        let samples = answer.samples;
        Self { rows: Rows::Evaluated(answer), warnings, infos, samples, peak_samples: samples }
    }
}
