//! A window of samples, as functions over ranges see it.

use std::sync::Arc;

use sandur_model::FloatHistogram;
use sandur_model::histogram::{Added, HistogramError};

use crate::ast::Extension;
use crate::labels::Text;
use crate::notes::{HistogramOperation, Note, Notes};
use crate::span::Span;

/// The samples of a series in a window, without stale markers.
pub struct Window<'a> {
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
