//! Stages of a pipeline. One file per stage; [`STAGES`] is the table that the parser and the documentation
//! are made from.
//!
//! A [`StageNode`] is the stage in the syntax tree: it was checked when it was parsed, so making it run
//! cannot fail. Each worker has its own [`Stage`]s, so a stage may keep buffers.

#[cfg(test)]
mod bounds;
mod decolorize;
mod drop_keep;
pub(crate) mod ip;
mod json;
mod json_expressions;
pub(crate) mod json_scan;
pub(crate) mod keys;
pub mod label_filter;
mod label_format;
mod line_filter;
mod line_format;
mod logfmt;
pub(crate) mod logfmt_scan;
mod pattern;
pub(crate) mod pattern_text;
mod regexp;
mod unpack;

use std::fmt;
use std::sync::Arc;

use crate::error::ParseError;
use crate::lexer::Kind;
use crate::names::Names;
use crate::parser::Parser;
use crate::row::Row;

pub use json::JSON_ERROR;
pub use label_filter::parse_piped as parse_label_filter;
pub use line_filter::{LINE_FILTERS, LineFilter, LineTest};
pub use logfmt::LOGFMT_ERROR;

/// What the planner must know of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Looks at the line.
    pub reads_line: bool,
    /// May change the line.
    pub changes_line: bool,
    /// Does nothing but make labels: of no use when no label is wanted.
    pub only_extracts: bool,
    /// Makes, changes or removes labels.
    pub changes_labels: bool,
    /// Removes labels by their names, so that what told series apart may be gone.
    pub removes_labels: bool,
    /// Looks at the time of day, so that the same rows may give another answer later.
    pub asks_for_time: bool,
}

/// A stage in the syntax tree.
pub trait StageNode: fmt::Debug + fmt::Display + Send + Sync {
    /// What the planner must know.
    fn effect(&self) -> Effect;
    /// Names of the labels that the stage looks at.
    fn reads(&self) -> Vec<String> {
        Vec::new()
    }
    /// The one label that the stage reads, when it is a filter of labels without `and` and `or`. Parsers run
    /// such filters as soon as they have the label, so that the rest of a line need not be read.
    fn filtered_label(&self) -> Option<String> {
        None
    }
    /// Bytes that its compiled expressions take beside its text.
    fn memory_bytes(&self) -> u64 {
        0
    }
    /// The running stage of one worker.
    fn start(&self, names: &mut Names) -> Box<dyn Stage>;
    /// The line filter, when the stage is one: it can search whole pages.
    fn line_filter(&self) -> Option<&LineFilter> {
        None
    }
}

/// A running stage.
pub trait Stage: Send {
    /// Works on a row; false drops it.
    fn process(&mut self, row: &mut Row<'_>) -> bool;
}

/// One line of the table of stages.
pub struct StageSpec {
    /// The keyword.
    pub name: &'static str,
    /// How it is written.
    pub syntax: &'static str,
    /// What it does, for the documentation.
    pub doc: &'static str,
    /// Ways to write it over the labels `n` and `m`; what it takes last may follow again behind a comma,
    /// where it takes a list.
    pub examples: &'static [&'static str],
    /// Reads what follows the keyword.
    pub parse: fn(&mut Parser) -> Result<Arc<dyn StageNode>, ParseError>,
}

/// Stages that a keyword begins. Line filters and label filters have none.
pub const STAGES: &[StageSpec] = &[
    json::SPEC,
    logfmt::SPEC,
    regexp::SPEC,
    pattern::SPEC,
    unpack::SPEC,
    line_format::SPEC,
    label_format::SPEC,
    decolorize::SPEC,
    drop_keep::DROP,
    drop_keep::KEEP,
];

/// Reads a stage, its `|` included.
pub fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    if !parser.is_word("|") {
        return line_filter::parse(parser);
    }
    if let Kind::Word(word) = parser.peek_second().kind
        && let Some(spec) = STAGES.iter().find(|spec| spec.name == word)
    {
        parser.take();
        parser.take();
        return (spec.parse)(parser);
    }
    label_filter::parse_piped(parser)
}

