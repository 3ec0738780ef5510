//! Prepares a log expression to run: moves line filters to the front, drops stages without effect, and
//! determines what it needs of a page.

use std::ops::Range;
use std::sync::Arc;

use sandur_memory::job::spend;
use sandur_model::{LineColumn, LineReducer, LogPage, Matcher, StreamRun};
use sandur_query::{Error, Needles, PageTask};

use crate::ast::LogExpr;
use crate::line_filter::LineFilter;
use crate::names::{NameId, Names};
use crate::needles;
use crate::page_filter::PageFilter;
use crate::row::{ERROR, ERROR_DETAILS, Row, Scratch, Stage, Wanted, WantedNames, seed_names};
use crate::stage::node::{Effect, StageNode};

/// The filters and stages that a query applies to the rows of its selector.
#[derive(Clone)]
pub struct Pipeline {
    /// The matchers of the stream selector.
    pub matchers: Vec<Matcher>,
    /// Filters of the original line; a row must pass all of them.
    pub filters: Vec<LineFilter>,
    /// The other stages, in order.
    pub stages: Vec<Arc<dyn StageNode>>,
    /// The labels that the query reads; `None` is all.
    pub wanted: Option<Vec<String>>,
    /// The start time of the query, in nanoseconds since the epoch. `None`: templates use each row's own
    /// time.
    pub now_ns: Option<i64>,
    /// Whether label filters run as soon as a parser has extracted their label.
    early_filters: bool,
}

