//! The selectors of a query that are read: batches as they come, or what jobs compute of their series.

use std::sync::Arc;

use sandur_query::{Error, QueryContext, SampleScan, SampleSource, SeriesBatch, SeriesJobs};

use crate::per_series::{Computed, PerSeries};
use crate::run::{LeafId, Run};

/// Steps of operators times series that are quicker worked on than handed to the CPU pool, where they would
/// wait for pieces of the same query.
const LITTLE_STEPS: u64 = 96 << 10;

/// What comes of a selector.
pub enum Came {
    /// Series as they are stored.
    Batch(SeriesBatch),
    /// What was computed of each series.
    Computed(Box<Computed>),
}

/// A selector that is read.
pub enum Set {
    /// As it is stored.
    Stored(Box<dyn SampleScan>),
    /// By jobs that compute what is wanted of each series.
    Computed(SeriesJobs<PerSeries>),
}

impl Set {
    /// What comes next; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Came>, Error> {
        Ok(match self {
            Self::Stored(scan) => scan.next().await?.map(Came::Batch),
            Self::Computed(jobs) => jobs.next().await?.map(|computed| Came::Computed(Box::new(computed))),
        })
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Stored(scan) => scan.is_over(),
            Self::Computed(jobs) => jobs.is_over(),
        }
    }
}

/// The selectors of a query.
pub struct Sets<'a> {
    source: &'a dyn SampleSource,
    context: &'a QueryContext,
    all: Vec<Option<Set>>,
    /// Series that came, if all have floats at the steps of operators alone.
    series: Option<u64>,
    /// Those that were not looked at yet.
    fresh: Option<u64>,
    /// Whether a selector has ended since: then operators may look at all series.
    has_ended: bool,
}

impl<'a> Sets<'a> {
    /// Selectors that are not read yet.
    pub fn new(source: &'a dyn SampleSource, context: &'a QueryContext) -> Self {
        Self { source, context, all: Vec::new(), series: Some(0), fresh: Some(0), has_ended: true }
    }

    /// A selector that is read.
    pub fn get(&mut self, LeafId(n): LeafId) -> Option<&mut Set> {
        self.all.get_mut(n)?.as_mut()
    }

    /// Waits for what comes next of a selector; the selector, if more may come.
    pub async fn fetch(&mut self, run: &mut Run, leaf: LeafId) -> Result<Option<LeafId>, Error> {
        let LeafId(n) = leaf;
        if self.all.len() <= n {
            self.all.resize_with(n + 1, || None);
        }
        let set = match &mut self.all[n] {
            Some(set) => set,
            none => {
                let at = &run.leaves[n];
                let scan = self.source.select(self.context, at.query.clone()).await?;
                none.insert(match &at.per_series {
                    Some(work) => Set::Computed(SeriesJobs::new(self.context, scan, Arc::clone(work))),
                    None => Set::Stored(scan),
                })
            }
        };
        let came = set.next().await?;
        self.receive(run, leaf, came);
        Ok((!run.leaves[n].is_done).then_some(leaf))
    }

    /// Hands over what came.
    pub fn receive(&mut self, run: &mut Run, LeafId(n): LeafId, came: Option<Came>) {
        let leaf = &mut run.leaves[n];
        leaf.is_done = came.is_none() || self.all[n].as_ref().is_none_or(Set::is_over);
        let series = match &came {
            // It may have more samples than steps.
            Some(Came::Batch(_)) => None,
            Some(Came::Computed(computed)) => {
                let of_floats = computed.columns.iter().all(|column| column.histograms.is_none());
                of_floats.then_some(computed.columns.len() as u64)
            }
            None => Some(0),
        };
        for count in [&mut self.series, &mut self.fresh] {
            *count = count.zip(series).map(|(before, series)| before + series);
        }
        match came {
            Some(Came::Batch(batch)) => leaf.inbox.push_back(batch),
            Some(Came::Computed(computed)) => leaf.computed.push_back(*computed),
            None => {}
        }
        if leaf.is_done {
            self.all[n] = None;
            self.has_ended = true;
        }
    }

    /// Whether there is little to compute with what came since this was asked.
    pub fn are_little(&mut self, run: &Run) -> bool {
        let fresh = self.fresh.replace(0);
        let series = if std::mem::take(&mut self.has_ended) { self.series } else { fresh };
        let steps = series.map(|series| (series + 1).saturating_mul(run.planned_steps));
        !run.has_dear_steps && steps.is_some_and(|steps| steps <= LITTLE_STEPS)
    }
}
