//! What the operators of a query share while it runs.

use std::collections::VecDeque;
use std::sync::Arc;

use sandur_base::Stopped;
use sandur_base::job::{Held, spend};
use sandur_query::{Error, SampleSelection, Samples, SeriesBatch};

use crate::column::{Column, Grid, Sample};
use crate::labels::{LabelPool, LabelsId};
use crate::notes::Notes;
use crate::ops::points::statistics_of;
use crate::per_series::{Computed, PerSeries};
use crate::plan::TIME_MAX;

/// Number of a selector among those of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafId(pub usize);

/// What an operator gives.
pub enum Pull {
    /// Some series; each set of labels once among all that it gives.
    Batch(Vec<Column>),
    /// Nothing more.
    End,
    /// It can go on when this selector has its next batch.
    Need(LeafId),
}

/// A piece of a plan: gives series batch by batch. It may be asked again after it needed something.
pub trait Operator: Send {
    /// The next series.
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error>;
}

/// An operator of any kind.
pub type AnyOperator = Box<dyn Operator>;

/// A selector: what it asks for, and what came.
pub struct Leaf {
    /// What is asked for.
    pub query: SampleSelection,
    /// What is computed of each of its series by itself, before anything else looks at them.
    pub per_series: Option<Arc<PerSeries>>,
    /// What came and is not looked at yet.
    pub inbox: VecDeque<SeriesBatch>,
    /// What was computed of series and is not looked at yet.
    pub computed: VecDeque<Computed>,
    /// Whether everything came.
    pub is_done: bool,
}

impl Leaf {
    /// Whether something came that is not looked at yet.
    pub fn has_more(&self) -> bool {
        !self.inbox.is_empty() || !self.computed.is_empty()
    }
}

/// How queries are evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How old a sample may be that stands for an instant, in milliseconds.
    pub lookback_ms: i64,
    /// Time between evaluations of a subquery that names none.
    pub subquery_step_ms: i64,
    /// Whether rates look at the times when counting began.
    pub use_starts: bool,
    /// Whether labels tell the types of metrics.
    pub type_labels: bool,
    /// Most samples that a query may load or keep.
    pub samples_max: u64,
    /// Most steps of a range query, which are most points of a series of its answer.
    pub points_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lookback_ms: 300_000,
            subquery_step_ms: 60_000,
            use_starts: false,
            type_labels: false,
            samples_max: 50_000_000,
            points_max: 11_000,
        }
    }
}

/// The state of a query.
pub struct Run {
    /// Labels.
    pub pool: LabelPool,
    /// Warnings and infos.
    pub notes: Notes,
    /// Selectors.
    pub leaves: Vec<Leaf>,
    /// How it is evaluated.
    pub options: Options,
    /// Samples that were read.
    pub samples_read: u64,
    /// Steps of all operators of the plan.
    pub planned_steps: u64,
    /// Whether a step may take long, however few there are: labels are searched by regular expressions.
    pub has_dear_steps: bool,
    bytes: u64,
    held: Held,
}

impl Run {
    /// A query that begins.
    pub fn new(mut options: Options) -> Self {
        for length in [&mut options.lookback_ms, &mut options.subquery_step_ms] {
            *length = (*length).clamp(1, TIME_MAX);
        }
        Self {
            pool: LabelPool::default(),
            notes: Notes::default(),
            leaves: Vec::new(),
            options,
            samples_read: 0,
            planned_steps: 0,
            has_dear_steps: false,
            bytes: 0,
            held: Held::default(),
        }
    }

    /// Adds a selector.
    pub fn add_leaf(&mut self, query: SampleSelection, per_series: Option<Arc<PerSeries>>) -> LeafId {
        let (inbox, computed) = (VecDeque::new(), VecDeque::new());
        self.leaves.push(Leaf { query, per_series, inbox, computed, is_done: false });
        LeafId(self.leaves.len() - 1)
    }

    /// The next batch of a selector, `None` at its end; or what is needed first.
    pub fn next_batch(&mut self, leaf: LeafId) -> Result<Option<SeriesBatch>, LeafId> {
        let at = &mut self.leaves[leaf.0];
        match at.inbox.pop_front() {
            Some(batch) => Ok(Some(batch)),
            None if at.is_done => Ok(None),
            None => Err(leaf),
        }
    }

