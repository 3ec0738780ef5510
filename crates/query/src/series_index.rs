//! The stored series of a source: the requests for their labels, which are plain data, and the results,
//! which are read in batches.
//!
//! A source implements [`SeriesIndex::series`]. By default, the names and values of labels are taken from
//! the labels of each series; a source with an index implements [`SeriesIndex::texts`] itself.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_memory::Reservation;
use sandur_model::{Labels, Matcher, TimeRange, matches_all};

use crate::batch_texts::BatchTexts;
use crate::context::QueryContext;
use crate::error::Error;
use crate::joined_values::{JoinedLabels, JoinedTexts};
use crate::series_batch::{BATCH_SERIES, LabelIds, SampleScan, SeriesBatch};
use crate::text_scan::{DistinctTexts, KnownBatch, TEXT_BYTES, TextScan};

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

    /// Whether a series with these labels is selected, if it has rows in the range.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.any_of.iter().any(|matchers| matches_all(matchers, labels))
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
    let value_of = match &wanted {
        WantedTexts::Joined(wanted) => return joined_of(context, scan, wanted).await,
        WantedTexts::Values(name) => Some(name.as_str()),
        WantedTexts::Names => None,
    };
    let mut texts = DistinctTexts::new(context)?;
    while let Some(batch) = scan.next().await? {
        context.check()?;
        for (name, value) in (0..batch.labels.len()).flat_map(|series| batch.pairs(series)) {
            match value_of {
                None => texts.add(name)?,
                Some(of) if of == name => texts.add(value)?,
                Some(_) => {}
            }
        }
    }
    Ok(texts.into_scan())
}

/// Combinations of the values of several labels of the series of a scan.
async fn joined_of(
    context: &QueryContext,
    mut scan: Box<dyn SampleScan>,
    JoinedLabels { labels, separator, limit }: &JoinedLabels,
) -> Result<Box<dyn TextScan>, Error> {
    let mut joined = JoinedTexts::new(context, *limit)?;
    while let Some(batch) = scan.next().await? {
        context.check()?;
        for series in 0..batch.labels.len() {
            let value = |name: &String| batch.pairs(series).find(|(own, _)| own == name).map(|pair| pair.1);
            if let Some(values) = labels.iter().map(value).collect::<Option<Vec<&str>>>() {
                joined.add(values.into_iter(), *separator)?;
            }
        }
    }
    Ok(Box::new(KnownBatch::new(joined.finish()?)))
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
    while let Some(some) = scan.next_labels().await? {
        memory.grow(some.iter().map(|labels| series_bytes(labels)).sum())?;
        series.extend(some);
    }
    series.sort_unstable();
    Ok((series, memory))
}

/// Bytes of the labels of a series in memory.
pub fn series_bytes(labels: &Labels) -> u64 {
    labels.text_bytes() as u64 + SERIES_BYTES
}

/// A scan over label sets that are in memory. It releases the memory of those that it has delivered.
pub struct KnownSeries {
    series: std::vec::IntoIter<Arc<Labels>>,
    held: Reservation,
}

impl KnownSeries {
    /// A scan over these label sets. Reserves their memory.
    pub fn new(context: &QueryContext, series: Vec<Arc<Labels>>) -> Result<Self, Error> {
        let held = context.budget().reserve(series.iter().map(|labels| series_bytes(labels)).sum())?;
        Ok(Self::held(series, held))
    }

    /// A scan over these label sets; `held` is the reservation of [`series_bytes`] of each.
    pub fn held(series: Vec<Arc<Labels>>, held: Reservation) -> Self {
        Self { series: series.into_iter(), held }
    }

    fn take(&mut self) -> Option<Vec<Arc<Labels>>> {
        let some: Vec<Arc<Labels>> = self.series.by_ref().take(BATCH_SERIES).collect();
        self.held.shrink(some.iter().map(|labels| series_bytes(labels)).sum());
        (!some.is_empty()).then_some(some)
    }
}

impl SampleScan for KnownSeries {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        let batch = self.take().map(|some| {
            let mut texts = BatchTexts::default();
            let mut ids = |labels: &Arc<Labels>| -> LabelIds {
                labels.iter().map(|(name, value)| (texts.id(name), texts.id(value))).collect()
            };
            let labels = some.iter().map(&mut ids).collect();
            SeriesBatch { dictionary: texts.finish(), labels, samples: Vec::new(), held: None }
        });
        Box::pin(std::future::ready(Ok(batch)))
    }

    fn next_labels(&mut self) -> BoxFuture<'_, Result<Option<Vec<Arc<Labels>>>, Error>> {
        Box::pin(std::future::ready(Ok(self.take())))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::TenantId;
    use sandur_runtime::Env;

    use super::*;
    use crate::memory_samples::MemorySeries;

    /// Goal: a list of all texts or series does not need the memory of two of them.
    #[tokio::test]
    async fn lists_fit_into_little_more_memory_than_they_take() {
        let mut source = MemorySeries::default();
        for n in 0..5_000 {
            source.edit(&Labels::from_pairs([("app", format!("{n:0>200}"))]), |samples| {
                (samples.times, samples.values) = (vec![1].into(), vec![1.0]);
            });
        }
        let budget = MemoryBudget::root("query", 2 << 20);
        let tenant = TenantId::default_tenant();
        let context = QueryContext::new(Env::system(1), tenant, budget.clone(), Duration::from_secs(3_600));
        let everything = SeriesRequest::everything;
        let (series, held) = all_series(&source, &context, everything()).await.unwrap();
        assert_eq!((series.len(), budget.used()), (5_000, held.bytes()));
        assert!(held.bytes() > 1 << 20, "two of them do not fit");
        drop((series, held));
        let (texts, held) = all_texts(&source, &context, everything().values("app")).await.unwrap();
        assert_eq!((texts.len(), budget.used()), (5_000, held.bytes()));
        assert!(held.bytes() > 1 << 20);
        drop(held);
        assert_eq!(budget.used(), 0);
    }
}
