//! An error in a configuration file, with its line.

/// An error in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub what: String,
}

impl ConfigError {
    /// An error at a line.
    pub fn at(line: usize, what: String) -> Self {
        Self { line, what }
    }
}
