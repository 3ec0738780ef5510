//! State that the operators of a query share while it runs.

use std::collections::VecDeque;

use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, spend};
use sandur_query::{Error, SampleSelection, SeriesBatch};

use crate::column::{Column, Grid, Sample};
use crate::labels::{LabelPool, LabelsId};
use crate::notes::Notes;
use crate::ops::aggregate::GroupPart;
use crate::timing::{TIME_MAX, Times};

/// The number of a selector among those of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafId(pub usize);

/// The result of pulling from an operator.
pub enum Pull {
    /// Some series. No label set occurs twice in all batches of an operator.
    Batch(Vec<Column>),
    /// There are no more series.
    End,
    /// The operator can continue only when this selector has its next batch.
    Need(LeafId),
}

/// A node of a plan, which yields series in batches. It may be pulled again after it returned
/// [`Pull::Need`].
pub trait Operator: Send {
    /// Computes the next series.
    fn pull(&mut self, run: &mut Run) -> Result<Pull, Error>;
}

/// An operator of any kind.
pub type AnyOperator = Box<dyn Operator>;

/// The result of a job for some series.
pub struct Computed {
    /// The series with samples; their labels are numbers of `pool`.
    pub columns: Vec<Column>,
    /// The labels of the series.
    pub pool: LabelPool,
    /// Warnings and infos.
    pub notes: Notes,
    /// The number of samples that were read.
    pub samples_read: u64,
    /// The reservation for the series.
    pub held: JobMemory,
}

/// A selector of the query, with the series that have arrived.
pub struct Leaf {
    /// The selection for storage.
    pub query: SampleSelection,
    /// Batches that have arrived and are not read yet.
    pub inbox: VecDeque<SeriesBatch>,
    /// Results of jobs that are not read yet.
    pub computed: VecDeque<Computed>,
    /// Groups of series that other processes aggregated.
    pub groups: Vec<GroupPart>,
    /// Whether everything has arrived.
    pub is_done: bool,
}

impl Leaf {
    /// Whether something has arrived that is not read yet.
    pub fn has_more(&self) -> bool {
        !self.inbox.is_empty() || !self.computed.is_empty()
    }
}

/// The options of the evaluation of queries.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How old a sample may be to count at an instant, in milliseconds.
    pub lookback_ms: i64,
    /// The step of a subquery that names none, in milliseconds.
    pub subquery_step_ms: i64,
    /// Whether rates use start timestamps, the times at which counters began.
    pub use_starts: bool,
    /// Whether the types of metrics are read from the label `__type__`.
    pub type_labels: bool,
    /// The most samples that a query may read.
    pub samples_max: u64,
    /// The most steps of a range query, which bounds the points of each series of its answer.
    pub points_max: u64,
    /// The times that `@ start()`, `@ end()`, `start()`, `end()`, `range()` and `step()` name; `None`: those
    /// at which the query is evaluated.
    pub named_times: Option<Times>,
}

impl Options {
    /// The times that a query names which is evaluated at these times.
    pub(crate) fn named(&self, evaluated: Times) -> Times {
        self.named_times.unwrap_or(evaluated)
    }
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
            named_times: None,
        }
    }
}

/// The state of a query.
pub struct Run {
    /// The labels.
    pub pool: LabelPool,
    /// Warnings and infos.
    pub notes: Notes,
    /// The selectors.
    pub leaves: Vec<Leaf>,
    /// The options of the evaluation.
    pub options: Options,
    /// The number of samples that were read.
    pub samples_read: u64,
    /// The steps of all operators of the plan together.
    pub planned_steps: u64,
    /// Whether a step may take long: functions search labels with regular expressions.
    pub has_expensive_steps: bool,
    bytes: u64,
    held: JobMemory,
}

