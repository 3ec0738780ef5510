//! A log expression made ready to run: line filters pulled to the front, stages that do nothing left out,
//! and what it needs of a page.

use std::ops::Range;
use std::sync::Arc;

use sandur_base::job::spend;
use sandur_model::{LineColumn, LogPage, Matcher, StreamRun};
use sandur_query::{Error, Needles, PageTask};

use crate::ast::LogExpr;
use crate::names::{NameId, Names};
use crate::needles;
use crate::page_filter::PageFilter;
use crate::row::{ERROR, ERROR_DETAILS, Row, Scratch, Wanted, WantedNames, seed_names};
use crate::stage::{LineFilter, Stage, StageNode};

/// What a query does with the rows of its selector.
#[derive(Clone)]
pub struct Pipeline {
    /// Conditions on the stream.
    pub matchers: Vec<Matcher>,
    /// Filters of the original line; all must pass.
    pub filters: Vec<LineFilter>,
    /// What follows, in its order.
    pub stages: Vec<Arc<dyn StageNode>>,
    /// Labels that the query can use; `None` is any.
    pub wanted: Option<Vec<String>>,
    /// When the query began, in nanoseconds since the epoch; `None`: templates take each row's own time.
    pub now_ns: Option<i64>,
    /// Whether filters of labels run as soon as a parser has the label.
    early_filters: bool,
}

impl Pipeline {
    /// For a log expression whose labels are used as `wanted` says.
    pub fn new(log: &LogExpr, wanted: Option<Vec<String>>) -> Self {
        let (mut filters, mut stages) = (Vec::new(), Vec::new());
        let mut line_changed = false;
        let nothing_wanted = wanted.as_ref().is_some_and(Vec::is_empty);
        for stage in &log.stages {
            match stage.line_filter() {
                Some(filter) if filter.passes_all() => {}
                // Filters only drop rows: nothing is lost by dropping them before other stages see them.
                Some(filter) if !line_changed => filters.push(filter.clone()),
                _ => {
                    line_changed |= stage.effect().changes_line;
                    if !(nothing_wanted && stage.effect().only_extracts) {
                        stages.push(Arc::clone(stage));
                    }
                }
            }
        }
        Self { matchers: log.matchers.clone(), filters, stages, wanted, now_ns: None, early_filters: true }
    }

    /// The same for a query that began at this time.
    pub fn begun_at(mut self, now_ns: i64) -> Self {
        self.now_ns = Some(now_ns);
        self
    }

    /// The same with all filters of labels in their places.
    pub fn without_early_filters(mut self) -> Self {
        self.early_filters = false;
        self
    }

    /// The filters of labels that parsers run, the first of each label.
    fn early_filters(&self, names: &mut Names) -> Vec<(NameId, Box<dyn Stage>)> {
        let mut early: Vec<(NameId, Box<dyn Stage>)> = Vec::new();
        for stage in self.stages.iter().filter(|_| self.early_filters) {
            if let Some(id) = stage.filtered_label().map(|label| names.id(&label))
                && early.iter().all(|(known, _)| *known != id)
            {
                early.push((id, stage.start(names)));
            }
        }
        early
    }

    /// Whether lines are needed to tell what passes.
    pub fn reads_lines(&self) -> bool {
        !self.filters.is_empty() || self.stages_read_lines()
    }

    /// Whether stages need the lines of what passed the line filters.
    pub fn stages_read_lines(&self) -> bool {
        self.stages.iter().any(|s| s.effect().reads_line)
    }

    /// Names of labels that stages look at, errors left out.
    pub fn labels_read(&self) -> Vec<String> {
        let mut names: Vec<String> = self.stages.iter().flat_map(|s| s.reads()).collect();
        names.retain(|name| name != ERROR && name != ERROR_DETAILS);
        names
    }

    /// What every wanted line holds.
    pub fn needles(&self) -> Needles {
        needles::required(self.filters.iter())
    }

    /// A worker of its own.
    pub fn start(&self) -> Worker {
        let mut names = seed_names();
        let wanted = match &self.wanted {
            None => Wanted::All,
            Some(list) => {
                let ids = wanted_ids(list, &mut names);
                Wanted::Only(WantedNames::new(ids, &names))
            }
        };
        let stages = self.stages.iter().map(|stage| stage.start(&mut names)).collect();
        let filter = PageFilter::new(self.filters.iter().cloned());
        let early = self.early_filters(&mut names);
        let mut scratch = Scratch::new(names);
        scratch.early = early;
        scratch.now_ns = self.now_ns;
        Worker { filter, filters: self.filters.clone(), stages, wanted, scratch, rows: Vec::new() }
    }
}

/// A wanted `x_extracted` needs the key `x`, too: whether it is taken is known per row only.
fn wanted_ids(list: &[String], names: &mut Names) -> Vec<u32> {
    let mut ids: Vec<u32> = Vec::new();
    for name in list {
        ids.push(names.id(name));
        if let Some(plain) = name.strip_suffix("_extracted") {
            ids.push(names.id(plain));
        }
    }
    ids
}

