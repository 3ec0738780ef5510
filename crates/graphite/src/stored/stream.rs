//! Streams the series of a pattern of paths in batches; only one batch is in memory.
//!
//! The parts of a path are adjacent, because series are ordered by name first. So all paths of a batch are
//! complete except the last one, which is kept until the next batch.

use std::sync::Arc;

use sandur_query::{Error, QueryContext, SampleScan};

use super::StoredSeries;
use super::fetch::{Asked, check_samples, samples_of};
use super::parts::{Part, merged, split_last_name};
use crate::glob::Pattern;
use crate::schemas::StorageRules;
use crate::source::{Fetched, Selector, Window};

/// A stream of series.
pub(crate) struct SeriesStream {
    scan: Option<Box<dyn SampleScan>>,
    asked: Arc<Asked>,
    rules: Arc<StorageRules>,
    samples: u64,
    samples_max: u64,
    /// The parts of the last path, of which more may follow.
    last: Vec<Part>,
}

impl StoredSeries<'_> {
    /// Opens the stream of series whose path matches; `None` if no series can.
    pub(crate) async fn stream(
        &self,
        context: &QueryContext,
        pattern: &Pattern,
        window: Window,
    ) -> Result<Option<SeriesStream>, Error> {
        let asked = self.asked(context, Selector::Path(pattern), window)?;
        let Some((asked, selection)) = asked else { return Ok(None) };
        let _turn = context.turn().await?;
        let scan = Some(self.samples.select(context, selection).await?);
        let (rules, samples_max) = (Arc::clone(&self.rules), self.options.samples_max);
        Ok(Some(SeriesStream { scan, asked, rules, samples: 0, samples_max, last: Vec::new() }))
    }
}

impl SeriesStream {
    /// The next batch; `None` after the last. A batch may be empty if its only path continues in the next
    /// one.
    pub(crate) async fn next(&mut self, context: &QueryContext) -> Result<Option<Vec<Fetched>>, Error> {
        let Some(scan) = &mut self.scan else { return Ok(None) };
        context.check()?;
        let _turn = context.turn().await?;
        let mut parts = std::mem::take(&mut self.last);
        match scan.next().await? {
            None => self.scan = None,
            Some(batch) => {
                self.samples += samples_of(&batch);
                check_samples(self.samples, self.samples_max)?;
                let (more, _names) = self.asked.parts(context, &self.rules, batch).await?;
                parts.extend(more);
                self.last = split_last_name(&mut parts);
            }
        }
        let rules = Arc::clone(&self.rules);
        context.compute(move || Ok(merged(parts, &rules)?)).await.map(Some)
    }
}
