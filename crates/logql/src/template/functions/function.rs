//! An entry in the table of template functions, and the context of a call.

use super::regexes::RegexCache;
use crate::template::results::Results;
use crate::template::value::Value;

/// Answers functions whose results do not depend on their arguments alone, such as queries.
pub trait Host {
    /// Calls the function of this name.
    fn call(&self, name: &str, arguments: &[Value], results: &Results) -> Result<Value, String>;
}

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
    /// Answers functions of the program that runs the template; rows of a query have none.
    pub host: Option<&'a dyn Host>,
}

impl Site<'_> {
    /// Calls a function of the host.
    pub fn of_host(&self, name: &str, arguments: &[Value]) -> Result<Value, String> {
        match self.host {
            Some(host) => host.call(name, arguments, self.results),
            None => Err(format!("{name} is not available here")),
        }
    }

    /// Whether the regex matches a part of the text.
    pub fn matches(&self, pattern: &str, text: &str) -> Result<bool, String> {
        self.regexes.get(pattern)?.is_match(text.as_bytes()).map_err(|stopped| stopped.to_string())
    }
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
