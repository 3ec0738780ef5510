//! Readers of recorded accesses.

mod csv;
mod error;
mod oracle_general;

pub use csv::Csv;
pub use error::RECORD_BYTES;
pub use error::TraceError;
pub use oracle_general::OracleGeneral;
