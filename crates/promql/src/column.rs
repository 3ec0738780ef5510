//! A series as a column: a slot for each step of a query.

use std::sync::Arc;

use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::FloatHistogram;

use crate::labels::LabelsId;
use sandur_query::BATCH_SERIES;

/// Values in a batch: 128 Ki floats are 1 MiB.
const BATCH_VALUES: usize = 128 << 10;
/// Values that are processed between two checks whether the job may continue.
pub const PIECE_VALUES: usize = 16 << 10;

/// The evenly spaced steps at which an expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The time of the first step, in milliseconds.
    pub start: i64,
    /// The time between two steps, in milliseconds; at least 1.
    pub interval: i64,
    /// The number of steps.
    pub steps: usize,
}

impl Grid {
    /// The time of a step, in milliseconds.
    pub fn time(&self, step: usize) -> i64 {
        self.start + self.interval * step as i64
    }

    /// The time of the last step, in milliseconds.
    pub fn last(&self) -> i64 {
        self.time(self.steps.max(1) - 1)
    }

    /// The most series of a batch over these steps: their values take about a megabyte.
    pub fn batch_series(&self) -> usize {
        (BATCH_VALUES / self.steps.max(1)).clamp(1, BATCH_SERIES)
    }

    /// The bytes of such a batch, including slots for histograms, without the histograms themselves.
    pub fn batch_bytes(&self) -> u64 {
        self.batch_series() as u64 * (Column::bytes(self.steps) + self.steps as u64 * 8)
    }

    /// A grid of the first step alone.
    pub fn first_only(&self) -> Self {
        Self { steps: 1, ..*self }
    }
}

/// A sample.
#[derive(Clone, Debug)]
pub enum Sample {
    /// A number.
    Float(f64),
    /// A histogram.
    Histogram(Arc<FloatHistogram>),
}

impl Sample {
    /// The work of reading it completely, in units of `spend`.
    pub fn work(&self) -> usize {
        match self {
            Self::Float(_) => 1,
            Self::Histogram(histogram) => histogram.memory_bytes() as usize,
        }
    }
}

/// A few floats of a series, in the order of steps; often there is one.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    first: Option<(u32, f64)>,
    rest: Vec<(u32, f64)>,
}

impl Sparse {
    /// The bytes of a sample, with room for growth.
    pub const SAMPLE_BYTES: u64 = 32;

    /// The most samples for which this form is used, for a series over a number of steps.
    pub fn most(steps: usize) -> usize {
        4 + steps / 8
    }

    /// The samples of a series, if they are few and all of them are floats.
    pub fn of(column: &Column) -> Option<Self> {
        let is_few = column.histograms.is_none() && column.count() <= Self::most(column.values.len());
        let mut samples = column.steps().map(|step| (step as u32, column.values[step]));
        is_few.then(|| Self { first: samples.next(), rest: samples.collect() })
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// The samples with their steps.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> {
        self.first.iter().chain(&self.rest).map(|(step, value)| (*step as usize, *value))
    }

    /// Changes or inserts the sample of a step; returns whether it is new.
    pub fn change(&mut self, step: usize, f: impl FnOnce(Option<f64>) -> f64) -> bool {
        let step = step as u32;
        match &mut self.first {
            Some((at, value)) if *at == step => {
                *value = f(Some(*value));
                return false;
            }
            Some(first) if first.0 > step => {
                let before = std::mem::replace(first, (step, f(None)));
                self.rest.insert(0, before);
                return true;
            }
            Some(_) => {}
            first => {
                *first = Some((step, f(None)));
                return true;
            }
        }
        match self.rest.binary_search_by_key(&step, |(step, _)| *step) {
            Ok(at) => {
                self.rest[at].1 = f(Some(self.rest[at].1));
                false
            }
            Err(at) => {
                self.rest.insert(at, (step, f(None)));
                true
            }
        }
    }

    /// A column with these samples.
    pub fn column(&self, labels: LabelsId, drop_name: bool, steps: usize) -> Column {
        let mut column = Column::empty(labels, drop_name, steps);
        self.iter().for_each(|(step, value)| column.put(step, value));
        column
    }
}

/// One series over the steps. A step whose bit in `present` is not set has no sample; its value is
/// meaningless.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// The labels.
    pub labels: LabelsId,
    /// Whether the metric's name is dropped at the end of the query.
    pub drop_name: bool,
    /// A bit for each step with a sample.
    pub present: Vec<u64>,
    /// The floats; meaningless at steps with a histogram.
    pub values: Vec<f64>,
    /// The histograms of steps; `None` if there are none.
    pub histograms: Option<Vec<Option<Arc<FloatHistogram>>>>,
}

