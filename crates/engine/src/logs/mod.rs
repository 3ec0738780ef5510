//! What is of logs alone: their head, how a flush and a merge make their blocks, how these are read.
//!
//! The frame around it (WAL, views, flush, compaction, delete requests) is shared with samples and knows
//! nothing of lines.

mod assembly;
pub(crate) mod block;
mod expired;
pub(crate) mod flush_plan;
pub mod head;
mod mask;
mod merge;
mod merging;
mod pages;
mod scan;
mod series_index;
mod suspects;
mod tail;
mod touched;

pub(crate) use merging::LogMerging;
pub(crate) use scan::EngineLogs;
pub(crate) use tail::Followers;
