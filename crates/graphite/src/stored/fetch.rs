//! Fetches series with their values, at the steps of their rules.

use std::sync::Arc;

use sandur_memory::{Reservation, job};
use sandur_model::{GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP, Matcher};
use sandur_query::{Error, QueryContext, SampleSelection, SeriesBatch};

use super::matchers::{NAME, of_expressions, of_pattern};
use super::named::SeriesCondition;
use super::parts::{Part, Rank, merged, split_last_name, with_rollups};
use super::rolled::{self, KeptAggregate};
use super::{StoredSeries, TEXT_BYTES};
use crate::column::Column;
use crate::evaluate::SERIES_MAX;
use crate::schemas::{Reading, StorageRules};
use crate::source::{Fetched, Selector, Window};
use crate::tags::{TagExpression, canonical_name, parse_name};

/// Fewer samples are converted to columns in place, without a job on the CPU pool.
const LITTLE: usize = 4096;

/// The parameters of a fetch.
pub(super) struct Asked {
    condition: SeriesCondition,
    window: Window,
    /// The first and the last millisecond that are read.
    times_ms: (i64, i64),
}

impl StoredSeries<'_> {
    pub(super) async fn fetch_series(
        &self,
        context: &QueryContext,
        selector: Selector<'_>,
        window: Window,
    ) -> Result<Vec<Fetched>, Error> {
        let Some((asked, selection)) = self.asked(context, selector, window)? else { return Ok(Vec::new()) };
        let _turn = context.turn().await?;
        let mut scan = self.samples.select(context, selection).await?;
        let (mut found, mut last, mut samples) = (Vec::new(), Vec::new(), 0u64);
        while let Some(batch) = scan.next().await? {
            context.check()?;
            samples += samples_of(&batch);
            check_samples(samples, self.options.samples_max)?;
            let (parts, mut texts) = asked.parts(context, &self.rules, batch).await?;
            let mut parts: Vec<Part> = std::mem::take(&mut last).into_iter().chain(parts).collect();
            if parts.iter().any(|part| part.kept.is_some()) {
                last = split_last_name(&mut parts);
                let rules = Arc::clone(&self.rules);
                parts = context.compute(move || Ok(with_rollups(parts, &rules)?)).await?;
                let left = parts.iter().chain(&last).map(|part| text_bytes(&part.fetched.name)).sum();
                if let Some(texts) = texts.as_mut().filter(|texts| left < texts.bytes()) {
                    texts.resize(left)?;
                }
            }
            self.keep(texts);
            found.extend(parts);
            if found.len() > SERIES_MAX {
                return Err(Error::Limit(format!("more than {SERIES_MAX} series fit; narrow the pattern")));
            }
        }
        found.extend(last);
        if found.iter().all(|part| part.rank == Rank::Sent) {
            return Ok(found.into_iter().map(|part| part.fetched).collect());
        }
        let rules = Arc::clone(&self.rules);
        context.compute(move || Ok(merged(found, &rules)?)).await
    }

    /// The first time that any rule reads, inclusive, and the last, exclusive.
    fn read_times(&self, window: Window) -> Option<(i64, i64)> {
        let readings = self.rules.each_archives().filter_map(|archives| Reading::of(archives, window));
        readings.map(|reading| (reading.start, reading.end)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Opens a fetch and the scan of its samples; `None` if no series can match.
    pub(super) fn asked(
        &self,
        context: &QueryContext,
        selector: Selector<'_>,
        window: Window,
    ) -> Result<Option<(Arc<Asked>, SampleSelection)>, Error> {
        let Some((first, last)) = self.read_times(window) else { return Ok(None) };
        let conditions = context.compute_here(|| Ok(conditions(selector)))?;
        let Some((matchers, condition)) = conditions else { return Ok(None) };
        let first_ms = first.saturating_sub(self.options.lookback).saturating_mul(1000);
        let last_ms = last.saturating_mul(1000).saturating_sub(1);
        let mut selection = SampleSelection::all(matchers, first_ms, last_ms);
        selection.starts = false;
        if matches!(condition, SeriesCondition::Path(_)) {
            let labels = [NAME, GRAPHITE_ARCHIVE, GRAPHITE_ROLLUP];
            selection.labels = Some(labels.map(str::to_owned).to_vec());
        }
        Ok(Some((Arc::new(Asked { condition, window, times_ms: (first_ms, last_ms) }), selection)))
    }
}

/// The bytes of a name.
fn text_bytes(name: &str) -> u64 {
    name.len() as u64 + TEXT_BYTES
}

/// The number of samples in a batch.
pub(super) fn samples_of(batch: &SeriesBatch) -> u64 {
    batch.samples.iter().map(|samples| samples.values.len() as u64).sum()
}

/// Fails if more samples were read than allowed.
pub(super) fn check_samples(samples: u64, most: u64) -> Result<(), Error> {
    if samples <= most {
        return Ok(());
    }
    Err(Error::Limit(format!(
        "the request reads more than {most} samples (query.max_samples); ask for fewer series or a shorter \
         time"
    )))
}

impl Asked {
    /// The matching parts of a batch, with the reservation for their names.
    pub(super) async fn parts(
        self: &Arc<Self>,
        context: &QueryContext,
        rules: &Arc<StorageRules>,
        batch: SeriesBatch,
    ) -> Result<(Vec<Part>, Option<Reservation>), Error> {
        let (asked, rules) = (Arc::clone(self), Arc::clone(rules));
        let samples: usize = batch.samples.iter().map(|samples| samples.values.len()).sum();
        let count = samples + batch.labels.len().saturating_mul(asked.condition.steps());
        let fill = move || -> Result<_, Error> {
            let (mut found, mut texts) = (Vec::new(), 0);
            for series in 0..batch.labels.len() {
                job::spend(64)?;
                let Some(part) = asked.part(&rules, &batch, series)? else { continue };
                texts += text_bytes(&part.fetched.name);
                found.push(part);
            }
            Ok((found, job::reserve_exactly(texts)?))
        };
        context.compute_sized(count < LITTLE, fill).await
    }

    /// A part of a series at the steps of its rule; `None` if it does not match or has no value in the time
    /// range.
    fn part(&self, rules: &StorageRules, batch: &SeriesBatch, series: usize) -> Result<Option<Part>, Error> {
        let samples = &batch.samples[series];
        let (first_ms, last_ms) = self.times_ms;
        let first = samples.times.partition_point(|time| *time < first_ms);
        if samples.times.get(first).is_none_or(|time| *time > last_ms) {
            return Ok(None);
        }
        let Some(name) = self.condition.name(batch, series) else { return Ok(None) };
        let rule = rules.of(&name);
        let Some(reading) = Reading::of(rule.archives, self.window) else { return Ok(None) };
        let step = rule.archives[reading.archive].step;
        let (start, end) = (reading.start, reading.end);
        if let Some(rollup) = rolled::of_series(batch, series) {
            // Such labels can only be written by hand; they have no meaning in Graphite.
            let Ok((steps, aggregate)) = rollup else { return Ok(None) };
            let kept = Some(KeptAggregate::new(aggregate, reading, samples)?);
            let rank = if steps.step > step { Rank::RolledCoarser(steps) } else { Rank::Rolled(steps) };
            let fetched = Fetched { name, start, end, step, values: Column::default() };
            return Ok(Some(Part { fetched, rank, kept }));
        }
        let rank = Rank::of(batch, series, step);
        let values = rank.values(rule, reading, &samples.times, &samples.values)?;
        Ok(Some(Part { fetched: Fetched { name, start, end, step, values }, rank, kept: None }))
    }
}

/// The label matchers of a selector, and the exact condition; `None` if no series can match.
fn conditions(selector: Selector<'_>) -> Option<(Vec<Matcher>, SeriesCondition)> {
    Some(match selector {
        Selector::Path(pattern) => (of_pattern(pattern)?.of_leaves(), SeriesCondition::by(selector)),
        Selector::Tags(expressions) => (of_expressions(expressions).0, SeriesCondition::by(selector)),
        Selector::Name(name) => {
            let tags = parse_name(name).ok()?;
            let texts: Vec<String> = tags.iter().map(|(tag, value)| format!("{tag}={value}")).collect();
            let expressions = TagExpression::parse_all(texts.iter().map(String::as_str)).ok()?;
            (of_expressions(&expressions).0, SeriesCondition::by(Selector::Name(&canonical_name(&tags))))
        }
    })
}