/// `stage '...' : reason`, as Loki words what is wrong inside a stage.
pub fn stage_error(stage: &dyn fmt::Display, reason: impl fmt::Display) -> ParseError {
    ParseError::whole(format!("stage '{stage}' : {reason}"))
}

#[cfg(test)]
pub(crate) mod testing {
    //! Runs stages over one line.

    use sandur_model::{Labels, LogPage};

    use crate::row::{Origin, Row, RunLabels, Scratch, Wanted, WantedNames, seed_names};

    /// What a pipeline makes of a line.
    #[derive(Debug, PartialEq)]
    pub struct Out {
        pub line: String,
        /// Labels that stages made, sorted, and the error.
        pub parsed: Vec<(String, String)>,
        /// Labels of the stream that are left.
        pub stream: Vec<(String, String)>,
        /// How a stage failed.
        pub details: String,
    }

    /// Runs `{stream} stages` over a line; `None` when it is dropped.
    pub fn run(query: &str, line: &str) -> Option<Out> {
        run_wanting(query, line, None)
    }

    /// How many of so many rows with this line pass; none in a job that ends while the query is read.
    pub fn run_many(query: &str, line: &str, rows: usize) -> usize {
        let log = match crate::parser::parse_log(query) {
            Err(_) if sandur_base::job::is_stopped() => return 0,
            log => log.unwrap_or_else(|e| panic!("{query}: {e}")),
        };
        let stream = Labels::from_pairs(log.matchers.iter().map(|m| (m.name(), m.value())));
        let page = LogPage { timestamps: vec![1_700_000_000_000_000_000], ..LogPage::default() };
        let mut names = seed_names();
        let mut stages: Vec<_> = log.stages.iter().map(|s| s.start(&mut names)).collect();
        let mut scratch = Scratch::new(names);
        let base = RunLabels::new(&page, &stream, &mut scratch.names);
        let mut row = Row::new(&page, &base, &Wanted::All, &mut scratch);
        let pass = |_: &usize| {
            row.load(0, line.as_bytes());
            crate::pipeline::passes(&mut stages, &mut row)
        };
        (0..rows).filter(pass).count()
    }

    pub fn run_wanting(query: &str, line: &str, wanted: Option<&[&str]>) -> Option<Out> {
        let log = crate::parser::parse_log(query).unwrap_or_else(|e| panic!("{query}: {e}"));
        let stream = Labels::from_pairs(log.matchers.iter().map(|m| (m.name(), m.value())));
        let page = LogPage { timestamps: vec![1_700_000_000_000_000_000], ..LogPage::default() };
        let mut names = seed_names();
        let wanted = match wanted {
            None => Wanted::All,
            Some(list) => {
                let ids = list.iter().map(|n| names.id(n)).collect();
                Wanted::Only(WantedNames::new(ids, &names))
            }
        };
        let mut stages: Vec<_> = log.stages.iter().map(|s| s.start(&mut names)).collect();
        let mut scratch = Scratch::new(names);
        let base = RunLabels::new(&page, &stream, &mut scratch.names);
        let mut row = Row::new(&page, &base, &wanted, &mut scratch);
        row.load(0, line.as_bytes());
        if !stages.iter_mut().all(|stage| stage.process(&mut row)) {
            return None;
        }
        let (mut parsed, mut left) = (Vec::new(), Vec::new());
        row.for_each_label(|origin, name, value| {
            let pair = (row.scratch.names.name(name).to_string(), value.to_owned());
            if origin == Origin::Parsed { parsed.push(pair) } else { left.push(pair) }
        });
        if let Some(error) = row.error() {
            parsed.push(("__error__".to_owned(), error.to_owned()));
        }
        parsed.sort();
        let line = String::from_utf8_lossy(row.line()).into_owned();
        Some(Out { line, parsed, stream: left, details: row.error_details().to_owned() })
    }

    /// The labels that stages made, as `name=value` separated by spaces.
    pub fn labels(query: &str, line: &str) -> String {
        let out = run(query, line).unwrap_or_else(|| panic!("{query} dropped {line}"));
        out.parsed.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ")
    }
}