impl Run {
    /// The state of a query at its start.
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
            has_expensive_steps: false,
            bytes: 0,
            held: JobMemory::default(),
        }
    }

    /// Adds a selector.
    pub fn add_leaf(&mut self, query: SampleSelection) -> LeafId {
        let (inbox, computed, groups) = (VecDeque::new(), VecDeque::new(), Vec::new());
        self.leaves.push(Leaf { query, inbox, computed, groups, is_done: false });
        LeafId(self.leaves.len() - 1)
    }

    /// The next batch of a selector, `None` at its end; or the selector, if its next batch has to be
    /// fetched first.
    pub fn next_batch(&mut self, leaf: LeafId) -> Result<Option<SeriesBatch>, LeafId> {
        let at = &mut self.leaves[leaf.0];
        match at.inbox.pop_front() {
            Some(batch) => Ok(Some(batch)),
            None if at.is_done => Ok(None),
            None => Err(leaf),
        }
    }

    /// The next result of a selector's jobs, `None` at their end; or the selector, if it has to be awaited
    /// first.
    pub fn next_computed(&mut self, leaf: LeafId) -> Result<Option<Computed>, LeafId> {
        let at = &mut self.leaves[leaf.0];
        match at.computed.pop_front() {
            Some(computed) => Ok(Some(computed)),
            None if at.is_done => Ok(None),
            None => Err(leaf),
        }
    }

    /// Reserves memory for data that an operator keeps.
    pub fn keep(&mut self, bytes: u64) -> Result<(), Stopped> {
        self.bytes += bytes;
        self.held.at_least(self.bytes)?;
        self.pool.check()
    }

    /// The bytes that operators have reserved by [`Self::keep`].
    pub fn held_bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases bytes that an operator no longer keeps, for use by other operators of the query.
    pub fn release(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Reserves memory for series that an operator keeps, and counts the work of copying them.
    pub fn keep_columns(&mut self, columns: &[Column]) -> Result<(), Stopped> {
        spend(columns.iter().map(|column| column.values.len() + 8).sum())?;
        self.keep(columns.iter().map(Column::memory_bytes).sum())
    }

    /// Reserves memory for a series without samples, and creates it.
    pub fn column(&mut self, labels: LabelsId, drop_name: bool, steps: usize) -> Result<Column, Stopped> {
        self.keep(Column::bytes(steps))?;
        Ok(Column::empty(labels, drop_name, steps))
    }

    /// Sets a sample of a series that is kept; reserves memory for a histogram.
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

    /// The result of a job: these series, with a reservation of `bytes` for them alone. The operator is
    /// dropped.
    pub fn into_computed(
        mut self,
        columns: Vec<Column>,
        bytes: u64,
        operator: AnyOperator,
    ) -> Result<Computed, Stopped> {
        self.held.at_least(bytes)?;
        // The operator's memory held some of the series too.
        drop(operator);
        self.held.shrink_to(bytes);
        let Self { pool, notes, samples_read, held, .. } = self;
        Ok(Computed { columns, pool, notes, samples_read, held })
    }

    /// The reservation for what operators kept, when the query is over.
    pub fn into_held(self) -> JobMemory {
        self.held
    }

    /// Counts samples that were read; fails above the limit.
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

/// Memory for the data that an operator creates for one batch. The reservation is reused for the next
/// batch.
#[derive(Default)]
pub struct Scratch {
    bytes: u64,
    held: JobMemory,
}

impl Scratch {
    /// Begins a new batch: the data of the last one is gone.
    pub fn reset(&mut self) {
        self.bytes = 0;
    }

    /// The bytes reserved for this batch.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more memory for this batch.
    pub fn add(&mut self, bytes: u64) -> Result<(), Stopped> {
        self.bytes += bytes;
        self.held.at_least(self.bytes)
    }
}

/// Gathers all series of an operator, over several pulls.
#[derive(Default)]
pub struct Gathered {
    /// The series so far.
    pub columns: Vec<Column>,
    held: u64,
    is_done: bool,
}

impl Gathered {
    /// Gathers series. Returns the selector whose next batch is needed first, or `None` at the end.
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

    /// Adds some series.
    pub fn add(&mut self, columns: Vec<Column>, run: &mut Run) -> Result<(), Stopped> {
        let before = run.held_bytes();
        run.keep_columns(&columns)?;
        self.held += run.held_bytes() - before;
        self.columns.extend(columns);
        Ok(())
    }

    /// Marks the end of the series.
    pub fn end(&mut self) {
        self.is_done = true;
    }

    /// Whether all series are gathered.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The bytes reserved for the series.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// Takes out the series and the number of bytes reserved for them.
    pub fn take(&mut self) -> (Vec<Column>, u64) {
        (std::mem::take(&mut self.columns), std::mem::take(&mut self.held))
    }
}

/// The reservation for an operator's output batch, from its first batch to its last.
#[derive(Default)]
pub struct BatchMemory(u64);

impl BatchMemory {
    /// Reserves the memory, unless this is done already.
    pub fn take(&mut self, grid: &Grid, run: &mut Run) -> Result<(), Stopped> {
        if self.0 == 0 {
            run.keep(grid.batch_bytes())?;
            self.0 = grid.batch_bytes();
        }
        Ok(())
    }

    /// Releases the memory, after the last batch.
    pub fn give_back(&mut self, run: &mut Run) {
        run.release(std::mem::take(&mut self.0));
    }
}

/// A scalar argument: its values at all steps, once they are evaluated.
pub struct ScalarArg {
    from: Option<AnyOperator>,
    gathered: Gathered,
    values: Vec<f64>,
}

impl ScalarArg {
    /// An argument that an operator evaluates.
    pub fn new(from: AnyOperator) -> Self {
        Self { from: Some(from), gathered: Gathered::default(), values: Vec::new() }
    }

    /// An argument with known values.
    #[cfg(test)]
    pub fn of_values(values: Vec<f64>) -> Self {
        Self { from: None, gathered: Gathered::default(), values }
    }

    /// Evaluates the argument. Returns the selector whose next batch is needed first, or `None` when it is
    /// ready.
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

    /// The value at a step.
    #[inline]
    pub fn at(&self, step: usize) -> f64 {
        self.values[step]
    }

    /// The values at all steps.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Evaluates arguments. Returns the selector whose next batch is needed first, or `None` when all are
/// ready.
pub fn scalars_ready(args: &mut [ScalarArg], run: &mut Run, grid: &Grid) -> Result<Option<LeafId>, Error> {
    for arg in args {
        if let Some(leaf) = arg.ready(run, grid)? {
            return Ok(Some(leaf));
        }
    }
    Ok(None)
}

/// Finished series that are output in batches.
pub struct Outbox(std::vec::IntoIter<Column>);

impl Outbox {
    /// An outbox with these series.
    pub fn new(columns: Vec<Column>) -> Self {
        Self(columns.into_iter())
    }

    /// The next batch.
    pub fn next(&mut self) -> Pull {
        let batch: Vec<Column> = self.0.by_ref().take(sandur_query::BATCH_SERIES).collect();
        if batch.is_empty() { Pull::End } else { Pull::Batch(batch) }
    }
}
