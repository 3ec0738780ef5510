//! Templates of `line_format` and `label_format`: Go's text/template with Loki's functions. Other programs
//! of this workspace use the language with functions of their own ([`Template::parse_with`]).
//!
//! `parse` builds a tree of the template once; `run` evaluates the tree for each row. A field that the row
//! does not have is the empty string. Output and loops are bounded: see [`run`].

mod blocks;
#[cfg(test)]
mod bounds;
mod functions;
mod parse;
mod results;
mod run;
mod tree;
mod value;
mod value_text;

pub use functions::{FUNCTIONS, Function, Host, Site, function, of_go, regex_replace, text_argument};
pub use parse::Find;
pub use results::{Results, Text, VALUE_BYTES};
pub(crate) use run::Runner;
pub use value::{Instant, Record, Value};

use std::fmt;
use std::sync::Arc;

use tree::{Blocks, Node};

/// A template.
#[derive(Clone)]
pub struct Template {
    nodes: Vec<Node>,
    blocks: Blocks,
    /// The template's name in error messages.
    name: Arc<str>,
    text: Arc<str>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

impl Template {
    /// Parses a template; errors have Go's texts.
    pub fn parse(text: &str, name: &str) -> Result<Self, String> {
        Self::parse_with(text, name, functions::find)
    }

    /// Parses a template with functions that `find` knows.
    pub fn parse_with(text: &str, name: &str, find: Find) -> Result<Self, String> {
        let (nodes, blocks) = parse::parse(text, find)
            .map_err(|error| format!("template: {name}:{}: {}", error.line, error.reason))?;
        Ok(Self { nodes, blocks, name: name.into(), text: text.into() })
    }

    /// The names of the labels that it reads; `None` if it may read any.
    pub(crate) fn fields(&self) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        self.add_fields(&mut fields).then_some(fields)
    }

    /// Whether it reads the current time.
    pub(crate) fn asks_for_time(&self) -> bool {
        std::iter::once(&self.nodes)
            .chain(self.blocks.values())
            .any(|nodes| tree::calls(nodes, functions::NOW))
    }

    /// Adds the names of the labels that it reads; returns false if it may read any.
    fn add_fields(&self, out: &mut Vec<String>) -> bool {
        // A block may get the labels as its `.`, so its fields may be labels.
        let lists = std::iter::once(&self.nodes).chain(self.blocks.values());
        let mut named = true;
        lists.for_each(|nodes| named &= tree::fields(nodes, out));
        named
    }
}
