//! The stored series of a source: which labels they have, and the methods that a source need not
//! implement, made from those that it must.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandur_base::{BoxFuture, Reservation};
use sandur_model::{Labels, Matcher, TimeRange};

use crate::batch_texts::BatchTexts;
use crate::context::QueryContext;
use crate::error::Error;
use crate::joined_values::{JoinedLabels, JoinedTexts};
use crate::series_batch::{BATCH_SERIES, LabelIds, SampleScan, SeriesBatch};
use crate::text_scan::{KnownTexts, TextBatch, TextScan};

/// Bytes of a text in memory besides its characters.
const TEXT_BYTES: u64 = 48;
/// Bytes of a series besides its labels.
const SERIES_BYTES: u64 = 64;

/// The stored series of one signal: streams of logs, or series of samples. The context determines
/// tenant, budget and deadline of every call.
pub trait SeriesIndex: Send + Sync {
    /// The label sets of series that match any of the lists (all series if there is no list) and have
    /// rows in the range (to the precision of a block), sorted.
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>>;

    /// Label names of matching series in the range, sorted.
    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Values of one label of matching series in the range, sorted.
    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Values of one label of the series that match any of the lists (all series if there is no list),
    /// in batches, so that a source need not hold all of them in memory.
    fn value_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        Box::pin(known_values(self, context, name, any_of, range))
    }

    /// Combinations of the values of several labels that matching series have, distinct and sorted.
    fn joined_values<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<TextBatch, Error>> {
        Box::pin(known_joined(self, context, wanted, matchers, range))
    }

    /// Labels of the series that match any of the lists, in batches, each series once, in the order of
    /// the source. The batches have no samples.
    fn series_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        Box::pin(known_series(self, context, any_of, range))
    }
}

/// Lists of matchers, one of which must match. Without a list, returns one that matches everything.
pub fn any_or_all(lists: Vec<Vec<Matcher>>) -> Vec<Vec<Matcher>> {
    if lists.is_empty() { vec![Vec::new()] } else { lists }
}

/// Implements [`SeriesIndex::value_scan`] with the values of each list of matchers, all in memory.
pub(crate) async fn known_values<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    name: String,
    any_of: Vec<Vec<Matcher>>,
    range: TimeRange,
) -> Result<Box<dyn TextScan>, Error> {
    let (mut found, mut held) = (BTreeSet::new(), context.budget().reserve(0)?);
    for matchers in any_or_all(any_of) {
        let values = source.label_values(context, name.clone(), matchers, range).await?;
        held.grow(values.iter().map(|value| value.len() as u64 + TEXT_BYTES).sum())?;
        found.extend(values);
    }
    Ok(Box::new(KnownTexts::new(found, Some(held))))
}

/// Implements [`SeriesIndex::joined_values`] by visiting each series.
pub(crate) async fn known_joined<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    wanted: JoinedLabels,
    matchers: Vec<Matcher>,
    range: TimeRange,
) -> Result<TextBatch, Error> {
    let mut texts = JoinedTexts::new(context, wanted.limit)?;
    let mut scan = source.series_scan(context, vec![matchers], range).await?;
    while let Some(batch) = scan.next().await? {
        context.check()?;
        for series in 0..batch.labels.len() {
            let value =
                |name: &String| batch.pairs(series).find(|(own, _)| own == name).map(|(_, value)| value);
            let values: Option<Vec<&str>> = wanted.labels.iter().map(value).collect();
            if let Some(values) = values {
                texts.add(values.into_iter(), wanted.separator)?;
            }
        }
    }
    texts.finish()
}

/// Implements [`SeriesIndex::series_scan`] with all label sets in memory.
pub(crate) async fn known_series<S: SeriesIndex + ?Sized>(
    source: &S,
    context: &QueryContext,
    any_of: Vec<Vec<Matcher>>,
    range: TimeRange,
) -> Result<Box<dyn SampleScan>, Error> {
    let series = source.streams(context, any_of, range).await?;
    let bytes = series.iter().map(|labels| labels.text_bytes() as u64 + SERIES_BYTES).sum();
    let held = context.budget().reserve(bytes)?;
    Ok(Box::new(KnownSeries { series: series.into_iter(), _held: held }))
}

/// The series that were not delivered yet.
struct KnownSeries {
    series: std::vec::IntoIter<Arc<Labels>>,
    _held: Reservation,
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
