//! A window of samples: the input of functions over ranges.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use sandur_memory::job::{JobMemory, spend};
use sandur_model::FloatHistogram;
use sandur_model::histogram::{Added, HistogramError};

use crate::labels::Text;
use crate::notes::{HistogramOperation, Note, Notes};
use crate::span::Span;
use crate::timing::Extension;

/// Prefix counts of a series, so that long windows are not scanned again at each step.
#[derive(Default)]
pub struct Counts {
    falls: OnceCell<Vec<u32>>,
    changes: OnceCell<Vec<u32>>,
    held: RefCell<JobMemory>,
}

/// Windows with fewer samples are scanned directly.
const SHORT: usize = 32;

/// For each value, the number of neighbouring pairs up to it that differ by `differs`; empty if the job is
/// cancelled.
fn running(values: &[f64], held: &RefCell<JobMemory>, differs: impl Fn(f64, f64) -> bool) -> Vec<u32> {
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

/// Whether a value differs from the previous one; two NaNs are equal.
pub fn is_change(before: f64, value: f64) -> bool {
    before != value && !(before.is_nan() && value.is_nan())
}

/// The samples of a series in a window, without stale markers.
pub struct Window<'a> {
    /// The floats of the complete series.
    pub series: &'a [f64],
    /// The index of the window's first float among them.
    pub from: usize,
    /// The prefix counts of the series.
    pub counts: &'a Counts,
    /// The timestamps of the floats, in milliseconds.
    pub times: &'a [i64],
    /// The floats in the window.
    pub values: &'a [f64],
    /// The start timestamp of each float; empty if start timestamps are not used.
    pub starts: &'a [i64],
    /// The timestamps of the histograms, in milliseconds.
    pub histogram_times: &'a [i64],
    /// The histograms in the window.
    pub histograms: &'a [Arc<FloatHistogram>],
    /// The start timestamp of each histogram; empty if start timestamps are not used.
    pub histogram_starts: &'a [i64],
    /// The time of the step, in milliseconds.
    pub at: i64,
    /// The start of the window, exclusive.
    pub start: i64,
    /// The end of the window, inclusive.
    pub end: i64,
    /// The time after which samples are visible: the start of the window, or earlier if it is extended.
    pub seen_from: i64,
    /// The length of the window, in seconds.
    pub seconds: f64,
    /// The modifier that extends the window, if there is one.
    pub extension: Extension,
    /// The scalar arguments at the step.
    pub args: &'a [f64],
}

/// The result of a function for a window.
pub enum Value {
    /// No sample.
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

/// The metric and the places in the query that notes refer to.
pub struct Site<'a> {
    /// The notes of the query.
    pub notes: &'a mut Notes,
    /// The metric's name.
    pub metric: Text,
    /// The place of the first argument.
    pub argument: Span,
    /// The place of the last argument.
    pub parameter: Span,
}

impl Site<'_> {
    /// Adds a note about the first argument.
    pub fn note(&mut self, note: Note) {
        self.notes.add(note, self.argument);
    }

    /// Adds the notes of a sum of histograms; `None` if their buckets are incompatible.
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

/// The implementation of a function over windows.
pub type RangeFn = fn(&Window<'_>, &mut Site<'_>) -> Result<Value, String>;

impl Window<'_> {
    fn between(&self, counts: &[u32]) -> u32 {
        let last = self.from + self.values.len().saturating_sub(1);
        match (counts.get(self.from), counts.get(last)) {
            (Some(before), Some(after)) => after - before,
            _ => 0,
        }
    }

    /// The number of floats that are less than the previous one.
    pub fn falls(&self) -> u32 {
        if self.values.len() < SHORT {
            return self.values.windows(2).map(|pair| u32::from(pair[1] < pair[0])).sum();
        }
        let fall = |before, value| value < before;
        self.between(self.counts.falls.get_or_init(|| running(self.series, &self.counts.held, fall)))
    }

    /// The number of floats that differ from the previous one.
    pub fn changes(&self) -> u32 {
        if self.values.len() < SHORT {
            return self.values.windows(2).map(|pair| u32::from(is_change(pair[0], pair[1]))).sum();
        }
        self.between(self.counts.changes.get_or_init(|| running(self.series, &self.counts.held, is_change)))
    }

    /// Whether the window has both floats and histograms, which adds a note.
    pub fn is_mixed(&self, site: &mut Site<'_>) -> bool {
        let mixed = !self.times.is_empty() && !self.histograms.is_empty();
        if mixed {
            site.note(Note::MixedFloatsHistograms(site.metric));
        }
        mixed
    }

    /// Adds a note if histograms are ignored because the function reads only floats.
    pub fn ignore_histograms(&self, site: &mut Site<'_>) {
        if !self.histograms.is_empty() {
            site.note(Note::IgnoredInRange(site.metric));
        }
    }
}
