//! The stored series of a source: the requests for their labels, which are plain data, and the results,
//! which are read in batches.
//!
//! A source implements [`SeriesIndex::series`]. By default, the names and values of labels are taken from
//! the labels of each series; a source with an index implements [`SeriesIndex::texts`] itself.

use std::sync::Arc;

use sandur_base::{BoxFuture, Reservation};
use sandur_model::{Labels, Matcher, TimeRange};

use crate::batch_texts::BatchTexts;
use crate::context::QueryContext;
use crate::error::Error;
use crate::joined_values::{JoinedLabels, JoinedTexts};
use crate::series_batch::{BATCH_SERIES, LabelIds, SampleScan, SeriesBatch};
use crate::text_scan::{DistinctTexts, KnownBatch, TextScan};

/// Bytes of a text in memory besides its characters.
pub(crate) const TEXT_BYTES: u64 = 48;
/// Bytes of a series besides its labels.
const SERIES_BYTES: u64 = 64;

/// Selects series by their labels and times.
#[derive(Clone, Debug)]
pub struct SeriesRequest {
    /// At least one list of matchers. A series is selected if it matches all matchers of a list.
    pub any_of: Vec<Vec<Matcher>>,
    /// A selected series has rows in this range, to the precision of a block.
    pub range: TimeRange,
}

impl SeriesRequest {
    /// Selects the series that match all matchers.
    pub fn new(matchers: Vec<Matcher>, range: TimeRange) -> Self {
        Self { any_of: vec![matchers], range }
    }

    /// Selects every series.
    pub fn everything() -> Self {
        Self::new(Vec::new(), TimeRange::ALL)
    }

    /// Selects the series that match any of the lists; every series if there is no list.
    pub fn any_of(lists: Vec<Vec<Matcher>>, range: TimeRange) -> Self {
        Self { any_of: any_or_all(lists), range }
    }

    /// Requests texts of the selected series.
    pub fn texts(self, wanted: WantedTexts) -> TextRequest {
        TextRequest { wanted, of: self }
    }

    /// Requests the names of their labels.
    pub fn names(self) -> TextRequest {
        self.texts(WantedTexts::Names)
    }

    /// Requests the values of one of their labels.
    pub fn values(self, name: impl Into<String>) -> TextRequest {
        self.texts(WantedTexts::Values(name.into()))
    }

    /// Requests combinations of the values of several of their labels.
    pub fn joined(self, wanted: JoinedLabels) -> TextRequest {
        self.texts(WantedTexts::Joined(wanted))
    }
}

/// Which texts of the labels of series to return.
#[derive(Clone, Debug)]
pub enum WantedTexts {
    /// The names of labels.
    Names,
    /// The values of the label with this name.
    Values(String),
    /// Combinations of the values of several labels.
    Joined(JoinedLabels),
}

/// Requests texts of the labels of selected series.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// Which texts.
    pub wanted: WantedTexts,
    /// The series.
    pub of: SeriesRequest,
}

/// The stored series of one signal: streams of logs, or series of samples. The context determines
/// tenant, budget and deadline of every call.
pub trait SeriesIndex: Send + Sync {
    /// Labels of the selected series in batches, each series once, in the order of the source. The
    /// batches have no samples.
    fn series<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>>;

    /// Texts of the labels of the selected series, distinct and sorted, in batches.
    fn texts<'a>(
        &'a self,
        context: &'a QueryContext,
        request: TextRequest,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        Box::pin(texts_of_series(self, context, request))
    }
}

/// Lists of matchers, one of which must match. Without a list, returns one that matches everything.
fn any_or_all(lists: Vec<Vec<Matcher>>) -> Vec<Vec<Matcher>> {
    if lists.is_empty() { vec![Vec::new()] } else { lists }
}

