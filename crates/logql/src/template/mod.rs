//! Templates of `line_format` and `label_format`: Go's text/template with Loki's functions.
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
    /// The template's name in error messages.
    name: &'static str,
    text: Arc<str>,
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template")
    }
}

impl Template {
    /// Parses a template; errors have Go's texts.
    pub fn parse(text: &str, name: &'static str) -> Result<Self, String> {
        let (nodes, blocks) = parse::parse(text)
            .map_err(|error| format!("template: {name}:{}: {}", error.line, error.reason))?;
        Ok(Self { nodes, blocks, name, text: text.into() })
    }

    /// The names of the labels that it reads; `None` if it may read any.
    pub fn fields(&self) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        self.add_fields(&mut fields).then_some(fields)
    }

    /// Whether it reads the current time.
    pub fn asks_for_time(&self) -> bool {
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