    /// What was computed of the next series of a selector, `None` at its end; or what is needed first.
    pub fn next_computed(&mut self, leaf: LeafId) -> Result<Option<Computed>, LeafId> {
        let at = &mut self.leaves[leaf.0];
        match at.computed.pop_front() {
            Some(computed) => Ok(Some(computed)),
            None if at.is_done => Ok(None),
            None => Err(leaf),
        }
    }

    /// Samples of a series of a selector as they are looked at: where buckets are not, without them.
    pub fn looked_at(
        &self,
        LeafId(n): LeafId,
        samples: &Arc<Samples>,
        scratch: &mut Scratch,
    ) -> Result<Arc<Samples>, Stopped> {
        let SampleSelection { first_ms, last_ms, statistics_only, .. } = self.leaves[n].query;
        match statistics_only {
            true => statistics_of(samples, (first_ms, last_ms), scratch),
            false => Ok(Arc::clone(samples)),
        }
    }

    /// Reserves memory for what an operator keeps.
    pub fn keep(&mut self, bytes: u64) -> Result<(), Stopped> {
        self.bytes += bytes;
        self.held.at_least(self.bytes)?;
        self.pool.check()
    }

    /// Bytes that operators keep.
    pub fn held_bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that an operator does not keep so many bytes any more: others may have them.
    pub fn release(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Reserves memory for series that an operator keeps, and counts the work of looking at them.
    pub fn keep_columns(&mut self, columns: &[Column]) -> Result<(), Stopped> {
        spend(columns.iter().map(|column| column.values.len() + 8).sum())?;
        self.keep(columns.iter().map(Column::memory_bytes).sum())
    }

    /// Reserves memory for a series without samples, and makes it.
    pub fn column(&mut self, labels: LabelsId, drop_name: bool, steps: usize) -> Result<Column, Stopped> {
        self.keep(Column::bytes(steps))?;
        Ok(Column::empty(labels, drop_name, steps))
    }

    /// Puts a sample into a series that is kept; reserves memory for a histogram.
    pub fn put(&mut self, column: &mut Column, step: usize, sample: Sample) -> Result<(), Stopped> {
        if let Sample::Histogram(histogram) = &sample {
            let slots = if column.histograms.is_none() { column.values.len() as u64 * 8 } else { 0 };
            let bytes = histogram.memory_bytes();
            spend(bytes as usize)?;
            self.keep(bytes + slots)?;
        }
        column.put_sample(step, sample);
        Ok(())
    }

    /// What an operator gave, which is not asked for more: these series, and memory for them alone.
    pub fn into_computed(
        mut self,
        columns: Vec<Column>,
        bytes: u64,
        operator: AnyOperator,
    ) -> Result<Computed, Stopped> {
        self.held.at_least(bytes)?;
        // Its memory was for some of the series as well.
        drop(operator);
        self.held.shrink_to(bytes);
        let Self { pool, notes, samples_read, held, .. } = self;
        Ok(Computed { columns, pool, notes, samples_read, held })
    }

    /// Counts samples that were read.
    pub fn count_samples(&mut self, samples: u64) -> Result<(), Error> {
        self.samples_read += samples;
        if self.samples_read > self.options.samples_max {
            return Err(Error::Limit(format!(
                "query processing would load too many samples into memory in query execution (more than {}); \
                 narrow the selectors or the time range",
                self.options.samples_max
            )));
        }
        Ok(())
    }
}

/// Memory of what an operator makes for a batch. The reservation stays for the next one.
#[derive(Default)]
pub struct Scratch {
    bytes: u64,
    held: Held,
}

impl Scratch {
    /// What was made before is gone.
    pub fn reset(&mut self) {
        self.bytes = 0;
    }

