//! An entry in the table of template functions, and the context of a call.

use super::regexes::RegexCache;
use crate::template::results::Results;
use crate::template::value::Value;

/// The context of a function call.
pub struct Site<'a> {
    /// The row's line.
    pub line: &'a [u8],
    /// The row's timestamp, in nanoseconds since the epoch.
    pub timestamp: i64,
    /// The start time of the query, in nanoseconds since the epoch.
    pub now_ns: i64,
    /// The compiled regexes of the template.
    pub regexes: &'a RegexCache,
    /// Creates texts within their bounds.
    pub results: &'a Results,
}

/// An entry in the table of functions.
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// The least and the greatest number of arguments, including the one from the pipeline.
    pub arguments: (usize, usize),
    /// What it does, for the reference page.
    pub doc: &'static str,
    /// The implementation.
    pub call: fn(&Site<'_>, Vec<Value>) -> Result<Value, String>,
}

/// An entry with these properties.
pub const fn function(
    name: &'static str,
    arguments: (usize, usize),
    doc: &'static str,
    call: fn(&Site<'_>, Vec<Value>) -> Result<Value, String>,
) -> Function {
    Function { name, arguments, doc, call }
}
