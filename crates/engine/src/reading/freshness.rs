//! The age of the view: how long ago this process knew what other processes have stored.
//!
//! That is known as of the last successful read of the catalog's end. Beyond a bound each answer carries
//! a warning with the age of the view. A directory has no other writers, so there the view ages only
//! when reads fail. The age is computed when it is read, so that it is correct without a running task.

use std::time::Duration;

use sandur_catalog::Catalog;
use sandur_query::{QueryContext, Staleness};
use sandur_store::{Class, Store};

use crate::error::{Error, expect_catalog};
use crate::node::Node;
use crate::options::EngineOptions;

/// The age of the view of the store, and its bound.
#[derive(Clone)]
pub(crate) struct Freshness {
    catalog: Catalog,
    store: Store,
    bound: Duration,
}

impl Freshness {
    pub(crate) fn new(node: &Node, options: &EngineOptions) -> Self {
        let bound = match options.view_age_max {
            Duration::ZERO => Duration::MAX,
            // Just before each read a view is as old as the pause between two reads, and one read may be
            // late.
            bound => bound.max(options.poll_interval.saturating_mul(2)),
        };
        Self { catalog: node.catalog.clone(), store: node.store.clone(), bound }
    }

    /// How long the view may have been incomplete.
    pub(crate) fn age(&self) -> Duration {
        self.catalog.age()
    }

    /// The age, if it exceeds the bound.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let (age, bound) = (self.age(), self.bound);
        (age > bound).then_some(Staleness { age, bound })
    }

    /// Adds a warning to the answer of a query if the view is too old.
    pub(crate) fn warn(&self, context: &QueryContext) {
        if let Some(staleness) = self.staleness() {
            context.warn_of_age(staleness);
        }
    }

    /// Fails while the view of the store is older than its bound.
    pub(crate) fn check(&self) -> Result<(), Error> {
        expect_catalog(&self.catalog)?;
        let Some(Staleness { age, bound }) = self.staleness() else { return Ok(()) };
        let said = self.store.latest_failure(Class::Catalog);
        let reason = said.unwrap_or_else(|| "the store has not answered".to_owned());
        Err(Error::StaleView { age, bound, reason })
    }
}