    /// Bytes of what was made since.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves memory for more.
    pub fn add(&mut self, bytes: u64) -> Result<(), Stopped> {
        self.bytes += bytes;
        self.held.at_least(self.bytes)
    }
}

/// All series of an operator, gathered over as many calls as it takes.
#[derive(Default)]
pub struct Gathered {
    /// What came so far.
    pub columns: Vec<Column>,
    held: u64,
    is_done: bool,
}

impl Gathered {
    /// Gathers; what is needed first, or `None` when all are there.
    pub fn gather(&mut self, from: &mut AnyOperator, run: &mut Run) -> Result<Option<LeafId>, Error> {
        while !self.is_done {
            match from.pull(run)? {
                Pull::Batch(columns) => self.add(columns, run)?,
                Pull::End => self.end(),
                Pull::Need(leaf) => return Ok(Some(leaf)),
            }
        }
        Ok(None)
    }

    /// Takes some of them.
    pub fn add(&mut self, columns: Vec<Column>, run: &mut Run) -> Result<(), Stopped> {
        let before = run.held_bytes();
        run.keep_columns(&columns)?;
        self.held += run.held_bytes() - before;
        self.columns.extend(columns);
        Ok(())
    }

    /// Notes that there are no more.
    pub fn end(&mut self) {
        self.is_done = true;
    }

    /// Whether all are there.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Bytes that the run holds for them.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// The series, and the bytes that the run holds for them.
    pub fn take(&mut self) -> (Vec<Column>, u64) {
        (std::mem::take(&mut self.columns), std::mem::take(&mut self.held))
    }
}

/// Memory of the batch that an operator gives, from its first to its last one.
#[derive(Default)]
pub struct BatchMemory(u64);

impl BatchMemory {
    /// Reserves it, unless it is reserved.
    pub fn take(&mut self, grid: &Grid, run: &mut Run) -> Result<(), Stopped> {
        if self.0 == 0 {
            run.keep(grid.batch_bytes())?;
            self.0 = grid.batch_bytes();
        }
        Ok(())
    }

    /// There is no further batch.
    pub fn give_back(&mut self, run: &mut Run) {
        run.release(std::mem::take(&mut self.0));
    }
}

/// A scalar as an argument: its values at all steps, once they are known.
pub struct ScalarArg {
    from: Option<AnyOperator>,
    gathered: Gathered,
    values: Vec<f64>,
}

impl ScalarArg {
    /// An argument that is evaluated by an operator.
    pub fn new(from: AnyOperator) -> Self {
        Self { from: Some(from), gathered: Gathered::default(), values: Vec::new() }
    }

    /// An argument whose values are known.
    #[cfg(test)]
    pub fn of_values(values: Vec<f64>) -> Self {
        Self { from: None, gathered: Gathered::default(), values }
    }

    /// Evaluates it; what is needed first.
    pub fn ready(&mut self, run: &mut Run, grid: &Grid) -> Result<Option<LeafId>, Error> {
        let Some(from) = &mut self.from else { return Ok(None) };
        if let Some(leaf) = self.gathered.gather(from, run)? {
            return Ok(Some(leaf));
        }
        self.from = None;
        let column = self.gathered.columns.pop();
        self.values = column.map_or_else(|| vec![f64::NAN; grid.steps], |column| column.values);
        Ok(None)
    }

    /// Its value at a step.
    #[inline]
    pub fn at(&self, step: usize) -> f64 {
        self.values[step]
    }

    /// Its values.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Evaluates arguments; what is needed first.
pub fn scalars_ready(args: &mut [ScalarArg], run: &mut Run, grid: &Grid) -> Result<Option<LeafId>, Error> {
    for arg in args {
        if let Some(leaf) = arg.ready(run, grid)? {
            return Ok(Some(leaf));
        }
    }
    Ok(None)
}

/// Series that are given away in batches.
pub struct Outbox(std::vec::IntoIter<Column>);

impl Outbox {
    /// Gives these.
    pub fn new(columns: Vec<Column>) -> Self {
        Self(columns.into_iter())
    }

    /// The next of them.
    pub fn next(&mut self) -> Pull {
        let batch: Vec<Column> = self.0.by_ref().take(sandur_query::BATCH_SERIES).collect();
        if batch.is_empty() { Pull::End } else { Pull::Batch(batch) }
    }
}
