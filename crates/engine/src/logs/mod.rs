//! The logs-specific part of the engine: the head of entries, and how log blocks are written, merged and
//! read.
//!
//! The shared part (WAL, views, flush, compaction, delete requests) does not depend on lines.

mod assembly;
pub(crate) mod block;
mod common_rows;
mod expired;
pub(crate) mod flush_plan;
pub mod head;
mod mask;
mod merge;
mod merge_filters;
mod merging;
mod pages;
pub(crate) mod reading;
mod suspects;
mod tail;
mod touched;

pub(crate) use merging::LogMerging;
pub(crate) use tail::Followers;
