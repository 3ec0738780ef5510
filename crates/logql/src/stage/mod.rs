//! The stages of a pipeline, one file per stage. The parser and the documentation are made from the table
//! [`STAGES`].
//!
//! A [`StageNode`] is the stage in the syntax tree. Each worker starts its own [`crate::row::Stage`]s, so a
//! stage may keep buffers.

#[cfg(test)]
mod bounds;
mod decolorize;
mod drop_keep;
mod json;
mod json_expressions;
mod json_reduce;
pub(crate) mod json_scan;
pub(crate) mod json_value;
pub(crate) mod keys;
pub mod label_filter;
mod label_format;
pub(crate) mod line_filter;
mod line_format;
pub(crate) mod logfmt;
mod logfmt_reduce;
pub(crate) mod logfmt_scan;
pub(crate) mod node;
mod pattern;
mod reduce;
mod regexp;
mod unpack;

use std::sync::Arc;

use crate::error::ParseError;
use crate::lexer::Kind;
use crate::parser::cursor::Parser;
use node::{StageNode, StageSpec};

/// The stages that begin with a keyword. Line filters and label filters do not.
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

/// Parses a stage, including its `|`.
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

#[cfg(test)]
pub(crate) mod testing {
    //! Runs stages over one line.

    use sandur_model::{Labels, LogPage};

    use crate::row::{Origin, Row, RunLabels, Scratch, Wanted, WantedNames, seed_names};

    /// The result of a pipeline for a line.
    #[derive(Debug, PartialEq)]
    pub struct Out {
        pub line: String,
        /// The labels that stages set, sorted, including the error.
        pub parsed: Vec<(String, String)>,
        /// The labels of the stream that are left.
        pub stream: Vec<(String, String)>,
        /// The details of the error.
        pub details: String,
    }

    /// Runs `{stream} stages` over a line; `None` if it is dropped.
    pub fn run(query: &str, line: &str) -> Option<Out> {
        run_wanting(query, line, None)
    }

    /// Counts how many of `rows` rows with this line pass; 0 if the job ends while the query is parsed.
    pub fn run_many(query: &str, line: &str, rows: usize) -> usize {
        let log = match crate::parser::parse_log(query) {
            Err(_) if sandur_memory::job::is_stopped() => return 0,
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

    /// The labels that stages set, as `name=value` separated by spaces.
    pub fn labels(query: &str, line: &str) -> String {
        let out = run(query, line).unwrap_or_else(|| panic!("{query} dropped {line}"));
        out.parsed.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ")
    }
}
