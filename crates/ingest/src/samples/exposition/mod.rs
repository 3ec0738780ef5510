//! Prometheus's text format and OpenMetrics: what scrapes read, and what is posted by hand.
//!
//! [`ExpositionReader`] reads one line after the other and keeps nothing; [`import`] makes a batch of a
//! request.

mod import;
mod number;
mod reader;
mod series_text;

pub use import::{ImportOptions, import};
pub use reader::{
    ExpositionError, ExpositionFormat, ExpositionLine, ExpositionReader, ExpositionSample, LineExemplar,
};
pub use series_text::series_pairs;
