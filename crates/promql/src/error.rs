//! A query that cannot be read.

use crate::span::{Place, Span};

/// What is wrong with the text of a query, in Prometheus's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: parse error: {what}")]
pub struct ParseError {
    /// Where.
    pub place: Place,
    /// The bytes that are meant.
    pub span: Span,
    /// What is wrong.
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
