//! What delete requests hide of samples: time ranges of series.
//!
//! A rule names series by matchers and a time range, so no sample must be read. Exemplars must be read,
//! since no index lists them.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::index::SeriesSpan;
use sandur_format::sample_block::{ExemplarPage, SeriesExemplars};
use sandur_memory::job::JobMemory;
use sandur_model::{Exemplar, Labels, MILLISECOND_NS, Matcher, TimeRange};
use sandur_query::Error;

use super::OpenSamples;
use super::index::{IndexError, IndexReader};
use crate::error::FilterError;
use crate::policy::expired::ExpiredSeries;
use crate::policy::retention::Expiry;
use crate::rules::Rule;
use crate::rules::filters::Naming;

/// The number of pages of series that are examined together.
const PAGES_AT_ONCE: usize = 64;

/// A time range in milliseconds, both ends inclusive.
pub(super) type Times = (i64, i64);

/// The series of a block that the query of a rule names.
async fn named(reader: &IndexReader, naming: &Naming) -> Result<RoaringBitmap, IndexError> {
    let matchers = naming.matchers();
    let series = reader.select(matchers).await?;
    if !naming.is_exact() || series.is_empty() {
        return Ok(series);
    }
    let names = reader.names(&series).await?;
    let others: Vec<Matcher> = names.iter().filter_map(|name| naming.names_without(name)).collect();
    match others.is_empty() {
        true => Ok(series),
        false => reader.select(&[matchers, &others].concat()).await,
    }
}

/// Whether one of the time ranges contains a time.
pub(super) fn hides(times: &[Times], time_ms: i64) -> bool {
    times.iter().any(|(first, last)| (*first..=*last).contains(&time_ms))
}

/// The time ranges that rules hide of each of several series.
pub(super) struct HiddenTimes {
    of_series: Vec<Vec<Times>>,
    _held: JobMemory,
}

impl HiddenTimes {
    /// Applies one rule after the other, because there may be memory for only one compiled query at a
    /// time. Runs in a job on the CPU pool. A series without labels is skipped.
    pub(super) fn of<'a>(
        rules: impl Iterator<Item = &'a Arc<Rule>>,
        series: &[Option<Labels>],
    ) -> Result<Self, Error> {
        let (mut of_series, mut held, mut count) = (vec![Vec::new(); series.len()], JobMemory::default(), 0);
        for rule in rules {
            let naming = rule.naming_here()?;
            let asked = series.iter().zip(&mut of_series);
            let asked = asked.filter_map(|(labels, times)| Some((labels.as_ref()?, times)));
            for (_, times) in asked.filter(|(labels, _)| naming.names_series(labels)) {
                times.push(rule.range.milliseconds());
                count += 1;
                held.at_least(count * size_of::<Times>() as u64)?;
            }
        }
        Ok(Self { of_series, _held: held })
    }

    /// Hides nothing.
    pub(super) fn none() -> Self {
        Self { of_series: Vec::new(), _held: JobMemory::default() }
    }

    /// The hidden time ranges of the series at this position.
    pub(super) fn of_series(&self, place: usize) -> &[Times] {
        self.of_series.get(place).map_or(&[], Vec::as_slice)
    }
}

/// Started requests that may hide exemplars of a block that is merged.
#[derive(Default)]
pub(super) struct HidingExemplars(Vec<(Naming, TimeRange)>);

impl HidingExemplars {
    /// The rules of which the block is not known to be clean, if they may hide exemplars of it.
    pub(super) async fn of_block(block: &OpenSamples, rules: &[Arc<Rule>]) -> Result<Self, FilterError> {
        let mut all = Self::default();
        for rule in rules.iter().filter(|rule| concerns(rule, &block.meta)) {
            all.0.push((rule.naming().await?, rule.range));
        }
        all.0.retain(|one| block.footer.exemplars().iter().any(|page| may_hold(page, one)));
        Ok(all)
    }

    /// Whether a request may hide exemplars of the page.
    pub(super) fn may_concern(&self, page: &ExemplarPage) -> bool {
        self.0.iter().any(|one| may_hold(page, one))
    }

    /// The hidden time ranges of a series.
    pub(super) fn times_of(&self, labels: &Labels) -> Vec<Times> {
        let naming = self.0.iter().filter(|(naming, _)| naming.names_series(labels));
        naming.map(|(_, range)| range.milliseconds()).collect()
    }
}

fn may_hold(page: &ExemplarPage, (naming, range): &(Naming, TimeRange)) -> bool {
    page.may_hold(naming.matchers(), *range)
}