/// Implements [`SeriesIndex::texts`] by reading the labels of each series.
pub async fn texts_of_series<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    TextRequest { wanted, of }: TextRequest,
) -> Result<Box<dyn TextScan>, Error> {
    let mut scan = source.series(context, of).await?;
    let mut texts = DistinctTexts::new(context)?;
    let mut joined = JoinedTexts::new(context, joined_limit(&wanted))?;
    while let Some(batch) = scan.next().await? {
        context.check()?;
        for series in 0..batch.labels.len() {
            match &wanted {
                WantedTexts::Names => batch.pairs(series).try_for_each(|(name, _)| texts.add(name))?,
                WantedTexts::Values(name) => {
                    value_of(&batch, series, name).map_or(Ok(()), |value| texts.add(value))?;
                }
                WantedTexts::Joined(JoinedLabels { labels, separator, .. }) => {
                    let values = labels.iter().map(|name| value_of(&batch, series, name));
                    if let Some(values) = values.collect::<Option<Vec<&str>>>() {
                        joined.add(values.into_iter(), *separator)?;
                    }
                }
            }
        }
    }
    match wanted {
        WantedTexts::Joined(_) => Ok(Box::new(KnownBatch::new(joined.finish()?))),
        WantedTexts::Names | WantedTexts::Values(_) => Ok(texts.into_scan()),
    }
}

fn value_of<'b>(batch: &'b SeriesBatch, series: usize, name: &str) -> Option<&'b str> {
    batch.pairs(series).find(|(own, _)| *own == name).map(|(_, value)| value)
}

fn joined_limit(wanted: &WantedTexts) -> usize {
    match wanted {
        WantedTexts::Joined(joined) => joined.limit,
        WantedTexts::Names | WantedTexts::Values(_) => 0,
    }
}

/// Reads all texts of a request; returns them sorted, with the reservation of their memory.
pub async fn all_texts<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    request: TextRequest,
) -> Result<(Vec<String>, Reservation), Error> {
    let (mut texts, mut memory) = (Vec::new(), context.budget().reserve(0)?);
    let mut scan = source.texts(context, request).await?;
    while let Some(batch) = scan.next().await? {
        memory.grow(batch.iter().map(|text| text.len() as u64 + TEXT_BYTES).sum())?;
        texts.extend(batch.iter().map(str::to_owned));
    }
    Ok((texts, memory))
}

/// Reads all series of a request; returns their labels sorted, with the reservation of their memory.
pub async fn all_series<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    request: SeriesRequest,
) -> Result<(Vec<Arc<Labels>>, Reservation), Error> {
    let (mut series, mut memory) = (Vec::new(), context.budget().reserve(0)?);
    let mut scan = source.series(context, request).await?;
    while let Some(batch) = scan.next().await? {
        for at in 0..batch.labels.len() {
            let labels = Labels::from_pairs(batch.pairs(at));
            memory.grow(labels.text_bytes() as u64 + SERIES_BYTES)?;
            series.push(Arc::new(labels));
        }
    }
    series.sort_unstable();
    Ok((series, memory))
}

/// A scan over label sets that are in memory.
pub struct KnownSeries {
    series: std::vec::IntoIter<Arc<Labels>>,
    _held: Reservation,
}

impl KnownSeries {
    /// A scan over these label sets. Reserves their memory.
    pub fn new(context: &QueryContext, series: Vec<Arc<Labels>>) -> Result<Self, Error> {
        let bytes = series.iter().map(|labels| labels.text_bytes() as u64 + SERIES_BYTES).sum();
        Ok(Self::held(series, context.budget().reserve(bytes)?))
    }

    /// A scan over these label sets; `held` is the reservation of their memory.
    pub fn held(series: Vec<Arc<Labels>>, held: Reservation) -> Self {
        Self { series: series.into_iter(), _held: held }
    }
}

impl SampleScan for KnownSeries {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        let mut texts = BatchTexts::default();
        let some = self.series.by_ref().take(BATCH_SERIES);
        let labels: Vec<LabelIds> = some
            .map(|labels| labels.iter().map(|(name, value)| (texts.id(name), texts.id(value))).collect())
            .collect();
        let batch = (!labels.is_empty()).then(|| SeriesBatch {
            dictionary: texts.finish(),
            labels,
            samples: Vec::new(),
            held: None,
        });
        Box::pin(std::future::ready(Ok(batch)))
    }
}
