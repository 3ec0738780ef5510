//! Series in memory: for tests and for data that never leaves the process.

use std::collections::HashMap;
use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Labels, matches_all};
use sandur_query::{Error, QueryContext};

use crate::data::{
    BATCH_SERIES, Dictionary, LabelIds, Samples, SeriesBatch, SeriesQuery, SeriesSet, SeriesSource,
};

/// Series in the order in which they came.
#[derive(Default)]
pub struct MemorySeries {
    series: Vec<(Labels, Arc<Samples>)>,
    by_labels: HashMap<Labels, usize>,
}

impl MemorySeries {
    /// Gives the samples of the series with these labels to `change`, which keeps them sorted by time.
    pub fn edit(&mut self, labels: &Labels, change: impl FnOnce(&mut Samples)) {
        let next = self.series.len();
        let at = *self.by_labels.entry(labels.clone()).or_insert(next);
        if at == next {
            self.series.push((labels.clone(), Arc::default()));
        }
        let slot = &mut self.series[at].1;
        let mut samples = std::mem::take(slot);
        if Arc::get_mut(&mut samples).is_none() {
            let Samples { times, values, starts, histogram_times, histograms, histogram_starts } = &*samples;
            samples = Arc::new(Samples {
                times: times.clone(),
                values: values.clone(),
                starts: starts.clone(),
                histogram_times: histogram_times.clone(),
                histograms: histograms.clone(),
                histogram_starts: histogram_starts.clone(),
            });
        }
        if let Some(samples) = Arc::get_mut(&mut samples) {
            change(samples);
        }
        *slot = samples;
    }

    /// How many series there are.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The series.
    pub fn iter(&self) -> impl Iterator<Item = (&Labels, &Samples)> {
        self.series.iter().map(|(labels, samples)| (labels, &**samples))
    }
}

/// Texts of a batch.
struct Texts(Vec<Box<str>>);

impl Dictionary for Texts {
    fn text(&self, id: u32) -> &str {
        &self.0[id as usize]
    }
}

struct Found<'a> {
    of: &'a MemorySeries,
    query: SeriesQuery,
    at: usize,
}

impl SeriesSource for MemorySeries {
    fn select<'a>(
        &'a self,
        _: &'a QueryContext,
        query: SeriesQuery,
    ) -> BoxFuture<'a, Result<Box<dyn SeriesSet + 'a>, Error>> {
        let found: Box<dyn SeriesSet + 'a> = Box::new(Found { of: self, query, at: 0 });
        Box::pin(std::future::ready(Ok(found)))
    }
}

impl Found<'_> {
    fn batch(&mut self) -> Option<SeriesBatch> {
        let (mut texts, mut ids) = (Vec::new(), HashMap::new());
        let (mut labels, mut samples): (Vec<LabelIds>, _) = (Vec::new(), Vec::new());
        let SeriesQuery { first_ms, last_ms, .. } = self.query;
        while let Some((own, columns)) = self.of.series.get(self.at) {
            self.at += 1;
            let touches = |times: &[i64]| {
                let from = times.partition_point(|time| *time < first_ms);
                times.get(from).is_some_and(|time| *time <= last_ms)
            };
            if !(touches(&columns.times) || touches(&columns.histogram_times))
                || !matches_all(&self.query.matchers, own)
            {
                continue;
            }
            let mut id = |text: &str| {
                *ids.entry(text.to_owned()).or_insert_with(|| {
                    texts.push(text.into());
                    texts.len() as u32 - 1
                })
            };
            let wanted = |name: &str| self.query.labels.as_ref().is_none_or(|w| w.iter().any(|w| w == name));
            labels.push(own.iter().filter(|(n, _)| wanted(n)).map(|(n, v)| (id(n), id(v))).collect());
            samples.push(Arc::clone(columns));
            if labels.len() == BATCH_SERIES {
                break;
            }
        }
        let dictionary = Arc::new(Texts(texts));
        (!labels.is_empty()).then_some(SeriesBatch { dictionary, labels, samples, held: None })
    }
}

impl SeriesSet for Found<'_> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<SeriesBatch>, Error>> {
        let batch = self.batch();
        Box::pin(std::future::ready(Ok(batch)))
    }
}
