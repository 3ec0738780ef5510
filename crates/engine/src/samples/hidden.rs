//! What delete requests hide of samples: times of series.
//!
//! A rule names series by matchers and a range of time; no sample has to be looked at. Exemplars have to,
//! since no index knows them.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use foldhash::fast::RandomState;
use roaring::RoaringBitmap;
use sandur_format::catalog_entry::BlockMeta;
use sandur_format::sample_block::SeriesExemplars;
use sandur_format::sample_block::index::SeriesSpan;
use sandur_model::{Exemplar, Labels, MILLISECOND_NS, Matcher, TimeRange};

use super::OpenSamples;
use super::index::{IndexError, IndexReader};
use crate::retention::{ExpiredSeries, Expiry};
use crate::rules::Rule;

/// Pages of series that are looked at together.
const PAGES_AT_ONCE: usize = 64;

/// Times in milliseconds, both ends included.
pub(super) type Times = (i64, i64);

/// The series of a block that a rule names.
async fn named(reader: &IndexReader, rule: &Rule) -> Result<RoaringBitmap, IndexError> {
    let matchers = rule.selector.matchers();
    let series = reader.select(matchers).await?;
    if !rule.selector.is_exact() || series.is_empty() {
        return Ok(series);
    }
    let names = reader.names(&series).await?;
    let others: Vec<Matcher> = names.iter().filter_map(|name| rule.names_without(name)).collect();
    match others.is_empty() {
        true => Ok(series),
        false => reader.select(&[matchers, &others].concat()).await,
    }
}

/// Whether one of these times holds a sample's.
pub(super) fn hides(times: &[Times], time_ms: i64) -> bool {
    times.iter().any(|(first, last)| (*first..=*last).contains(&time_ms))
}

/// The times of a series that rules hide.
pub(super) fn times_of<'a>(rules: impl Iterator<Item = &'a Arc<Rule>>, labels: &Labels) -> Vec<Times> {
    let of_series = rules.filter(|rule| rule.names_series(labels));
    of_series.map(|rule| rule.range.milliseconds()).collect()
}

/// What rules do to a block.
#[derive(Default)]
pub(crate) struct HiddenSamples {
    /// Series of which every sample is hidden.
    pub(super) gone: RoaringBitmap,
    /// The hidden times of the others that have some.
    pub(super) partly: HashMap<u32, Vec<Times>, RandomState>,
    /// The times beside those of which a part of the block is made.
    outside: Vec<Times>,
    /// The rules that may hide exemplars.
    pub(super) rules: Vec<Arc<Rule>>,
    /// Whether they hide some.
    pub(super) has_hidden_exemplars: bool,
    /// What takes series out that are kept no longer, and the newest time of the block.
    expiry: Option<(Arc<Expiry>, i64)>,
}

impl HiddenSamples {
    /// Applies the rules to a block. Those that it is known to be clean of are left out.
    pub(super) async fn of_block<'a>(
        block: &Arc<OpenSamples>,
        reader: &IndexReader,
        rules: impl Iterator<Item = &'a Arc<Rule>>,
    ) -> Result<Self, IndexError> {
        let mut hidden = Self::default();
        let clean_of = block.meta.deletes_through;
        for rule in rules.filter(|rule| rule.started.is_none_or(|at| at > clean_of)) {
            let range = rule.range;
            if !range.touches(block.meta.min_ts, block.meta.max_ts) {
                continue;
            }
            let matchers = rule.selector.matchers();
            if block.footer.exemplars().iter().any(|page| page.may_hold(matchers, rule.range)) {
                hidden.rules.push(Arc::clone(rule));
            }
            let series = named(reader, rule).await?;
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

    /// Takes series of the block out that are kept no longer, and later on their exemplars.
    pub(super) fn take_out(
        &mut self,
        expired: &ExpiredSeries,
        (block, expiry): (&Arc<BlockMeta>, &Arc<Expiry>),
    ) {
        self.gone |= &expired.series;
        self.partly.retain(|series, _| !expired.series.contains(*series));
        self.expiry = Some((Arc::clone(expiry), block.max_ts));
    }

    /// Hides all that lies outside of a window, whose ends are whole milliseconds.
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

    /// Takes the exemplars out that rules hide, and those of series that are kept no longer.
    pub(super) fn drop_exemplars(&self, of: &mut SeriesExemplars) {
        if let Some((expiry, newest_ns)) = &self.expiry {
            let time_ns = |one: &Exemplar| one.timestamp.saturating_mul(MILLISECOND_NS);
            of.exemplars.retain(|one| !expiry.ends(&of.labels, time_ns(one).max(*newest_ns)));
        }
        let times = times_of(self.rules.iter(), &of.labels);
        let is_hidden = |one: &Exemplar| hides(&times, one.timestamp) || hides(&self.outside, one.timestamp);
        of.exemplars.retain(|one| !is_hidden(one));
    }

    /// Whether every sample of these series from one time to another is hidden.
    pub(super) fn are_gone(&self, series: RangeInclusive<u32>, (min_ms, max_ms): Times) -> bool {
        let is_outside = |(first, last): &Times| *first <= min_ms && max_ms <= *last;
        let all = u64::from(series.end() - series.start()) + 1;
        self.gone.range_cardinality(series) == all || self.outside.iter().any(is_outside)
    }

    /// The hidden times of a series that is not gone.
    pub(super) fn times_of(&self, series: u32) -> &[Times] {
        self.partly.get(&series).unwrap_or(&self.outside)
    }
}
