//! Targets as trees.
//!
//! The grammar is Graphite's, with its ways: a reader takes the first alternative that fits and never comes
//! back to it, and what follows a target is ignored. Pipes are calls: `a|f(b)` is `f(a,b)`.

mod parser;

use sandur_base::nesting::{Extent, Nested, Node};

use crate::number::Number;

pub(crate) use parser::TARGET_BYTES_MAX;
pub use parser::parse;

/// A target, or a part of one.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A number.
    Number(Number),
    /// A text without its quotes.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// `None`.
    None,
    /// A pattern of paths, without backslashes before special signs.
    Path(String),
    /// A function call.
    Call(Call),
    /// `template(..)`.
    Template(Template),
}

/// A function call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub name: String,
    /// Arguments by place.
    pub arguments: Vec<Nested<Expr>>,
    /// Arguments by name.
    pub named: Vec<(String, Nested<Expr>)>,
    /// The call as it was written.
    pub raw: String,
}

/// A target with places for values.
#[derive(Clone, Debug)]
pub struct Template {
    /// The target.
    pub body: Nested<Expr>,
    /// Values by name; those without are numbered from 1.
    pub values: Vec<(String, TemplateValue)>,
}

/// A value of a template.
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
    /// The first path of a name that looks like a target: of calls that of their first argument.
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
