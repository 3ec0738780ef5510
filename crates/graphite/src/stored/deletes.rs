//! The interface to the storage that deletes series.

use futures_util::future::BoxFuture;
use sandur_model::Matcher;
use sandur_query::Error;

/// Deletes series with their values.
pub trait Forget: Send + Sync {
    /// Deletes the values until now of the series that match and have no other labels, apart from those
    /// that store paths.
    fn forget<'a>(&'a self, matchers: Vec<Matcher>) -> BoxFuture<'a, Result<(), Error>>;
}