/// The rows of a page that pass the line filters.
pub struct Chosen {
    /// Per row of the page whether it does.
    pub rows: Vec<bool>,
    /// Lines, of these rows at least, if they had to be put together.
    pub lines: Option<LineColumn>,
}

/// Stages and buffers of one worker.
pub struct Worker {
    filter: PageFilter,
    filters: Vec<LineFilter>,
    /// What follows the line filters.
    pub stages: Vec<Box<dyn Stage>>,
    /// Labels that the query can use.
    pub wanted: Wanted,
    /// Buffers.
    pub scratch: Scratch,
    rows: Vec<u32>,
}

impl Worker {
    /// Whether line filters decide.
    pub fn filters_lines(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Marks the rows of the ranges that pass the line filters. The lines of a page that can tell without are
    /// not put together, or only those that a filter has to read.
    pub fn choose(
        &mut self,
        task: &mut dyn PageTask,
        page: &LogPage,
        ranges: &[Range<u32>],
    ) -> Result<Chosen, Error> {
        let mut rows = vec![false; page.timestamps.len()];
        ranges.iter().for_each(|range| rows[range.start as usize..range.end as usize].fill(true));
        if self.filter.is_empty() || ranges.iter().all(Range::is_empty) {
            return Ok(Chosen { rows, lines: None });
        }
        let mut told = vec![false; self.filters.len()];
        for (told, filter) in told.iter_mut().zip(&self.filters) {
            let Some(automaton) = filter.automaton() else { continue };
            *told = task.retain(automaton, filter.negated, &mut rows)?;
            if !*told {
                break;
            }
        }
        if !told.contains(&true) {
            return self.choose_by_lines(task, ranges, rows);
        }
        let rest: Vec<&LineFilter> =
            self.filters.iter().zip(&told).filter(|(_, told)| !**told).map(|(filter, _)| filter).collect();
        if rest.is_empty() || !rows.contains(&true) {
            return Ok(Chosen { rows, lines: None });
        }
        let lines = task.lines_of(&rows)?;
        for (row, chosen) in rows.iter_mut().enumerate().filter(|(_, chosen)| **chosen) {
            let line = lines.line(row);
            *chosen = rest.iter().all(|filter| filter.passes(line));
        }
        Ok(Chosen { rows, lines: Some(lines) })
    }

    fn choose_by_lines(
        &mut self,
        task: &mut dyn PageTask,
        ranges: &[Range<u32>],
        mut rows: Vec<bool>,
    ) -> Result<Chosen, Error> {
        let lines = task.lines()?;
        rows.fill(false);
        for range in ranges {
            let selected = self.select(Some(&lines), range.clone());
            selected.iter().for_each(|&row| rows[row as usize] = true);
            self.give_back(selected);
        }
        Ok(Chosen { rows, lines: Some(lines) })
    }

    /// Rows of the range that pass the line filters; the buffer comes back with [`Self::give_back`].
    pub fn select(&mut self, lines: Option<&LineColumn>, rows: Range<u32>) -> Vec<u32> {
        let mut selected = std::mem::take(&mut self.rows);
        selected.clear();
        match lines {
            Some(lines) if !self.filter.is_empty() => self.filter.select(lines, rows, &mut selected),
            _ => selected.extend(rows),
        }
        selected
    }

    /// The chosen rows of a range; the buffer comes back with [`Self::give_back`].
    pub fn chosen(&mut self, chosen: &Chosen, rows: Range<u32>) -> Vec<u32> {
        let mut selected = std::mem::take(&mut self.rows);
        selected.clear();
        selected.extend(rows.filter(|&row| chosen.rows[row as usize]));
        selected
    }

    /// Gives a buffer back for the next call.
    pub fn give_back(&mut self, rows: Vec<u32>) {
        self.rows = rows;
    }
}

/// Units of work that a stage takes for a row, what it reads of the line left out.
const STAGE_UNITS: usize = 64;

/// Whether the row passes every stage. In a job that was stopped none does.
pub fn passes(stages: &mut [Box<dyn Stage>], row: &mut Row<'_>) -> bool {
    stages.iter_mut().all(|stage| {
        let work = STAGE_UNITS + row.line().len() + row.label_count();
        spend(work).is_ok() && stage.process(row)
    })
}

/// The rows of a run with timestamps from `first` to `last`, both included.
pub fn rows_between(page: &LogPage, run: &StreamRun, first: i64, last: i64) -> std::ops::Range<u32> {
    let times = &page.timestamps[run.start as usize..run.end as usize];
    let start = times.partition_point(|&t| t < first) as u32;
    let end = times.partition_point(|&t| t <= last) as u32;
    run.start + start..run.start + end.max(start)
}

/// Whether a row must be compared with the ones seen before.
pub fn is_suspect(run: &StreamRun, timestamp: i64) -> bool {
    run.suspect.is_some_and(|s| s.first <= timestamp && timestamp <= s.last)
}
