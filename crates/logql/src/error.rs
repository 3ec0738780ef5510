//! Errors of query texts, with Loki's messages, which Grafana shows to users unchanged.

use std::fmt;

/// The query is not valid LogQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The message.
    pub message: String,
    /// The one-based line; 0 if the error is about a complete expression.
    pub line: usize,
    /// The one-based column; 0 if the error is about a complete expression.
    pub column: usize,
}

impl ParseError {
    /// An error at a place of the text.
    pub fn at(line: usize, column: usize, message: impl Into<String>) -> Self {
        Self { message: message.into(), line, column }
    }

    /// An error about a complete expression.
    pub fn whole(message: impl Into<String>) -> Self {
        Self::at(0, 0, message)
    }

    /// Always [`sandur_base::ErrorKind::Invalid`].
    pub fn kind(&self) -> sandur_base::ErrorKind {
        sandur_base::ErrorKind::Invalid
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 && self.column == 0 {
            return write!(f, "parse error : {}", self.message);
        }
        write!(f, "parse error at line {}, col {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

impl From<ParseError> for sandur_query::Error {
    fn from(error: ParseError) -> Self {
        Self::Invalid(error.to_string())
    }
}
