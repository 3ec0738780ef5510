//! The rows of an answer.

use sandur_promql::{Answer, Value};
use sandur_query::HeldSeries;

/// The series, vector or number of an answer.
pub enum Rows {
    /// The result of one evaluation.
    Evaluated(Answer),
    /// Series over steps, some of which came from the step cache.
    Joined(HeldSeries),
}

impl Rows {
    /// The number of series of the answer; 1 for a number or a string.
    pub fn len(&self) -> usize {
        match self {
            Self::Joined(held) => held.series.len(),
            Self::Evaluated(answer) => match &answer.value {
                Value::Vector(all) => all.len(),
                Value::Matrix(all) => all.len(),
                Value::Scalar(_) | Value::String(_) => 1,
            },
        }
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the answer is a number or a string, without a series.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Evaluated(Answer { value: Value::Scalar(_) | Value::String(_), .. }))
    }

    /// Keeps the first `limit` series. Returns whether there were more.
    pub fn truncate(&mut self, limit: usize) -> bool {
        let before = self.len();
        match self {
            Self::Joined(held) => held.series.truncate(limit),
            Self::Evaluated(answer) => match &mut answer.value {
                Value::Vector(all) => all.truncate(limit),
                Value::Matrix(all) => all.truncate(limit),
                Value::Scalar(_) | Value::String(_) => {}
            },
        }
        self.len() < before
    }
}
