//! Templates of `line_format` and `label_format`: Go's text/template with the functions of Loki.
//!
//! `parse` makes a tree of it once; `run` walks the tree for a row. A field that the row does not have is
//! the empty string. Output and loops are bounded: see [`run`].

mod blocks;
#[cfg(test)]
mod bounds;
mod functions;
mod parse;
mod results;
mod run;
mod tree;
mod value;

pub use functions::FUNCTIONS;
pub use run::Runner;

use std::fmt;
use std::sync::Arc;

use tree::{Blocks, Node};

/// A template.
#[derive(Clone)]
pub struct Template {
    nodes: Vec<Node>,
    blocks: Blocks,
    /// What error messages call it, and its text.
    name: &'static str,
    text: Arc<str>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

impl Template {
    /// Reads a template; the error is worded as Go does it.
    pub fn parse(text: &str, name: &'static str) -> Result<Self, String> {
        let (nodes, blocks) = parse::parse(text)
            .map_err(|error| format!("template: {name}:{}: {}", error.line, error.reason))?;
        Ok(Self { nodes, blocks, name, text: text.into() })
    }

    /// Names of the labels that it looks at; `None` when it may look at any.
    pub fn fields(&self) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        self.add_fields(&mut fields).then_some(fields)
    }

    /// Whether it looks at the time of day.
    pub fn asks_for_time(&self) -> bool {
        std::iter::once(&self.nodes)
            .chain(self.blocks.values())
            .any(|nodes| tree::calls(nodes, functions::NOW))
    }

    /// Adds the names of the labels that it looks at; false when it may look at any.
    fn add_fields(&self, out: &mut Vec<String>) -> bool {
        // A block may get the labels as its `.`; its fields are then labels.
        let lists = std::iter::once(&self.nodes).chain(self.blocks.values());
        let mut named = true;
        lists.for_each(|nodes| named &= tree::fields(nodes, out));
        named
    }
}
