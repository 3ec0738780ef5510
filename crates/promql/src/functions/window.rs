//! A window of samples, as functions over ranges see it.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use sandur_base::job::{Held, spend};
use sandur_model::FloatHistogram;
use sandur_model::histogram::{Added, HistogramError};

use crate::ast::Extension;
use crate::labels::Text;
use crate::notes::{HistogramOperation, Note, Notes};
use crate::span::Span;

/// What is counted once for a whole series, so that long windows need not be looked at again at each step.
#[derive(Default)]
pub struct Counts {
    falls: OnceCell<Vec<u32>>,
    changes: OnceCell<Vec<u32>>,
    held: RefCell<Held>,
}

/// Windows with fewer samples are looked at.
const SHORT: usize = 32;

/// How many neighbours up to each value differ in a way; nothing when the job is to end.
fn running(values: &[f64], held: &RefCell<Held>, differs: impl Fn(f64, f64) -> bool) -> Vec<u32> {
    if held.borrow_mut().at_least(values.len() as u64 * 4).is_err() || spend(values.len()).is_err() {
        return Vec::new();
    }
    let mut count = 0;
    let pairs = values.iter().zip(values.first().into_iter().chain(values));
    let next = |(value, before): (&f64, &f64)| {
        count += u32::from(differs(*before, *value));
        count
    };
    pairs.map(next).collect()
}

/// Whether a value differs from the one before.
pub fn is_change(before: f64, value: f64) -> bool {
    before != value && !(before.is_nan() && value.is_nan())
}

/// The samples of a series in a window, without stale markers.
pub struct Window<'a> {
    /// Floats of the whole series.
    pub series: &'a [f64],
    /// The place of the window's first float among them.
    pub from: usize,
    /// What is counted once for the series.
    pub counts: &'a Counts,
    /// Times of floats.
    pub times: &'a [i64],
    /// Floats.
    pub values: &'a [f64],
    /// When counting began, of each float; empty when nobody looks at it.
    pub starts: &'a [i64],
    /// Times of histograms.
    pub histogram_times: &'a [i64],
    /// Histograms.
    pub histograms: &'a [Arc<FloatHistogram>],
    /// When counting began, of each histogram.
    pub histogram_starts: &'a [i64],
    /// The time of the step.
    pub at: i64,
    /// The begin of the window, which is not in it.
    pub start: i64,
    /// The end of the window, which is in it.
    pub end: i64,
    /// The time after which samples are there: the start, or an earlier one of an extended window.
    pub seen_from: i64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Whether samples around it are there as well.
    pub extension: Extension,
    /// Scalar arguments.
    pub args: &'a [f64],
}

/// What a function answers for a window.
pub enum Value {
    /// Nothing.
    None,
    /// A number.
    Float(f64),
    /// A histogram.
    Histogram(Arc<FloatHistogram>),
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<FloatHistogram> for Value {
    fn from(histogram: FloatHistogram) -> Self {
        Self::Histogram(Arc::new(histogram))
    }
}

/// Where notes go: about which metric, and which places of the query.
pub struct Site<'a> {
    /// Notes of the query.
    pub notes: &'a mut Notes,
    /// The metric's name.
    pub metric: Text,
    /// The first argument.
    pub argument: Span,
    /// The last argument.
    pub parameter: Span,
}

impl Site<'_> {
    /// Notes something about the first argument.
    pub fn note(&mut self, note: Note) {
        self.notes.add(note, self.argument);
    }

    /// Notes what happened in a sum of histograms; `None` when they do not fit together.
    pub fn added(
        &mut self,
        added: Result<Added, HistogramError>,
        operation: HistogramOperation,
    ) -> Option<Added> {
        match added {
            Ok(added) => {
                if added.bounds_reconciled {
                    self.note(Note::MismatchedBounds(operation));
                }
                Some(added)
            }
            Err(_) => {
                self.note(Note::MixedExponentialCustom(self.metric));
                None
            }
        }
    }
}

/// A function over windows.
pub type RangeFn = fn(&Window<'_>, &mut Site<'_>) -> Result<Value, String>;

impl Window<'_> {
    fn between(&self, counts: &[u32]) -> u32 {
        let last = self.from + self.values.len().saturating_sub(1);
        match (counts.get(self.from), counts.get(last)) {
            (Some(before), Some(after)) => after - before,
            _ => 0,
        }
    }

    /// How often a float is less than the one before.
    pub fn falls(&self) -> u32 {
        if self.values.len() < SHORT {
            return self.values.windows(2).map(|pair| u32::from(pair[1] < pair[0])).sum();
        }
        let fall = |before, value| value < before;
        self.between(self.counts.falls.get_or_init(|| running(self.series, &self.counts.held, fall)))
    }

    /// How often a float differs from the one before.
    pub fn changes(&self) -> u32 {
        if self.values.len() < SHORT {
            return self.values.windows(2).map(|pair| u32::from(is_change(pair[0], pair[1]))).sum();
        }
        self.between(self.counts.changes.get_or_init(|| running(self.series, &self.counts.held, is_change)))
    }

    /// Whether floats and histograms are mixed, which is noted.
    pub fn is_mixed(&self, site: &mut Site<'_>) -> bool {
        let mixed = !self.times.is_empty() && !self.histograms.is_empty();
        if mixed {
            site.note(Note::MixedFloatsHistograms(site.metric));
        }
        mixed
    }

    /// Notes that histograms beside floats are not looked at.
    pub fn ignore_histograms(&self, site: &mut Site<'_>) {
        if !self.histograms.is_empty() {
            site.note(Note::IgnoredInRange(site.metric));
        }
    }
}
