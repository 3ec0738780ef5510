//! Reads rows of one stream in a page: the group of each row of a range aggregation, and its value.
//!
//! **Invariants.** If the stages read only the line and the labels of the stream, rows of a run with equal
//! lines contribute the same. Then the contributions of recent lines are kept, and an equal line is not
//! parsed again.

use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

use foldhash::fast::FixedState;
use sandur_memory::Reservation;
use sandur_model::go_text::{labels_text, parse_bytes, parse_float, parse_go_duration};
use sandur_model::{Level, LineColumn, LogPage, StreamRun};
use sandur_query::{Error, SeenRows};

use crate::ast::Conversion;
use crate::groups::{GroupSource, Groups, KeepIds};
use crate::log_scan::row_hash;
use crate::names::NameId;
use crate::pipeline::{is_suspect, passes};
use crate::range::RowValue;
use crate::row::{ERROR, ERROR_DETAILS, Place, Row, RunLabels, Stage, Wanted};
use crate::stage::json_value::JSON_ERROR;
use crate::stage::logfmt::LOGFMT_ERROR;

/// The `__error__` of a value that cannot be unwrapped.
const UNWRAP_ERROR: &str = "SampleExtractionErr";

/// What a row contributes to a range aggregation.
#[derive(Clone, Copy)]
pub enum Contribution {
    /// Nothing: a stage dropped it.
    None,
    /// Nothing: it was stored twice, and counted before.
    Duplicate,
    /// A value to a group.
    Counts {
        /// The number of the group.
        group: u32,
        /// The value.
        value: f64,
    },
}

/// The unwrapped label, and the filters after it.
pub struct RunningUnwrap {
    /// The label.
    pub label: NameId,
    /// The conversion of its text.
    pub conversion: Conversion,
    /// The filters after it.
    pub filters: Vec<Box<dyn Stage>>,
}

/// The errors of rows with which a query fails.
#[derive(Clone, Copy)]
pub struct FatalErrors {
    /// Whether a label `__error__` that a parser found in the line counts, because it would be a label of
    /// the series.
    pub in_labels: bool,
    /// Whether errors of parsers count. They do not if the query reads the errors.
    pub of_parsers: bool,
}

impl FatalErrors {
    /// Whether the row has such an error.
    pub fn has(self, row: &Row<'_>) -> bool {
        let of_parser = |error: &str| error == JSON_ERROR || error == LOGFMT_ERROR;
        let error = if self.in_labels { row.error_or_label() } else { row.error() };
        error.is_some_and(|error| self.of_parsers || !of_parser(error))
    }
}

/// Reads the rows of a run.
pub struct RowReader<'a> {
    /// What a row contributes, if no label is unwrapped.
    pub value: RowValue,
    /// The errors with which the query fails.
    pub fatal: FatalErrors,
    /// The page, and its lines if they are read.
    pub page: (&'a LogPage, Option<&'a LineColumn>),
    /// The run.
    pub run: &'a StreamRun,
    /// The current row.
    pub row: Row<'a>,
    /// The stages after the line filters.
    pub stages: &'a mut [Box<dyn Stage>],
    /// The unwrapped label.
    pub unwrap: Option<&'a mut RunningUnwrap>,
    /// The groups, the labels that distinguish them, and what determines them within the run.
    pub groups: (&'a mut Groups, &'a KeepIds, GroupSource),
    /// The group by the number of the level; the first entry is used if there is one group for the run.
    pub of_levels: [Option<u32>; Level::EVERY.len()],
}

impl RowReader<'_> {
    /// What a row contributes. `seen` are the rows so far that may be stored twice.
    pub fn contribution(
        &mut self,
        index: u32,
        seen: &Mutex<SeenRows>,
        memory: &mut Reservation,
    ) -> Result<Contribution, Error> {
        let (page, lines) = self.page;
        let index = index as usize;
        self.row.load(index, lines.map_or(&[] as &[u8], |lines| lines.line(index)));
        if !passes(self.stages, &mut self.row) {
            return Ok(Contribution::None);
        }
        let Some(value) = self.value() else { return Ok(Contribution::None) };
        if let Some(lines) = lines
            && is_suspect(self.run, page.timestamps[index])
        {
            let hash = row_hash(page, lines, self.run.labels.stream_id(), index);
            if !seen.lock().unwrap_or_else(PoisonError::into_inner).insert(hash)? {
                return Ok(Contribution::Duplicate);
            }
        }
        if self.fatal.has(&self.row) {
            return Err(pipeline_error(&self.row));
        }
        let (groups, keep, source) = &mut self.groups;
        let level = match source {
            GroupSource::Run => 0,
            GroupSource::Level | GroupSource::Row => page.level(index) as usize,
        };
        let group = match self.of_levels[level] {
            Some(group) if *source != GroupSource::Row => group,
            _ => *self.of_levels[level].insert(groups.find(&self.row, keep, memory)?),
        };
        Ok(Contribution::Counts { group, value })
    }

    /// The number that the row contributes; `None` drops the row.
    fn value(&mut self) -> Option<f64> {
        match (&mut self.unwrap, self.value) {
            (Some(unwrap), _) => unwrapped(&mut self.row, unwrap),
            (None, RowValue::One) => Some(1.0),
            (None, RowValue::Bytes) => Some(self.row.line().len() as f64),
        }
    }
}