impl Pipeline {
    /// The pipeline of a log expression. `wanted` are the labels that the rest of the query reads.
    pub fn new(log: &LogExpr, wanted: Option<Vec<String>>) -> Self {
        let (mut filters, mut stages) = (Vec::new(), Vec::new());
        let mut line_changed = false;
        let nothing_wanted = wanted.as_ref().is_some_and(Vec::is_empty);
        for stage in &log.stages {
            match stage.line_filter() {
                Some(filter) if filter.passes_all() => {}
                // Line filters only drop rows, so they may run before other stages.
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

    /// Sets the start time of the query.
    pub fn begun_at(mut self, now_ns: i64) -> Self {
        self.now_ns = Some(now_ns);
        self
    }

    /// Keeps all label filters at their places.
    pub fn without_early_filters(mut self) -> Self {
        self.early_filters = false;
        self
    }

    /// The label filters that parsers run: the first one of each label.
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

    /// Whether lines are needed to decide which rows pass.
    pub fn reads_lines(&self) -> bool {
        !self.filters.is_empty() || self.stages_read_lines()
    }

    /// Whether stages need the lines of rows that passed the line filters.
    pub fn stages_read_lines(&self) -> bool {
        self.stages.iter().any(|s| s.effect().reads_line)
    }

    /// The names of labels that stages read, except the error labels.
    pub fn labels_read(&self) -> Vec<String> {
        let mut names: Vec<String> = self.stages.iter().flat_map(|s| s.reads()).collect();
        names.retain(|name| name != ERROR && name != ERROR_DETAILS);
        names
    }

    /// Reduces lines to the fields that the stages read, if no other part of the line matters to them.
    pub fn reducer(&self) -> Option<Arc<dyn LineReducer>> {
        let wanted = self.wanted.as_ref()?;
        if self.stages.iter().any(|stage| stage.effect().changes_line) {
            return None;
        }
        let mut readers = self.stages.iter().filter(|stage| stage.effect().reads_line);
        match (readers.next(), readers.next()) {
            (Some(parser), None) => parser.reducer(wanted),
            _ => None,
        }
    }

    /// Whether all stages are parsers that only extract labels, and label filters.
    pub fn parses_and_filters(&self) -> bool {
        let mut effects = self.stages.iter().map(|stage| stage.effect());
        effects.all(|effect| effect.only_extracts || effect == Effect::default())
    }

    /// The needles that every passing line contains.
    pub fn needles(&self) -> Needles {
        needles::required(self.filters.iter())
    }

    /// Creates a worker.
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

/// Drops stages that only change a line that is never read. They cannot fail then.
pub fn without_unread_lines(log: &LogExpr, mut is_read: bool) -> LogExpr {
    let mut stages = Vec::with_capacity(log.stages.len());
    for stage in log.stages.iter().rev() {
        let effect = stage.effect();
        if is_read || !effect.changes_line || effect.changes_labels {
            is_read |= effect.reads_line;
            stages.push(Arc::clone(stage));
        }
    }
    stages.reverse();
    LogExpr { matchers: log.matchers.clone(), stages }
}

/// A wanted `x_extracted` also needs the key `x`: each row decides whether the name `x` is taken.
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

/// The rows of a page that passed the line filters.
pub struct Chosen {
    /// For each row of the page, whether it passed.
    pub rows: Vec<bool>,
    /// The lines of at least these rows, if they had to be assembled.
    pub lines: Option<LineColumn>,
    /// Whether the lines are reduced to what the stages read.
    pub are_reduced: bool,
}

/// The stages and buffers of one worker.
pub struct Worker {
    filter: PageFilter,
    filters: Vec<LineFilter>,
    /// The stages after the line filters.
    pub stages: Vec<Box<dyn Stage>>,
    /// The labels that the query reads.
    pub wanted: Wanted,
    /// The buffers.
    pub scratch: Scratch,
    rows: Vec<u32>,
}

impl Worker {
    /// Whether there are line filters.
    pub fn filters_lines(&self) -> bool {
        !self.filter.is_empty()
    }

    /// Marks the rows of the ranges that pass the line filters. If the page can decide without lines, none
    /// are assembled, or only those that a filter has to read.
    pub fn choose(
        &mut self,
        task: &mut dyn PageTask,
        page: &LogPage,
        ranges: &[Range<u32>],
    ) -> Result<Chosen, Error> {
        let mut rows = vec![false; page.timestamps.len()];
        ranges.iter().for_each(|range| rows[range.start as usize..range.end as usize].fill(true));
        if self.filter.is_empty() || ranges.iter().all(Range::is_empty) {
            return Ok(Chosen { rows, lines: None, are_reduced: false });
        }
        let mut decided = vec![false; self.filters.len()];
        for (decided, filter) in decided.iter_mut().zip(&self.filters) {
            let Some(automaton) = filter.automaton() else { continue };
            *decided = task.retain(automaton, filter.negated, &mut rows)?;
            if !*decided {
                break;
            }
        }
        if !decided.contains(&true) {
            return self.choose_by_lines(task, ranges, rows);
        }
        let rest: Vec<&LineFilter> = self
            .filters
            .iter()
            .zip(&decided)
            .filter(|(_, decided)| !**decided)
            .map(|(filter, _)| filter)
            .collect();
        if rest.is_empty() || !rows.contains(&true) {
            return Ok(Chosen { rows, lines: None, are_reduced: false });
        }
        let lines = task.lines_of(&rows)?;
        for (row, chosen) in rows.iter_mut().enumerate().filter(|(_, chosen)| **chosen) {
            let line = lines.line(row);
            *chosen = rest.iter().all(|filter| filter.passes(line));
        }
        Ok(Chosen { rows, lines: Some(lines), are_reduced: false })
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
        Ok(Chosen { rows, lines: Some(lines), are_reduced: false })
    }

    /// The rows of the range that pass the line filters. The buffer is returned with [`Self::give_back`].
    pub fn select(&mut self, lines: Option<&LineColumn>, rows: Range<u32>) -> Vec<u32> {
        let mut selected = std::mem::take(&mut self.rows);
        selected.clear();
        match lines {
            Some(lines) if !self.filter.is_empty() => self.filter.select(lines, rows, &mut selected),
            _ => selected.extend(rows),
        }
        selected
    }

    /// The chosen rows of a range. The buffer is returned with [`Self::give_back`].
    pub fn chosen(&mut self, chosen: &Chosen, rows: Range<u32>) -> Vec<u32> {
        let mut selected = std::mem::take(&mut self.rows);
        selected.clear();
        selected.extend(rows.filter(|&row| chosen.rows[row as usize]));
        selected
    }

    /// Returns a buffer for the next call.
    pub fn give_back(&mut self, rows: Vec<u32>) {
        self.rows = rows;
    }
}

/// The work of a stage for a row, without reading the line.
const STAGE_UNITS: usize = 64;

/// Whether the row passes every stage. In a cancelled job, no row does.
pub fn passes(stages: &mut [Box<dyn Stage>], row: &mut Row<'_>) -> bool {
    stages.iter_mut().all(|stage| {
        let work = STAGE_UNITS + row.line().len() + row.label_count();
        spend(work).is_ok() && stage.process(row)
    })
}

/// The rows of a run with timestamps from `first` to `last`, both inclusive.
pub fn rows_between(page: &LogPage, run: &StreamRun, first: i64, last: i64) -> std::ops::Range<u32> {
    let times = &page.timestamps[run.start as usize..run.end as usize];
    let start = times.partition_point(|&t| t < first) as u32;
    let end = times.partition_point(|&t| t <= last) as u32;
    run.start + start..run.start + end.max(start)
}

/// Whether the row may be stored twice and must be compared with the rows seen before.
pub fn is_suspect(run: &StreamRun, timestamp: i64) -> bool {
    run.suspect.is_some_and(|s| s.first <= timestamp && timestamp <= s.last)
}
