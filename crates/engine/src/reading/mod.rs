//! Reading views: which blocks and heads hold the series of a query, and how old the view is.
//!
//! The scans of a signal are in [`crate::logs::reading`] and [`crate::samples::reading`].

pub(crate) mod freshness;
pub(crate) mod matching;
pub(crate) mod queries;
pub(crate) mod series_reader;
