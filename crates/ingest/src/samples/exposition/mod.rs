//! Prometheus's text format and OpenMetrics, as read by scrapes and by imports.
//!
//! [`ExpositionReader`] reads one line at a time and keeps nothing; [`import`] converts a request to a
//! batch.

mod import;
mod number;
mod reader;
mod series_text;

pub use import::{ImportOptions, import};
pub use reader::{
    ExpositionError, ExpositionFormat, ExpositionLine, ExpositionReader, ExpositionSample, LineExemplar,
};
pub use series_text::series_pairs;
