//! The read half of the engine: `query::LogSource` over blocks and heads.
//!
//! **Life of a scan.** [`EngineLogs`] takes a view (catalog snapshot and heads), groups its sources
//! into clusters whose times meet ([`clusters`]), and hands out an [`stream::EngineScan`]. For each
//! cluster, of which several are planned at once ([`ahead`]), a [`plan::Planner`] opens footers, picks
//! streams and pages, asks the needle filters, and finds the streams that may hold rows twice
//! ([`super::suspects`]). Pages are then fetched ahead in batches; decoding ([`page`]) is left to the
//! reader of the items.
//!
//! **Invariants.** Rows outside of the selection never leave. A damaged or missing block is a warning
//! that names it, never silence; a store that does not answer fails the query.

mod ahead;
mod clusters;
mod page;
mod plan;
mod source;
mod stream;

pub(crate) use source::EngineLogs;
