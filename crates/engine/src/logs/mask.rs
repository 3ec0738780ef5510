//! Removes hidden rows from pages.
//!
//! A page keeps its columns; its runs are cut around the hidden rows. Lines are decoded only when a rule
//! looks at rows of a stream that the page has.

use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_memory::Reservation;
use sandur_model::{LineAutomaton, LineColumn, LineReducer, LogPage, StreamRun, matches_all};
use sandur_query::{Error, PageTask, QueryContext};

use crate::error::FilterError;
use crate::rules::Rule;

/// The rules that concern a page.
pub(crate) struct Mask(Vec<Arc<Rule>>);

impl Mask {
    /// A mask of these rules; `None` without rules.
    pub fn of(rules: Vec<Arc<Rule>>) -> Option<Arc<Self>> {
        (!rules.is_empty()).then(|| Arc::new(Self(rules)))
    }

    /// Whether it needs lines and metadata.
    pub fn looks_at_rows(&self) -> bool {
        self.0.iter().any(|rule| rule.looks_at_rows())
    }

    /// Returns the hidden rows of the page. `lines` is called at most once, and only if lines decide.
    pub fn hidden<'l, E: From<FilterError>>(
        &self,
        page: &LogPage,
        lines: impl FnOnce() -> Result<&'l LineColumn, E>,
    ) -> Result<RoaringBitmap, E> {
        let (mut hidden, mut rows) = (RoaringBitmap::new(), Vec::new());
        let (mut unread, mut read) = (Some(lines), None);
        // One rule after the other, because there may be memory for only one compiled query at a time.
        for rule in &self.0 {
            let runs = page.runs.iter().enumerate();
            let concerned = runs.map(|(position, run)| (position, run, rows_inside(page, run, rule)));
            let mut concerned = concerned.filter(|(_, _, rows)| !rows.is_empty()).peekable();
            if concerned.peek().is_none() {
                continue;
            }
            let naming = rule.naming_here()?;
            let mut named = concerned.filter(|(_, run, _)| matches_all(naming.matchers(), &run.labels));
            if !rule.looks_at_rows() {
                named.for_each(|(_, _, rows)| _ = hidden.insert_range(rows));
                continue;
            }
            let Some(first) = named.next() else { continue };
            if let Some(lines) = unread.take() {
                read = Some(lines()?);
            }
            let Some(lines) = read else { continue };
            let compiled = rule.compiled_here()?;
            let (mut look, _memory) = compiled.look();
            for (position, _, range) in std::iter::once(first).chain(named) {
                rows.clear();
                look.select(page, lines, position, range, &mut rows);
                hidden.extend(rows.iter().copied());
            }
        }
        Ok(hidden)
    }
}

fn rows_inside(page: &LogPage, run: &StreamRun, rule: &Rule) -> Range<u32> {
    let times = &page.timestamps[run.start as usize..run.end as usize];
    let start = times.partition_point(|&t| t < rule.range.start) as u32;
    let end = times.partition_point(|&t| t < rule.range.end) as u32;
    run.start + start..run.start + end.max(start)
}

/// Calls `part` with each part of `rows` between hidden ones, in order.
pub(crate) fn visible_parts(rows: Range<u32>, hidden: &RoaringBitmap, mut part: impl FnMut(Range<u32>)) {
    let mut start = rows.start;
    for row in hidden.range(rows.clone()) {
        if start < row {
            part(start..row);
        }
        start = row + 1;
    }
    if start < rows.end {
        part(start..rows.end);
    }
}

/// The runs without the hidden rows.
pub(super) fn cut_runs(runs: Vec<StreamRun>, hidden: &RoaringBitmap) -> Vec<StreamRun> {
    let mut visible = Vec::with_capacity(runs.len());
    for run in runs {
        visible_parts(run.start..run.end, hidden, |rows| {
            visible.push(StreamRun { start: rows.start, end: rows.end, ..run.clone() });
        });
    }
    visible
}

/// A page without its hidden rows. The inner page must provide lines and metadata if the mask looks at rows.
pub(crate) struct MaskedPage {
    inner: Box<dyn PageTask>,
    mask: Arc<Mask>,
    context: QueryContext,
    lines: Option<LineColumn>,
    /// Pays for the runs that were cut.
    memory: Option<Reservation>,
}

impl MaskedPage {
    pub fn new(inner: Box<dyn PageTask>, mask: Arc<Mask>, context: QueryContext) -> Self {
        Self { inner, mask, context, lines: None, memory: None }
    }
}

impl PageTask for MaskedPage {
    fn bounds(&self) -> (i64, i64) {
        self.inner.bounds()
    }

    fn memory_bytes(&self) -> u64 {
        self.inner.memory_bytes()
    }

    fn narrow(&mut self) -> Result<LogPage, Error> {
        let mut page = self.inner.narrow()?;
        let (inner, lines) = (&mut self.inner, &mut self.lines);
        let hidden = self.mask.hidden(&page, || inner.lines().map(|column| &*lines.insert(column)))?;
        if !hidden.is_empty() {
            let most = page.runs.len() as u64 + hidden.len();
            self.memory = Some(self.context.budget().reserve(most * size_of::<StreamRun>() as u64)?);
            page.runs = cut_runs(std::mem::take(&mut page.runs), &hidden);
        }
        Ok(page)
    }

    fn lines(&mut self) -> Result<LineColumn, Error> {
        match self.lines.take() {
            Some(lines) => Ok(lines),
            None => self.inner.lines(),
        }
    }

    /// Once the lines are decoded, the caller tests them directly.
    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error> {
        match self.lines {
            Some(_) => Ok(false),
            None => self.inner.retain(test, negated, alive),
        }
    }

    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error> {
        match self.lines.take() {
            Some(lines) => Ok(lines),
            None => self.inner.lines_of(wanted),
        }
    }

    fn reduced(&mut self, reducer: &dyn LineReducer, wanted: &[bool]) -> Result<Option<LineColumn>, Error> {
        match self.lines {
            Some(_) => Ok(None),
            None => self.inner.reduced(reducer, wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_between_hidden_rows() {
        let parts = |hidden: &[u32]| {
            let mut parts = Vec::new();
            visible_parts(2..8, &hidden.iter().copied().collect(), |part| parts.push((part.start, part.end)));
            parts
        };
        assert_eq!(parts(&[]), [(2, 8)]);
        assert_eq!(parts(&[1, 2, 7, 8]), [(3, 7)]);
        assert_eq!(parts(&[4, 5]), [(2, 4), (6, 8)]);
        assert_eq!(parts(&[2, 3, 4, 5, 6, 7]), []);
    }
}
