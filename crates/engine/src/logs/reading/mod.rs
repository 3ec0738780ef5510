//! Queries of logs over blocks and heads.

mod masked_follow;
pub(crate) mod scan;
mod series_index;

pub(crate) use scan::EngineLogs;
