//! Delegates [`SeriesIndex`] to another index.
//!
//! Most sources of rows are built over an existing index, such as the reader of an engine or the source
//! that a test observes. Implementing [`Indexed`] names that index, and makes the source a
//! [`SeriesIndex`] itself.

use sandur_base::BoxFuture;

use crate::context::QueryContext;
use crate::error::Error;
use crate::series_batch::SampleScan;
use crate::series_index::{SeriesIndex, SeriesRequest, TextRequest};
use crate::text_scan::TextScan;

/// A source that delegates its [`SeriesIndex`].
pub trait Indexed: Send + Sync {
    /// The type of the index.
    type Index: SeriesIndex + ?Sized;

    /// The index that answers the calls.
    fn index(&self) -> &Self::Index;
}

impl<T: Indexed> SeriesIndex for T {
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        self.index().series(context, request)
    }

    fn texts<'a>(
        &'a self,
        context: &'a QueryContext,
        request: TextRequest,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        self.index().texts(context, request)
    }
}
