//! The open scans of a query's selectors: batches as they arrive, or results of jobs over their series.

use std::sync::Arc;

use sandur_query::{Error, QueryContext, SampleScan, SampleSource, SeriesBatch, SeriesJobs};

use crate::plan::{Jobs, PerSeries};
use crate::run::{Computed, LeafId, Run};

/// Up to this product of steps and series, computing at once is faster than handing the work to the CPU
/// pool, where it would wait for other work of the same query.
const LITTLE_STEPS: u64 = 96 << 10;

/// The next item of a selector.
pub enum SelectorItem {
    /// A batch of stored series.
    Batch(SeriesBatch),
    /// The result of a job over some series.
    Computed(Box<Computed>),
}

/// The open scan of a selector.
pub enum Set {
    /// Yields stored series.
    Stored(Box<dyn SampleScan>),
    /// Yields the results of jobs over series.
    Computed(SeriesJobs<PerSeries>),
}

impl Set {
    /// Waits for the next item; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<SelectorItem>, Error> {
        Ok(match self {
            Self::Stored(scan) => scan.next().await?.map(SelectorItem::Batch),
            Self::Computed(jobs) => {
                jobs.next().await?.map(|computed| SelectorItem::Computed(Box::new(computed)))
            }
        })
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Stored(scan) => scan.is_over(),
            Self::Computed(jobs) => jobs.is_over(),
        }
    }
}

/// The scans of all selectors of a query.
pub struct Sets<'a> {
    source: &'a dyn SampleSource,
    context: &'a QueryContext,
    jobs: Jobs,
    all: Vec<Option<Set>>,
    /// The number of series so far, if each has at most one float for each step; else `None`.
    series: Option<u64>,
    /// The same for series that operators have not read yet.
    fresh: Option<u64>,
    /// Whether a selector has ended since the last check: then operators may process all series.
    has_ended: bool,
}

impl<'a> Sets<'a> {
    /// The scans of a query, none of them open, and the jobs over their series.
    pub fn new(source: &'a dyn SampleSource, context: &'a QueryContext, jobs: Jobs) -> Self {
        Self { source, context, jobs, all: Vec::new(), series: Some(0), fresh: Some(0), has_ended: true }
    }

    /// The scan of a selector, if it is open.
    pub fn get(&mut self, LeafId(n): LeafId) -> Option<&mut Set> {
        self.all.get_mut(n)?.as_mut()
    }

    /// Waits for the next item of a selector, which is opened if necessary. Returns the selector if it may
    /// have more.
    pub async fn fetch(&mut self, run: &mut Run, leaf: LeafId) -> Result<Option<LeafId>, Error> {
        let LeafId(n) = leaf;
        if self.all.len() <= n {
            self.all.resize_with(n + 1, || None);
        }
        let set = match &mut self.all[n] {
            Some(set) => set,
            none => {
                let scan = self.source.select(self.context, run.leaves[n].query.clone()).await?;
                none.insert(match self.jobs.get(&leaf) {
                    Some(work) => Set::Computed(SeriesJobs::new(self.context, scan, Arc::clone(work))),
                    None => Set::Stored(scan),
                })
            }
        };
        let came = set.next().await?;
        self.receive(run, leaf, came);
        Ok((!run.leaves[n].is_done).then_some(leaf))
    }

    /// Hands an item to the operators.
    pub fn receive(&mut self, run: &mut Run, LeafId(n): LeafId, came: Option<SelectorItem>) {
        let leaf = &mut run.leaves[n];
        leaf.is_done = came.is_none() || self.all[n].as_ref().is_none_or(Set::is_over);
        let series = match &came {
            // A batch may have more samples than steps.
            Some(SelectorItem::Batch(_)) => None,
            Some(SelectorItem::Computed(computed)) => {
                let of_floats = computed.columns.iter().all(|column| column.histograms.is_none());
                of_floats.then_some(computed.columns.len() as u64)
            }
            None => Some(0),
        };
        for count in [&mut self.series, &mut self.fresh] {
            *count = count.zip(series).map(|(before, series)| before + series);
        }
        match came {
            Some(SelectorItem::Batch(batch)) => leaf.inbox.push_back(batch),
            Some(SelectorItem::Computed(computed)) => leaf.computed.push_back(*computed),
            None => {}
        }
        if leaf.is_done {
            self.all[n] = None;
            self.has_ended = true;
        }
    }

    /// Whether little computing is due for the items that arrived since the last call.
    pub fn are_little(&mut self, run: &Run) -> bool {
        let fresh = self.fresh.replace(0);
        let series = if std::mem::take(&mut self.has_ended) { self.series } else { fresh };
        let steps = series.map(|series| (series + 1).saturating_mul(run.planned_steps));
        !run.has_expensive_steps && steps.is_some_and(|steps| steps <= LITTLE_STEPS)
    }
}
