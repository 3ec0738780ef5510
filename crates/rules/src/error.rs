//! Why an evaluation failed.

use sandur_memory::OverBudget;
use sandur_service::Failure;

/// Why an evaluation failed. The state of the rule did not change.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The query failed.
    #[error("{0}")]
    Query(String),
    /// The answer of the query may be incomplete.
    #[error("the answer may be incomplete: {0}")]
    Incomplete(String),
    /// The query did not end in time.
    #[error(
        "the evaluation took longer than {0:?}; simplify the expression or raise ruler.evaluation_timeout"
    )]
    Timeout(std::time::Duration),
    /// The answer is of a kind that a rule cannot use.
    #[error("rule result is not a vector or scalar")]
    NotVector,
    /// Two series have the same labels.
    #[error("vector contains metrics with the same labelset after applying {of} labels: {labels}")]
    SameLabels {
        /// `rule` or `alert`.
        of: &'static str,
        /// The labels.
        labels: String,
    },
    /// The rule has more series than its group allows.
    #[error("exceeded limit of {limit} with {found} {what}")]
    Limit {
        /// `limit` of the group.
        limit: usize,
        /// The number of series.
        found: usize,
        /// `series` or `alerts`.
        what: &'static str,
    },
    /// The rule has more series than the server allows.
    #[error(
        "the expression has {found} series, and a rule may have {limit} (ruler.max_series); aggregate in the \
         expression, or raise the limit"
    )]
    TooManySeries {
        /// The limit.
        limit: usize,
        /// The number of series.
        found: usize,
    },
    /// The results do not fit into the memory.
    #[error("{0}; raise memory_limit, or reduce the series of the rule")]
    Memory(#[from] OverBudget),
    /// Another process evaluates the rule, or this process is not sure.
    #[error("it is not sure that this process still owns the rule: nothing is stored")]
    NotOwner,
    /// The results could not be stored.
    #[error("the results could not be stored: {0}")]
    Write(String),
}

impl EvaluationError {
    /// Every reason.
    pub(crate) const REASONS: [&str; 8] =
        ["query", "incomplete", "timeout", "duplicate_labels", "limit", "memory", "not_owner", "write"];

    /// The reason as a label of metrics: one of `REASONS`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Query(_) | Self::NotVector => "query",
            Self::Incomplete(_) => "incomplete",
            Self::Timeout(_) => "timeout",
            Self::SameLabels { .. } => "duplicate_labels",
            Self::Limit { .. } | Self::TooManySeries { .. } => "limit",
            Self::Memory(_) => "memory",
            Self::NotOwner => "not_owner",
            Self::Write(_) => "write",
        }
    }

    /// Whether samples may not be stored.
    pub fn is_of_write(&self) -> bool {
        matches!(self, Self::Write(_) | Self::NotOwner)
    }

    /// Whether the answer of a query was incomplete, so that nothing may be concluded from it.
    pub fn is_incomplete(&self) -> bool {
        matches!(self, Self::Incomplete(_) | Self::Timeout(_) | Self::Memory(_))
    }
}

/// Why a query failed, if there is no memory left or its time is over.
impl From<sandur_query::Error> for EvaluationError {
    fn from(error: sandur_query::Error) -> Self {
        match error {
            sandur_query::Error::Timeout(after) => Self::Timeout(after),
            sandur_query::Error::OverBudget(over) => Self::Memory(over),
            other => Self::Query(other.to_string()),
        }
    }
}

impl From<Failure> for EvaluationError {
    fn from(failure: Failure) -> Self {
        Self::Query(failure.message)
    }
}