/// Whether a rule may name samples of a block that is not known to be clean of it.
fn concerns(rule: &Rule, block: &BlockMeta) -> bool {
    let is_new = rule.started.is_none_or(|at| at > block.deletes_through);
    is_new && rule.range.touches(block.min_ts, block.max_ts)
}

/// The effect of rules on a block.
#[derive(Default)]
pub(crate) struct HiddenSamples {
    /// Series whose samples are all hidden.
    pub(super) gone: RoaringBitmap,
    /// The hidden time ranges of other series.
    pub(super) partly: HashMap<u32, Vec<Times>, RandomState>,
    /// The time ranges outside of a part of the block, if only that part is kept.
    outside: Vec<Times>,
    /// The requests that hide exemplars, when the block is merged.
    pub(super) exemplars: Arc<HidingExemplars>,
    /// Whether these requests hide any exemplar.
    pub(super) has_hidden_exemplars: bool,
    /// The retention that removes series, and the newest time of the block.
    expiry: Option<(Arc<Expiry>, i64)>,
}

impl HiddenSamples {
    /// Applies the rules to a block. Skips rules of which the block is known to be clean.
    pub(super) async fn of_block<'a>(
        block: &Arc<OpenSamples>,
        reader: &IndexReader,
        rules: impl Iterator<Item = &'a Arc<Rule>>,
    ) -> Result<Self, IndexError> {
        let mut hidden = Self::default();
        for rule in rules.filter(|rule| concerns(rule, &block.meta)) {
            let range = rule.range;
            let series = named(reader, &rule.naming().await.map_err(Error::from)?).await?;
            let series = reader.touching(series, range).await?;
            for some in reader.pages_of(&series).chunks(PAGES_AT_ONCE) {
                let is_covered = move |span: &SeriesSpan| span.is_covered_by(range);
                let gone = reader.each_span(some, &series, is_covered).await?;
                let partly = reader.of_pages(&series, some) - &gone;
                hidden.gone |= gone;
                for series in partly {
                    hidden.partly.entry(series).or_default().push(range.milliseconds());
                }
            }
        }
        hidden.partly.retain(|series, _| !hidden.gone.contains(*series));
        Ok(hidden)
    }

    /// Removes expired series of the block, and later their exemplars.
    pub(super) fn take_out(
        &mut self,
        expired: &ExpiredSeries,
        (block, expiry): (&Arc<BlockMeta>, &Arc<Expiry>),
    ) {
        self.gone |= &expired.series;
        self.partly.retain(|series, _| !expired.series.contains(*series));
        self.expiry = Some((Arc::clone(expiry), block.max_ts));
    }

    /// Hides all samples outside of a window, whose ends must be multiples of a millisecond.
    pub(crate) fn keep_only(&mut self, window: TimeRange) {
        let (first, end) = (window.start.div_euclid(MILLISECOND_NS), window.end.div_euclid(MILLISECOND_NS));
        self.outside = vec![(i64::MIN, first - 1), (end, i64::MAX)];
        self.partly.values_mut().for_each(|times| times.extend(&self.outside));
    }

    /// Whether nothing is hidden.
    pub(crate) fn is_nothing(&self) -> bool {
        let is_whole = self.outside.is_empty() && !self.has_hidden_exemplars;
        self.gone.is_empty() && self.partly.is_empty() && is_whole
    }

    /// Removes the exemplars that rules hide and those of expired series.
    pub(super) fn drop_exemplars(&self, of: &mut SeriesExemplars) {
        if let Some((expiry, newest_ns)) = &self.expiry {
            let time_ns = |one: &Exemplar| one.timestamp.saturating_mul(MILLISECOND_NS);
            of.exemplars.retain(|one| !expiry.ends(&of.labels, time_ns(one).max(*newest_ns)));
        }
        let times = self.exemplars.times_of(&of.labels);
        let is_hidden = |one: &Exemplar| hides(&times, one.timestamp) || hides(&self.outside, one.timestamp);
        of.exemplars.retain(|one| !is_hidden(one));
    }

    /// Whether every sample of these series in this time range is hidden.
    pub(super) fn are_gone(&self, series: RangeInclusive<u32>, (min_ms, max_ms): Times) -> bool {
        let is_outside = |(first, last): &Times| *first <= min_ms && max_ms <= *last;
        let all = u64::from(series.end() - series.start()) + 1;
        self.gone.range_cardinality(series) == all || self.outside.iter().any(is_outside)
    }

    /// The hidden time ranges of a series that is not completely hidden.
    pub(super) fn times_of(&self, series: u32) -> &[Times] {
        self.partly.get(&series).unwrap_or(&self.outside)
    }
}
