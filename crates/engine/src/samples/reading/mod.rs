//! Queries of samples over blocks and heads: series, label values, exemplars and metadata.

mod annotations;
mod exemplars;
mod in_block;
mod metadata;
pub(crate) mod scan;
mod series_index;
mod source;
mod value_scan;

pub(crate) use source::EngineSamples;
