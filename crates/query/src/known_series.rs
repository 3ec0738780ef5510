//! Implements [`SeriesIndex::series_scan`] for sources that return all label sets at once.

use std::sync::Arc;

use sandur_base::{BoxFuture, Reservation};
use sandur_model::{Labels, Matcher, TimeRange};

use crate::batch_texts::BatchTexts;
use crate::context::QueryContext;
use crate::error::Error;
use crate::sample_source::{BATCH_SERIES, LabelIds, SampleScan, SeriesBatch};
use crate::source::SeriesIndex;

/// Bytes of a series besides its labels.
const SERIES_BYTES: u64 = 64;

/// The series of a source that match any of the lists, as a scan over series without samples.
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
