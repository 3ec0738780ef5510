//! Parses targets to trees.
//!
//! The grammar is Graphite's, including its behaviour: the parser takes the first alternative that matches
//! and never backtracks to another one, and text after a target is ignored. Pipes are calls: `a|f(b)` is
//! `f(a,b)`.

mod parser;

use sandur_base::nesting::{Extent, Nested, Node};

use crate::number::Number;

pub(crate) use parser::TARGET_BYTES_MAX;
pub use parser::parse;
pub(crate) use parser::parse_whole;

/// An expression of a target.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number.
    Number(Number),
    /// A text, without its quotes.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// `None`.
    None,
    /// A pattern of paths, without backslashes before special characters.
    Path(String),
    /// A function call.
    Call(Call),
    /// `template(..)`.
    Template(Template),
}

/// A function call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function name.
    pub name: String,
    /// Positional arguments.
    pub arguments: Vec<Nested<Expr>>,
    /// Named arguments.
    pub named: Vec<(String, Nested<Expr>)>,
    /// The text of the call.
    pub raw: String,
}

/// A target with placeholders for values.
#[derive(Clone, Debug)]
pub struct Template {
    /// The target.
    pub body: Nested<Expr>,
    /// Values by name; values without a name are numbered from 1.
    pub values: Vec<(String, TemplateValue)>,
}

/// The value of a placeholder.
#[derive(Clone, Debug)]
pub enum TemplateValue {
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
}

impl Node for Expr {
    fn children(&self) -> impl Iterator<Item = Extent> {
        let (arguments, named, body) = match self {
            Self::Call(call) => (call.arguments.as_slice(), call.named.as_slice(), None),
            Self::Template(template) => (Default::default(), Default::default(), Some(&template.body)),
            _ => (Default::default(), Default::default(), None),
        };
        arguments.iter().chain(named.iter().map(|(_, value)| value)).chain(body).map(Nested::extent)
    }
}

impl Expr {
    /// The first path in a name that looks like a target: of a call, that of its first argument.
    pub(crate) fn first_path(&self) -> Option<&str> {
        let mut expr = self;
        loop {
            match expr {
                Self::Path(path) => return Some(path),
                Self::Call(call) => expr = call.arguments.first()?,
                _ => return None,
            }
        }
    }
}