impl Column {
    /// A series without samples.
    pub fn empty(labels: LabelsId, drop_name: bool, steps: usize) -> Self {
        let present = vec![0; steps.div_ceil(64)];
        Self { labels, drop_name, present, values: vec![0.0; steps], histograms: None }
    }

    /// A series with a float at every step.
    pub fn full(labels: LabelsId, values: Vec<f64>) -> Self {
        let steps = values.len();
        let mut present = vec![u64::MAX; steps.div_ceil(64)];
        if let Some(last) = present.last_mut().filter(|_| !steps.is_multiple_of(64)) {
            *last = (1 << (steps % 64)) - 1;
        }
        Self { labels, drop_name: false, present, values, histograms: None }
    }

    /// The bytes of a series of floats over a number of steps.
    pub fn bytes(steps: usize) -> u64 {
        (size_of::<Self>() + steps * 8 + steps.div_ceil(64) * 8) as u64
    }

    /// Changes the values of all steps, including steps without a sample. `cost` is the work for each
    /// value; the job may be cancelled between pieces.
    pub fn change_values(&mut self, cost: usize, f: impl Fn(f64) -> f64) -> Result<(), Stopped> {
        for piece in self.values.chunks_mut(PIECE_VALUES) {
            spend(piece.len() * cost)?;
            piece.iter_mut().for_each(|value| *value = f(*value));
        }
        Ok(())
    }

    /// Whether the step has a sample.
    #[inline]
    pub fn has(&self, step: usize) -> bool {
        self.present[step / 64] >> (step % 64) & 1 == 1
    }

    /// Whether any step has a sample.
    pub fn has_any(&self) -> bool {
        self.present.iter().any(|bits| *bits != 0)
    }

    /// The number of samples.
    pub fn count(&self) -> usize {
        self.present.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Records that the step has a sample.
    #[inline]
    pub fn mark(&mut self, step: usize) {
        self.present[step / 64] |= 1 << (step % 64);
    }

    /// Removes the sample of the step.
    #[inline]
    pub fn unmark(&mut self, step: usize) {
        self.present[step / 64] &= !(1 << (step % 64));
    }

    /// The first step with a sample, if there is one.
    pub fn first_step(&self) -> Option<usize> {
        let word = self.present.iter().position(|bits| *bits != 0)?;
        Some(word * 64 + self.present[word].trailing_zeros() as usize)
    }

    /// The steps with samples.
    pub fn steps(&self) -> impl Iterator<Item = usize> + use<> {
        let words: Vec<u64> = self.present.clone();
        words.into_iter().enumerate().flat_map(|(word, mut bits)| {
            std::iter::from_fn(move || {
                (bits != 0).then(|| {
                    let bit = bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    word * 64 + bit
                })
            })
        })
    }

    /// The histogram of a step.
    #[inline]
    pub fn histogram(&self, step: usize) -> Option<&Arc<FloatHistogram>> {
        self.histograms.as_ref().and_then(|histograms| histograms[step].as_ref())
    }

    /// The sample of a step.
    pub fn sample(&self, step: usize) -> Option<Sample> {
        if !self.has(step) {
            return None;
        }
        Some(match self.histogram(step) {
            Some(histogram) => Sample::Histogram(Arc::clone(histogram)),
            None => Sample::Float(self.values[step]),
        })
    }

    /// Sets a float.
    #[inline]
    pub fn put(&mut self, step: usize, value: f64) {
        self.values[step] = value;
        self.mark(step);
    }

    /// Sets a histogram.
    pub fn put_histogram(&mut self, step: usize, histogram: Arc<FloatHistogram>) {
        let steps = self.values.len();
        self.histograms.get_or_insert_with(|| vec![None; steps])[step] = Some(histogram);
        self.mark(step);
    }

    /// Sets a sample.
    pub fn put_sample(&mut self, step: usize, sample: Sample) {
        match sample {
            Sample::Float(value) => self.put(step, value),
            Sample::Histogram(histogram) => self.put_histogram(step, histogram),
        }
    }

    /// The bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        let slots = self.histograms.as_ref().map_or(0, |all| all.len() as u64 * 8);
        Self::bytes(self.values.len()) + slots + self.histogram_bytes()
    }

    /// The bytes that its histograms take.
    pub fn histogram_bytes(&self) -> u64 {
        self.histograms.iter().flatten().flatten().map(|histogram| histogram.memory_bytes()).sum()
    }
}
