//! The read half of the engine for logs: `query::LogSource` over blocks and heads.
//!
//! **Life of a scan.** [`EngineLogs`] takes a view (catalog snapshot and heads), groups its sources into
//! clusters whose times overlap ([`clusters`]), and returns a [`stream::EngineScan`]. For each cluster,
//! of which several are planned concurrently ([`ahead`]), a [`plan::Planner`] opens footers, selects
//! streams and pages, checks the needle filters, and finds the streams that may have rows stored twice
//! ([`doubt`], [`crate::logs::suspects`]). Pages are then fetched ahead in batches. The reader of the items
//! decodes them ([`page`]).
//!
//! **Invariants.** Rows outside of the selection are never returned. A damaged or missing block always
//! adds a warning that names it. A store that does not answer fails the query.

mod ahead;
mod clusters;
mod doubt;
mod page;
mod plan;
mod source;
mod stream;

pub(crate) use source::EngineLogs;