/// The lines whose contributions are kept; a power of two.
const KNOWN_LINES: usize = 256;

/// The contributions of recent lines of a run.
#[derive(Default)]
pub struct KnownLines {
    entries: Vec<KnownLine>,
    /// The number of the current run.
    run: u32,
}

#[derive(Clone, Copy)]
struct KnownLine {
    run: u32,
    row: u32,
    contribution: Contribution,
}

impl KnownLines {
    /// Forgets the lines of earlier runs.
    pub fn of_run(&mut self) -> &mut Self {
        if self.entries.is_empty() || self.run == u32::MAX {
            self.run = 0;
            self.entries.clear();
            self.entries.resize(KNOWN_LINES, KnownLine { run: 0, row: 0, contribution: Contribution::None });
        }
        self.run += 1;
        self
    }

    /// The contribution of a row, whose line may be equal to a recent one. Otherwise `read` returns it.
    pub fn of_line(
        &mut self,
        lines: &LineColumn,
        row: u32,
        read: impl FnOnce() -> Result<Contribution, Error>,
    ) -> Result<Contribution, Error> {
        let line = lines.line(row as usize);
        let entry = &mut self.entries[FixedState::default().hash_one(line) as usize % KNOWN_LINES];
        if entry.run != self.run || lines.line(entry.row as usize) != line {
            *entry = KnownLine { run: self.run, row, contribution: read()? };
        }
        Ok(entry.contribution)
    }
}

/// Whether the labels that a query reads are those of the stream and of the line, in this run.
pub fn is_of_lines(base: &RunLabels<'_>, wanted: &Wanted) -> bool {
    let is_of_line = |name: &NameId| matches!(base.place_of(*name), Place::Stream | Place::Nowhere);
    matches!(wanted, Wanted::Only(names) if names.ids().iter().all(is_of_line))
}

/// The number in a row's label; `None` drops the row.
fn unwrapped(row: &mut Row<'_>, unwrap: &mut RunningUnwrap) -> Option<f64> {
    let text = row.get(unwrap.label).filter(|t| !t.is_empty())?;
    let number = match unwrap.conversion {
        Conversion::Float => parse_float(text),
        Conversion::Duration | Conversion::DurationSeconds => {
            parse_go_duration(text).map(|ns| ns as f64 / 1e9)
        }
        Conversion::Bytes => parse_bytes(text).map(|bytes| bytes as f64),
    };
    let value = number.unwrap_or_else(|reason| {
        row.fail(UNWRAP_ERROR, reason);
        0.0
    });
    passes(&mut unwrap.filters, row).then_some(value)
}

/// The error of a row that makes the query fail.
pub fn pipeline_error(row: &Row<'_>) -> Error {
    let mut pairs = Vec::new();
    row.for_each_label(|_, name, value| {
        pairs.push((row.scratch.names.name(name).to_string(), value.to_owned()))
    });
    let error = row.error_or_label().unwrap_or_default();
    pairs.retain(|(name, _)| name != ERROR);
    pairs.push((ERROR.to_owned(), error.to_owned()));
    let has_details = pairs.iter().any(|(name, _)| name == ERROR_DETAILS);
    if !row.error_details().is_empty() && !has_details {
        pairs.push((ERROR_DETAILS.to_owned(), row.error_details().to_owned()));
    }
    pairs.sort();
    let labels = labels_text(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Error::Invalid(format!(
        "pipeline error: '{error}' for series: '{labels}'.\n\
         Use a label filter to intentionally skip this error. (e.g | __error__!=\"{error}\").\n\
         To skip all potential errors you can match empty errors.(e.g __error__=\"\")\n\
         The label filter can also be specified after unwrap. (e.g | unwrap latency | __error__=\"\" )\n",
    ))
}
