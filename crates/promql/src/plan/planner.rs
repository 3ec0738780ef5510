//! The state of the planner, and the work for selectors whose series are computed independently.

use std::sync::Arc;

use foldhash::HashMap;

use crate::ast::Expr;
use crate::column::Grid;
use crate::run::{LeafId, Options, Run};
use crate::span::Span;
use crate::timing::Times;
use crate::token::Kind;

/// The labels that outer operators read; `None` is all labels.
pub(super) type Wanted<'a> = Option<Looked<'a>>;

/// A list of labels that are read.
#[derive(Clone, Copy)]
pub(super) struct Looked<'a> {
    /// The labels.
    pub(super) names: &'a [String],
    /// Whether all labels are read except these.
    pub(super) without: bool,
}

impl Looked<'_> {
    /// No label.
    pub(super) const NONE: Self = Self { names: &[], without: false };
}

/// The planner's knowledge of the operators around an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around {
    /// Whether an outer function reads only counts and sums of histograms.
    pub(super) statistics: bool,
    /// Whether an outer operator reads the buckets of histograms.
    pub(super) needs_buckets: bool,
    /// Whether only the presence of the planned selector's samples matters, not their values.
    pub(super) presence: bool,
    /// Whether the plan is that of a job, which processes each series independently.
    pub(super) within: bool,
    /// The steps of the query or of the innermost subquery.
    pub(super) grid: Grid,
    /// The end of the range of these steps, in milliseconds: the last step is not after it.
    pub(super) end: i64,
}

impl Around {
    /// The surroundings of a complete query.
    pub(super) fn at(times: Times) -> Self {
        Self {
            statistics: false,
            needs_buckets: false,
            presence: false,
            within: false,
            grid: times.grid(),
            end: times.end,
        }
    }
}

/// Plans the operators of a query.
pub(super) struct Planner<'r> {
    /// The times that the query names, by `start()` and similar words.
    pub(super) times: Times,
    pub(super) run: &'r mut Run,
    pub(super) around: Around,
    pub(super) jobs: Jobs,
    /// The aggregation around the expression that is planned next, if its groups can be merged.
    pub(super) fold: Option<Fold>,
    /// The selector whose series that aggregation gets.
    pub(super) folded: Option<LeafId>,
}

/// The work for the series of selectors that are computed independently.
pub type Jobs = HashMap<LeafId, Arc<PerSeries>>;

/// An expression that processes each series of one selector independently.
pub struct PerSeries {
    pub(super) expr: Expr,
    pub(super) grid: Grid,
    pub(super) times: Times,
    pub(super) options: Options,
    /// The labels that outer operators read, and whether these are all labels except the listed ones.
    pub(super) wanted: Option<(Vec<String>, bool)>,
    pub(super) around: Around,
    /// The aggregation of the series, if groups of their parts can be merged.
    pub(super) fold: Option<Fold>,
}

/// An aggregation around an expression of each series.
#[derive(Clone, Debug)]
pub struct Fold {
    /// The operator.
    pub op: Kind,
    /// The labels of `by` or `without`.
    pub names: Vec<String>,
    /// Whether the labels are those of `without`.
    pub without: bool,
    /// The place of the aggregated expression.
    pub span: Span,
}
