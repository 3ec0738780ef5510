//! Selection of single rows by a log query, for code that has pages but knows no query language:
//! deletes.

use std::ops::Range;
use std::sync::Arc;

use sandur_model::{LineColumn, LogPage, Matcher};

use crate::error::Error;
use crate::source::Needles;

/// A compiled log query that determines which rows it selects.
pub trait RowSelector: Send + Sync {
    /// The matchers on stream labels.
    fn matchers(&self) -> &[Matcher];

    /// Whether series with labels other than those of the matchers are excluded, except labels that
    /// contain the parts of Graphite paths (see [`sandur_model::is_graphite_label`]).
    fn is_exact(&self) -> bool {
        false
    }

    /// Whether lines or metadata decide, so that a matching stream may have rows that are not selected.
    fn looks_at_rows(&self) -> bool;

    /// Texts that every selected line contains.
    fn needles(&self) -> &Needles;

    /// Bytes of memory that no job was charged with.
    fn memory_bytes(&self) -> u64;

    /// Starts a selection. Its buffers belong to the job that runs it.
    fn look(&self) -> Box<dyn RowLook + '_>;
}

/// A running selection, with its buffers.
pub trait RowLook {
    /// Appends the selected rows of `rows` to `out`, in rising order. The rows belong to the run at
    /// position `run` of the page, whose stream matches. The page has its metadata and levels; `lines`
    /// are its lines.
    fn select(
        &mut self,
        page: &LogPage,
        lines: &LineColumn,
        run: usize,
        rows: Range<u32>,
        out: &mut Vec<u32>,
    );
}

/// Selects every row.
pub struct EveryRow;

impl RowLook for EveryRow {
    fn select(&mut self, _: &LogPage, _: &LineColumn, _: usize, rows: Range<u32>, out: &mut Vec<u32>) {
        out.extend(rows);
    }
}

/// Selects complete series: for deletes of samples.
pub struct SeriesSelector {
    matchers: Vec<Matcher>,
    is_exact: bool,
    needles: Needles,
}

impl SeriesSelector {
    /// Selects the series that match all matchers.
    pub fn new(matchers: Vec<Matcher>) -> Self {
        Self { matchers, is_exact: false, needles: Needles::default() }
    }

    /// Selects those of them that have no other labels.
    pub fn exactly(matchers: Vec<Matcher>) -> Self {
        Self { is_exact: true, ..Self::new(matchers) }
    }
}

impl RowSelector for SeriesSelector {
    fn matchers(&self) -> &[Matcher] {
        &self.matchers
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }

    fn looks_at_rows(&self) -> bool {
        false
    }

    fn needles(&self) -> &Needles {
        &self.needles
    }

    fn memory_bytes(&self) -> u64 {
        let of = |matcher: &Matcher| matcher.memory_bytes() + matcher.value().len() as u64;
        self.matchers.iter().map(of).sum()
    }

    fn look(&self) -> Box<dyn RowLook + '_> {
        Box::new(EveryRow)
    }
}

/// Compiles the text of a log query.
pub type SelectorCompiler = Arc<dyn Fn(&str) -> Result<Arc<dyn RowSelector>, Error> + Send + Sync>;
