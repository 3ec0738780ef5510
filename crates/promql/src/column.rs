//! One series over the steps of a query.

use std::sync::Arc;

use sandur_base::Stopped;
use sandur_base::job::spend;
use sandur_model::FloatHistogram;

use crate::labels::LabelsId;
use sandur_query::BATCH_SERIES;

/// Values of a batch that is handed on.
const BATCH_VALUES: usize = 128 << 10;
/// Values that are worked on between two looks at whether the job goes on.
pub const PIECE_VALUES: usize = 16 << 10;

/// The steps at which something is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The first, in milliseconds.
    pub start: i64,
    /// Time between two; at least 1.
    pub interval: i64,
    /// How many.
    pub steps: usize,
}

impl Grid {
    /// The time of a step.
    pub fn time(&self, step: usize) -> i64 {
        self.start + self.interval * step as i64
    }

    /// The time of the last step.
    pub fn last(&self) -> i64 {
        self.time(self.steps.max(1) - 1)
    }

    /// Most series of a batch over these steps: so many that their values take about a megabyte.
    pub fn batch_series(&self) -> usize {
        (BATCH_VALUES / self.steps.max(1)).clamp(1, BATCH_SERIES)
    }

    /// Bytes of such a batch, the places of histograms included, but not what they hold.
    pub fn batch_bytes(&self) -> u64 {
        self.batch_series() as u64 * (Column::bytes(self.steps) + self.steps as u64 * 8)
    }

    /// The first step alone.
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
    /// Work that it makes to look at it whole.
    pub fn work(&self) -> usize {
        match self {
            Self::Float(_) => 1,
            Self::Histogram(histogram) => histogram.memory_bytes() as usize,
        }
    }
}

/// A few floats of a series, by rising step; often it is one.
#[derive(Clone, Debug, Default)]
pub struct Sparse {
    first: Option<(u32, f64)>,
    rest: Vec<(u32, f64)>,
}

impl Sparse {
    /// Bytes of a sample, with room for growth.
    pub const SAMPLE_BYTES: u64 = 32;

    /// So many are few.
    pub fn most(steps: usize) -> usize {
        4 + steps / 8
    }

    /// The samples of a series, when they are few.
    pub fn of(column: &Column) -> Option<Self> {
        let is_few = column.histograms.is_none() && column.count() <= Self::most(column.values.len());
        let mut samples = column.steps().map(|step| (step as u32, column.values[step]));
        is_few.then(|| Self { first: samples.next(), rest: samples.collect() })
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// The steps and their samples.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> {
        self.first.iter().chain(&self.rest).map(|(step, value)| (*step as usize, *value))
    }

    /// Changes the sample of a step; tells whether it is a new one.
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

    /// A series with these samples.
    pub fn column(&self, labels: LabelsId, drop_name: bool, steps: usize) -> Column {
        let mut column = Column::empty(labels, drop_name, steps);
        self.iter().for_each(|(step, value)| column.put(step, value));
        column
    }
}

/// One series over the steps. Where `present` has no bit there is no sample, and the value is of no use.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its labels.
    pub labels: LabelsId,
    /// Whether the metric's name goes at the end of the query.
    pub drop_name: bool,
    /// A bit for each step with a sample.
    pub present: Vec<u64>,
    /// Floats; of steps with a histogram, nothing.
    pub values: Vec<f64>,
    /// Histograms of steps; `None` when there is none.
    pub histograms: Option<Vec<Option<Arc<FloatHistogram>>>>,
}

impl Column {
    /// No sample at any step.
    pub fn empty(labels: LabelsId, drop_name: bool, steps: usize) -> Self {
        let present = vec![0; steps.div_ceil(64)];
        Self { labels, drop_name, present, values: vec![0.0; steps], histograms: None }
    }

    /// These values at all steps.
    pub fn full(labels: LabelsId, values: Vec<f64>) -> Self {
        let steps = values.len();
        let mut present = vec![u64::MAX; steps.div_ceil(64)];
        if let Some(last) = present.last_mut().filter(|_| !steps.is_multiple_of(64)) {
            *last = (1 << (steps % 64)) - 1;
        }
        Self { labels, drop_name: false, present, values, histograms: None }
    }

    /// Bytes of a series of floats over so many steps.
    pub fn bytes(steps: usize) -> u64 {
        (size_of::<Self>() + steps * 8 + steps.div_ceil(64) * 8) as u64
    }

    /// Changes the values of all steps, those without a sample too, at a cost for each. The job may end
    /// between pieces of them.
    pub fn change_values(&mut self, cost: usize, f: impl Fn(f64) -> f64) -> Result<(), Stopped> {
        for piece in self.values.chunks_mut(PIECE_VALUES) {
            spend(piece.len() * cost)?;
            piece.iter_mut().for_each(|value| *value = f(*value));
        }
        Ok(())
    }

    /// Whether there is a sample.
    #[inline]
    pub fn has(&self, step: usize) -> bool {
        self.present[step / 64] >> (step % 64) & 1 == 1
    }

    /// Whether there is a sample at any step.
    pub fn has_any(&self) -> bool {
        self.present.iter().any(|bits| *bits != 0)
    }

    /// How many samples there are.
    pub fn count(&self) -> usize {
        self.present.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Notes that there is a sample.
    #[inline]
    pub fn mark(&mut self, step: usize) {
        self.present[step / 64] |= 1 << (step % 64);
    }

    /// Takes the sample away.
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

    /// Puts a float.
    #[inline]
    pub fn put(&mut self, step: usize, value: f64) {
        self.values[step] = value;
        self.mark(step);
    }

    /// Puts a histogram.
    pub fn put_histogram(&mut self, step: usize, histogram: Arc<FloatHistogram>) {
        let steps = self.values.len();
        self.histograms.get_or_insert_with(|| vec![None; steps])[step] = Some(histogram);
        self.mark(step);
    }

    /// Puts a sample.
    pub fn put_sample(&mut self, step: usize, sample: Sample) {
        match sample {
            Sample::Float(value) => self.put(step, value),
            Sample::Histogram(histogram) => self.put_histogram(step, histogram),
        }
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        let slots = self.histograms.as_ref().map_or(0, |all| all.len() as u64 * 8);
        Self::bytes(self.values.len()) + slots + self.histogram_bytes()
    }

    /// Bytes that its histograms take.
    pub fn histogram_bytes(&self) -> u64 {
        self.histograms.iter().flatten().flatten().map(|histogram| histogram.memory_bytes()).sum()
    }
}
