//! What a stage is to the parser, the planner and the documentation.
//!
//! **Invariants:** the node of a stage is checked when it is parsed, so starting it cannot fail.

use std::fmt;
use std::sync::Arc;

use sandur_model::LineReducer;

use crate::error::ParseError;
use crate::line_filter::LineFilter;
use crate::names::Names;
use crate::parser::cursor::Parser;
use crate::row::Stage;

/// Properties of a stage that the planner needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// It reads the line.
    pub reads_line: bool,
    /// It may change the line.
    pub changes_line: bool,
    /// It only adds labels, so it can be dropped if no label is wanted.
    pub only_extracts: bool,
    /// It adds, changes or removes labels.
    pub changes_labels: bool,
    /// It removes labels by name, so that different series may become equal.
    pub removes_labels: bool,
    /// It reads the current time, so that the same rows may have another result later.
    pub asks_for_time: bool,
}

/// A stage in the syntax tree.
pub trait StageNode: fmt::Debug + fmt::Display + Send + Sync {
    /// The properties that the planner needs.
    fn effect(&self) -> Effect;
    /// The names of the labels that the stage reads.
    fn reads(&self) -> Vec<String> {
        Vec::new()
    }
    /// The label that the stage reads, if it is a label filter without `and` and `or`. Parsers run such a
    /// filter as soon as they have the label, so that they need not read the rest of a rejected line.
    fn filtered_label(&self) -> Option<String> {
        None
    }
    /// Reduces lines to the fields from which the stage makes these labels, if the stage is a parser that
    /// finds the same in them.
    fn reducer(&self, _wanted: &[String]) -> Option<Arc<dyn LineReducer>> {
        None
    }
    /// The bytes of its compiled expressions, without its text.
    fn memory_bytes(&self) -> u64 {
        0
    }
    /// Creates the running stage of one worker.
    fn start(&self, names: &mut Names) -> Box<dyn Stage>;
    /// The line filter, if the stage is one; it can search complete pages.
    fn line_filter(&self) -> Option<&LineFilter> {
        None
    }
}

/// An entry in the table of stages.
pub struct StageSpec {
    /// The keyword.
    pub name: &'static str,
    /// The syntax, for the reference page.
    pub syntax: &'static str,
    /// What it does, for the reference page.
    pub doc: &'static str,
    /// Examples over the labels `n` and `m`. If the stage takes a list, the last argument may be repeated
    /// after a comma.
    pub examples: &'static [&'static str],
    /// Parses the text after the keyword.
    pub parse: fn(&mut Parser) -> Result<Arc<dyn StageNode>, ParseError>,
}

/// Loki's error for a mistake inside a stage: `stage '...' : reason`.
pub fn stage_error(stage: &dyn fmt::Display, reason: impl fmt::Display) -> ParseError {
    ParseError::whole(format!("stage '{stage}' : {reason}"))
}
