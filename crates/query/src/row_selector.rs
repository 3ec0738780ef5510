//! A query language's judgement on single rows, for those who have pages but know no language: deletes.

use std::ops::Range;
use std::sync::Arc;

use sandur_model::{LineColumn, LogPage, Matcher};

use crate::error::Error;
use crate::source::Needles;

/// A log query, made ready to tell which rows it selects.
pub trait RowSelector: Send + Sync {
    /// Conditions on the stream.
    fn matchers(&self) -> &[Matcher];

    /// Whether series that have other labels than those of the matchers are left out, apart from labels that
    /// Graphite's paths are kept in (see [`sandur_model::is_graphite_label`]).
    fn is_exact(&self) -> bool {
        false
    }

    /// Whether rows of a matching stream differ: their lines or metadata decide.
    fn looks_at_rows(&self) -> bool;

    /// What every selected line holds.
    fn needles(&self) -> &Needles;

    /// Bytes that it takes and that no job was charged with.
    fn memory_bytes(&self) -> u64;

    /// Starts to look at rows. What the look remembers belongs to the job that takes it.
    fn look(&self) -> Box<dyn RowLook + '_>;
}

/// One look of a selector at rows, with its buffers.
pub trait RowLook {
    /// Appends the selected ones of `rows`, rising. The rows belong to the run at position `run` of the
    /// page, whose stream matches; the page has its metadata and levels, `lines` are its lines.
    fn select(
        &mut self,
        page: &LogPage,
        lines: &LineColumn,
        run: usize,
        rows: Range<u32>,
        out: &mut Vec<u32>,
    );
}

/// A look that selects every row.
pub struct EveryRow;

impl RowLook for EveryRow {
    fn select(&mut self, _: &LogPage, _: &LineColumn, _: usize, rows: Range<u32>, out: &mut Vec<u32>) {
        out.extend(rows);
    }
}

/// Series as a whole: what deletes of samples name.
pub struct SeriesSelector {
    matchers: Vec<Matcher>,
    is_exact: bool,
    needles: Needles,
}

impl SeriesSelector {
    /// The series that all matchers fit.
    pub fn new(matchers: Vec<Matcher>) -> Self {
        Self { matchers, is_exact: false, needles: Needles::default() }
    }

    /// Those of them that have no other label.
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

/// Makes the text of a log query ready.
pub type SelectorCompiler = Arc<dyn Fn(&str) -> Result<Arc<dyn RowSelector>, Error> + Send + Sync>;
