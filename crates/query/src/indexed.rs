//! Delegates [`SeriesIndex`] to another index.
//!
//! Most sources of rows are built over an existing index, such as the reader of an engine or the source
//! that a test observes. Implementing [`Indexed`] names that index, and makes the source a
//! [`SeriesIndex`] itself.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Labels, Matcher, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::joined_values::JoinedLabels;
use crate::series_batch::SampleScan;
use crate::series_index::SeriesIndex;
use crate::text_scan::{TextBatch, TextScan};

/// A source that delegates its [`SeriesIndex`].
pub trait Indexed: Send + Sync {
    /// The type of the index.
    type Index: SeriesIndex + ?Sized;

    /// The index that answers the calls.
    fn index(&self) -> &Self::Index;
}

impl<T: Indexed> SeriesIndex for T {
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>> {
        self.index().streams(context, any_of, range)
    }

    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.index().label_names(context, matchers, range)
    }

    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        self.index().label_values(context, name, matchers, range)
    }

    fn value_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        self.index().value_scan(context, name, any_of, range)
    }

    fn joined_values<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<TextBatch, Error>> {
        self.index().joined_values(context, wanted, matchers, range)
    }

    fn series_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        self.index().series_scan(context, any_of, range)
    }
}
