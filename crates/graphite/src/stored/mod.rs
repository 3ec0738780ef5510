//! Graphite's series in the storage of samples: a [`Source`] and [`Names`] over any
//! [`SampleSource`](sandur_query::SampleSource).
//!
//! Paths and tags are labels (`sandur_model`'s mapping), so a pattern is a condition for each level over
//! dictionaries, and what has no sample in the time that is asked about is never met. Steps, archives and
//! aggregation are those of [`StorageRules`], applied to what is read.
//!
//! **Invariants.** Series come in batches, whose samples are given back once their values are in columns.
//! What is kept is reserved from the query's budget until this source is dropped. Series of other origins
//! have no path; they are found by tags.

mod buckets;
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
use sandur_base::Reservation;
use sandur_model::{SECOND_NS, TimeRange};
use sandur_query::{Error, QueryContext, SampleSource};

use crate::event::{Event, Events};
use crate::glob::Pattern;
use crate::schemas::StorageRules;
use crate::source::{Fetched, Found, Selector, Source, Window};
use crate::tags::TagExpression;

pub use forget::Forget;
pub(crate) use named::name_of_pairs;
pub(crate) use stream::SeriesStream;

/// Comparisons of names or values with alternatives that are quicker made than handed to the CPU pool.
const LITTLE_COMPARED: usize = 16 << 10;
/// Most paths, names or values that a request keeps.
const KEPT_MAX: usize = 1_000_000;
/// Bytes of one of them beside its letters.
const TEXT_BYTES: u64 = 48;

/// How a request reads.
#[derive(Clone, Copy, Debug)]
pub struct StoredOptions {
    /// A series is answered when it has a value in the window, or so many seconds before.
    pub lookback: i64,
    /// Most samples that a request may read.
    pub samples_max: u64,
    /// The times whose series the tags API knows, in seconds; nothing: all.
    pub names_in: Option<(i64, i64)>,
}

impl Default for StoredOptions {
    fn default() -> Self {
        Self { lookback: 300, samples_max: u64::MAX, names_in: None }
    }
}

/// Series of Graphite's as one request reads them.
pub struct StoredSeries<'s> {
    samples: &'s dyn SampleSource,
    rules: Arc<StorageRules>,
    options: StoredOptions,
    events: Option<&'s dyn Events>,
    forget: Option<&'s dyn Forget>,
    held: Mutex<Option<Reservation>>,
}

impl<'s> StoredSeries<'s> {
    /// Over these samples, with these rules.
    pub fn new(samples: &'s dyn SampleSource, rules: Arc<StorageRules>, options: StoredOptions) -> Self {
        Self { samples, rules, options, events: None, forget: None, held: Mutex::new(None) }
    }

    /// With these events.
    pub fn with_events(self, events: &'s dyn Events) -> Self {
        Self { events: Some(events), ..self }
    }

    /// Keeps what was reserved as long as the request.
    fn keep(&self, more: Option<Reservation>) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match (held.as_mut(), more) {
            (Some(held), Some(more)) => held.absorb(more),
            (None, more) => *held = more,
            (Some(_), None) => {}
        }
    }

    /// Pays for texts that are kept; fails when there are too many.
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

/// The instants of these seconds, both included.
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
