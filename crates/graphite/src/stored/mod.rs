//! Graphite's series over stored samples: a [`Source`] and [`Names`] over any
//! [`SampleSource`](sandur_query::SampleSource).
//!
//! Paths and tags are labels (by the mapping in `sandur_model`), so a pattern becomes a label matcher for
//! each level, which is evaluated on dictionaries. Series without samples in the requested time are never
//! read. Steps, archives and aggregation are those of [`StorageRules`], applied when values are read.
//!
//! **Invariants.** Series arrive in batches, whose samples are released once their values are in columns.
//! Data that is kept is reserved from the query's budget until this source is dropped. Series of other
//! origins have no path; tags find them.

mod buckets;
mod deletes;
mod fetch;
mod find;
mod forget;
mod listing;
mod matchers;
mod named;
mod names;
mod parts;
mod rolled;
mod stream;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use sandur_memory::Reservation;
use sandur_model::{SECOND_NS, TimeRange};
use sandur_query::{Error, QueryContext, SampleSource};

use crate::event::{Event, Events};
use crate::glob::Pattern;
use crate::schemas::StorageRules;
use crate::source::{Fetched, Found, Selector, Source, Window};
use crate::tags::TagExpression;

pub use deletes::Forget;
pub(crate) use named::name_of_pairs;
pub(crate) use stream::SeriesStream;

/// Up to this number of comparisons, names or values are compared in place, because handing them to the CPU
/// pool costs more.
const LITTLE_COMPARED: usize = 16 << 10;
/// The most paths, names or values that a request keeps.
const KEPT_MAX: usize = 1_000_000;
/// The bytes of such a text without its characters.
const TEXT_BYTES: u64 = 48;

/// The options of reading.
#[derive(Clone, Copy, Debug)]
pub struct StoredOptions {
    /// A series is answered if it has a value in the window, or at most this many seconds before it.
    pub lookback: i64,
    /// The most samples that a request may read.
    pub samples_max: u64,
    /// The time range in which series are known to the tags API, in seconds since 1970; `None` is all
    /// times.
    pub names_in: Option<(i64, i64)>,
}

impl Default for StoredOptions {
    fn default() -> Self {
        Self { lookback: 300, samples_max: u64::MAX, names_in: None }
    }
}

/// Graphite's series for one request.
pub struct StoredSeries<'s> {
    samples: &'s dyn SampleSource,
    rules: Arc<StorageRules>,
    options: StoredOptions,
    events: Option<&'s dyn Events>,
    forget: Option<&'s dyn Forget>,
    held: Mutex<Option<Reservation>>,
}

impl<'s> StoredSeries<'s> {
    /// A source over these samples, with these rules.
    pub fn new(samples: &'s dyn SampleSource, rules: Arc<StorageRules>, options: StoredOptions) -> Self {
        Self { samples, rules, options, events: None, forget: None, held: Mutex::new(None) }
    }

    /// Adds a source of events.
    pub fn with_events(self, events: &'s dyn Events) -> Self {
        Self { events: Some(events), ..self }
    }

    /// Keeps a reservation for the lifetime of the request.
    fn keep(&self, more: Option<Reservation>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match (held.as_mut(), more) {
            (Some(held), Some(more)) => held.absorb(more),
            (None, more) => *held = more,
            (Some(_), None) => {}
        }
    }

    /// Reserves memory for texts that are kept; fails if there are too many.
    fn pay<'t>(
        &self,
        context: &QueryContext,
        kept: usize,
        texts: impl Iterator<Item = &'t str>,
    ) -> Result<(), Error> {
        if kept > KEPT_MAX {
            return Err(Error::Limit(format!(
                "more than {KEPT_MAX} names fit; narrow the pattern, the tags or the time"
            )));
        }
        let bytes = texts.map(|text| text.len() as u64 + TEXT_BYTES).sum();
        self.keep(Some(context.budget().reserve(bytes)?));
        Ok(())
    }

    fn names_range(&self) -> TimeRange {
        self.options.names_in.map_or(TimeRange::ALL, seconds)
    }
}

/// The time range of these seconds, both inclusive.
fn seconds((from, until): (i64, i64)) -> TimeRange {
    let end = until.saturating_add(1).saturating_mul(SECOND_NS);
    TimeRange::new(from.saturating_mul(SECOND_NS), end)
}

impl Source for StoredSeries<'_> {
    fn fetch<'a>(
        &'a self,
        context: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>> {
        Box::pin(self.fetch_series(context, selector, window))
    }

    fn nodes<'a>(
        &'a self,
        context: &'a QueryContext,
        pattern: &'a Pattern,
        times: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
        Box::pin(self.find_nodes(context, pattern, times.map_or(TimeRange::ALL, seconds)))
    }

    fn tagged<'a>(
        &'a self,
        context: &'a QueryContext,
        expressions: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(self.names_by_tags(context, expressions))
    }

    fn events<'a>(
        &'a self,
        context: &'a QueryContext,
        tags: &'a [String],
        from: i64,
        until: i64,
    ) -> BoxFuture<'a, Result<Vec<i64>, Error>> {
        Box::pin(async move {
            let Some(events) = self.events else { return Ok(Vec::new()) };
            let all = events.between(context, from, until).await?;
            let has_all = |event: &&Event| tags.iter().all(|tag| event.tags.contains(tag));
            Ok(all.iter().filter(has_all).map(|event| event.when).collect())
        })
    }
}
