//! The error of a query that cannot be parsed.

use crate::span::{Place, Span};

/// A syntax or type error of a query, in Prometheus's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: parse error: {what}")]
pub struct ParseError {
    /// The line and column of the error.
    pub place: Place,
    /// The bytes of the query that are wrong.
    pub span: Span,
    /// The message.
    pub what: String,
}

impl ParseError {
    pub(crate) fn new(text: &str, span: Span, what: impl Into<String>) -> Self {
        Self { place: span.place(text), span, what: what.into() }
    }
}

impl From<ParseError> for sandur_query::Error {
    fn from(error: ParseError) -> Self {
        Self::Invalid(error.to_string())
    }
}
