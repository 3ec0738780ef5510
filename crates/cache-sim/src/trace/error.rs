//! Errors of reading a trace.

/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;

/// A trace that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Reading the file or pipe failed.
    #[error("cannot read the trace: {0}")]
    Read(std::io::Error),
    /// The binary trace ends within a record.
    #[error(
        "the trace ends within record {record} of {RECORD_BYTES} bytes: is it complete, and oracleGeneral?"
    )]
    CutOff {
        /// Position of the record, from 0.
        record: u64,
    },
    /// A line of a text trace is invalid.
    #[error("line {line} of the trace: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
}

impl From<std::io::Error> for TraceError {
    fn from(error: std::io::Error) -> Self {
        Self::Read(error)
    }
}
