//! Where series come from: the only thing that the engine knows of storage.
//!
//! A [`SeriesSource`] answers a [`SeriesQuery`] with a [`SeriesSet`], which gives the matching series in
//! batches of at most [`BATCH_SERIES`], each series once. Labels come as ids of a dictionary: a text is
//! looked up when it is needed, and once. Samples are columns. A batch may hold samples outside of the
//! query's time, which are not looked at.

use std::sync::Arc;

use sandur_base::{BoxFuture, Reservation};
use sandur_model::{FloatHistogram, Matcher};
use sandur_query::{Error, QueryContext};

/// Most series of a batch.
pub const BATCH_SERIES: usize = 512;

/// The bits of the value that marks the end of a series.
pub const STALE_BITS: u64 = 0x7ff0_0000_0000_0002;

/// Whether a value marks the end of a series. Looked at by bits: arithmetic would change them.
#[inline]
pub fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE_BITS
}

/// Which series, and what of them.
#[derive(Clone, Debug)]
pub struct SeriesQuery {
    /// Conditions on the labels.
    pub matchers: Vec<Matcher>,
    /// First millisecond whose samples are looked at.
    pub first_ms: i64,
    /// Last millisecond whose samples are looked at.
    pub last_ms: i64,
    /// Labels that the query looks at; `None`: all. Others may be left out.
    pub labels: Option<Vec<String>>,
    /// Length of the window that is looked at for each step; 0 for instants.
    pub range_ms: i64,
    /// Time between steps; 0 for one step.
    pub step_ms: i64,
    /// The function or aggregation around the selector.
    pub function: &'static str,
    /// Whether start times of samples are looked at.
    pub starts: bool,
    /// Whether only sums and counts of histograms are looked at, and their hints.
    pub statistics_only: bool,
}

/// Texts by id.
pub trait Dictionary: Send + Sync {
    /// The text with this id.
    fn text(&self, id: u32) -> &str;
}

/// Samples of one series: floats and histograms apart, each by rising time.
#[derive(Debug, Default)]
pub struct Samples {
    /// Times of float samples, in milliseconds.
    pub times: Vec<i64>,
    /// Their values; stale markers by their bits.
    pub values: Vec<f64>,
    /// When counting began, for each float sample, 0 where it is not known; empty when it is never known.
    pub starts: Vec<i64>,
    /// Times of histogram samples.
    pub histogram_times: Vec<i64>,
    /// Histograms; a stale marker is one whose sum is stale.
    pub histograms: Vec<Arc<FloatHistogram>>,
    /// When counting began, for each histogram.
    pub histogram_starts: Vec<i64>,
}

/// Labels as pairs of ids, sorted by the text of the name, without empty values.
pub type LabelIds = Box<[(u32, u32)]>;

/// Some of the series.
pub struct SeriesBatch {
    /// The texts of the labels.
    pub dictionary: Arc<dyn Dictionary>,
    /// Labels of each series.
    pub labels: Vec<LabelIds>,
    /// Samples of each series.
    pub samples: Vec<Arc<Samples>>,
    /// Memory that the batch takes.
    pub held: Option<Reservation>,
}

/// Series that are given batch by batch.
pub trait SeriesSet: Send {
    /// The next batch; `None` after the last.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>>;
}

/// Storage.
pub trait SeriesSource: Send + Sync {
    /// Finds series. The set must reserve what it holds from the query's budget.
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        query: SeriesQuery,
    ) -> BoxFuture<'a, Result<Box<dyn SeriesSet + 'a>, Error>>;
}
