//! Estimates how many rows rollups would save in blocks. Reads the indexes, but no samples.
//!
//! **Invariant.** The estimate assumes that points are evenly spaced. Each of several blocks counts as
//! having its share of a path's points, and of the steps at its begin and end. In a block with more than
//! a quarter of a million series only some are examined. Points that were rolled before do not count, so
//! that a day is not rolled repeatedly for nothing.

use std::sync::{Arc, Mutex, PoisonError};

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::SeriesSpan;
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, RollupLabels};
use sandur_runtime::Lane;

use super::path::{Kind, LEAST_FACTOR};
use crate::blocks::reader::BlockReader;
use crate::path_labels::path_of;
use crate::policy::rollups::{DayRollup, RollupStep};
use crate::samples::OpenSamples;
use crate::samples::index::{HeldPage, IndexError, IndexReader, WantedLabels};

/// Series whose rules are found in one job.
const LABELS_AT_ONCE: usize = 256;
/// The most pages of series that are examined in a block: finding the rules of all series of a large
/// block would take longer than rolling their points.
const PAGES_MAX: usize = 64;
/// Bytes of the data about a page's series while it is examined.
const PAGE_BYTES: u64 = 256 << 10;
/// Number of aggregates that replace the points of a step.
const AGGREGATES: u64 = 6;
/// Fewer points never save enough: they count as those of two steps at least.
const LEAST_ROWS: u64 = CUT_STEPS * AGGREGATES * LEAST_FACTOR as u64;
/// Steps at the begin and the end of a path's points, which these fill partly.
const CUT_STEPS: u64 = 2;

/// Returns by how many rows the blocks would shrink if their points were rolled.
pub(crate) async fn rows_saved(
    reader: &BlockReader,
    blocks: &[Arc<OpenSamples>],
    rollup: &Arc<DayRollup>,
    budget: &MemoryBudget,
) -> Result<u64, IndexError> {
    let mut saved = 0.0;
    for (number, block) in blocks.iter().enumerate() {
        let index = IndexReader::for_upkeep(reader, budget, block);
        let sets = u64::from(block.footer.index().series()) + (16 << 10);
        let _memory = budget.reserve(sets + PAGE_BYTES)?;
        let mut series = RoaringBitmap::new();
        for matchers in rollup.any_of() {
            series |= index.select(&matchers).await?;
        }
        let mut estimate = Estimate::new(rollup, blocks.len());
        let (pages, stand_for) = some_of(index.pages_of(&series), number);
        for page in pages {
            let held = index.page(page, &WantedLabels::All, false).await?;
            let of_page: Vec<u32> = index.of_pages(&series, &[page]).iter().collect();
            let spans = spans_of(&index, page, &series).await?;
            for some in of_page.into_iter().zip(spans).collect::<Vec<_>>().chunks(LABELS_AT_ONCE) {
                let (held, some) = (held.clone(), some.to_vec());
                let work = move || {
                    some.iter().for_each(|(series, span)| estimate.add(&held, *series, span));
                    estimate
                };
                estimate = reader.env.run_cpu(Lane::Background, work).await;
            }
        }
        saved += estimate.saved * stand_for;
    }
    Ok(saved as u64)
}

/// Pages at equal distances, with another offset in each block, and the number of pages that each of
/// them represents.
fn some_of(pages: Vec<u32>, block: usize) -> (Vec<u32>, f64) {
    let apart = pages.len().div_ceil(PAGES_MAX).max(1);
    let some: Vec<u32> = pages.iter().copied().skip(block % apart).step_by(apart).collect();
    let stand_for = pages.len() as f64 / some.len().max(1) as f64;
    (some, stand_for)
}

/// The spans of the series of a page, by ascending ordinal.
async fn spans_of(
    index: &IndexReader,
    page: u32,
    series: &RoaringBitmap,
) -> Result<Vec<SeriesSpan>, IndexError> {
    let spans = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&spans);
    let note = move |span: &SeriesSpan| {
        into.lock().unwrap_or_else(PoisonError::into_inner).push(*span);
        false
    };
    index.each_span(&[page], series, note).await?;
    Ok(std::mem::take(&mut *spans.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// The estimate for a block. Its series must be added in order.
struct Estimate {
    rollup: Arc<DayRollup>,
    /// The number of blocks that share the points of a path.
    blocks: u64,
    /// The last path with a rollup, which precedes its points, and the first and last time of the rollup.
    rolled: (Labels, i64, i64),
    /// The last path whose rule was looked up, and the result. Looking up dominates the cost, and the
    /// aggregates of a path are adjacent.
    rule: (Labels, Option<RollupStep>),
    saved: f64,
}

impl Estimate {
    fn new(rollup: &Arc<DayRollup>, blocks: usize) -> Self {
        let (rolled, rule) = ((Labels::default(), 0, 0), (Labels::default(), None));
        let (rollup, blocks) = (Arc::clone(rollup), blocks.max(1) as u64);
        Self { rollup, blocks, rolled, rule, saved: 0.0 }
    }

    fn add(&mut self, held: &HeldPage, series: u32, span: &SeriesSpan) {
        let pairs = held.page.pairs(series);
        let kind = Kind::of(pairs.clone());
        let Some(path) = path_of(pairs).filter(|_| span.rows > 0 && kind != Kind::Other) else { return };
        if let Kind::Rolled(RollupLabels { step, .. }) = kind {
            self.note_rolled(&path, span.min_ms, span.max_ms.saturating_add(step.saturating_mul(1_000)));
        }
        if kind == Kind::Sent && span.rows.saturating_mul(self.blocks) < LEAST_ROWS {
            return;
        }
        if self.rule.0 != path {
            self.rule = (path.clone(), self.rollup.step_of(&path));
        }
        let Some(to) = self.rule.1 else { return };
        let (rows, length_ms) = match kind {
            Kind::Sent => self.outside(&path, span),
            Kind::Rolled(_) | Kind::Other => (span.rows, span.max_ms.saturating_sub(span.min_ms)),
        };
        let steps = self.steps(length_ms, to);
        let after = match kind {
            Kind::Rolled(RollupLabels { step, .. }) if step < to.step && to.step % step == 0 => steps,
            Kind::Sent => steps * AGGREGATES as f64,
            Kind::Rolled(_) | Kind::Other => return,
        };
        if after * LEAST_FACTOR as f64 <= rows as f64 {
            self.saved += rows as f64 - after;
        }
    }

    /// The block's share of a path's steps, if its points span `length_ms`.
    fn steps(&self, length_ms: i64, to: RollupStep) -> f64 {
        length_ms as f64 / to.step.saturating_mul(1_000).max(1) as f64 + CUT_STEPS as f64 / self.blocks as f64
    }

    fn note_rolled(&mut self, path: &Labels, first_ms: i64, last_ms: i64) {
        let (of, first, last) = &mut self.rolled;
        if of != path {
            path.clone_into(of);
            (*first, *last) = (first_ms, last_ms);
        }
        (*first, *last) = ((*first).min(first_ms), (*last).max(last_ms));
    }

    /// An estimate of the number of a path's points before or after its rollup, and of the time that
    /// they span.
    fn outside(&self, path: &Labels, span: &SeriesSpan) -> (u64, i64) {
        let length = span.max_ms.saturating_sub(span.min_ms);
        let (of, first, last) = &self.rolled;
        if of != path {
            return (span.rows, length);
        }
        let within = (*last).min(span.max_ms).saturating_sub((*first).max(span.min_ms)).max(0);
        let share = (length - within) as f64 / length.max(1) as f64;
        ((span.rows as f64 * share) as u64, length - within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_labels::labels_of_path;
    use crate::policy::rollups::RollupSteps;
    use sandur_model::{Matcher, TimeRange};

    struct ToMinutes;

    impl RollupSteps for ToMinutes {
        fn version(&self) -> u64 {
            1
        }

        fn ages_ns(&self) -> &[i64] {
            &[0]
        }

        fn any_of(&self) -> Vec<Vec<Matcher>> {
            Vec::new()
        }

        fn steps(&self, _: &Labels, _: i64) -> Option<RollupStep> {
            Some(RollupStep { finest: 1, step: 60 })
        }
    }

    #[test]
    fn points_that_a_rollup_covers_save_nothing() {
        let rollup = DayRollup::new(Arc::new(ToMinutes), TimeRange::new(0, 1), 10).unwrap();
        let mut estimate = Estimate::new(&Arc::new(rollup), 1);
        let [a, b] = ["a", "b"].map(|path| labels_of_path(path).unwrap());
        let span = |rows, min_ms, max_ms| SeriesSpan { rows, min_ms, max_ms };
        assert_eq!(estimate.outside(&a, &span(100, 0, 50_000)), (100, 50_000));
        estimate.note_rolled(&a, 10_000, 20_000);
        estimate.note_rolled(&a, 15_000, 30_000);
        assert_eq!(estimate.outside(&a, &span(100, 0, 50_000)), (60, 30_000));
        assert_eq!(estimate.outside(&a, &span(100, 12_000, 25_000)), (0, 0));
        assert_eq!(estimate.outside(&a, &span(100, 40_000, 50_000)), (100, 10_000));
        assert_eq!(estimate.outside(&b, &span(100, 0, 50_000)), (100, 50_000));
        estimate.note_rolled(&b, 0, 50_000);
        assert_eq!(estimate.outside(&b, &span(1, 5, 5)), (0, 0));
        assert_eq!(estimate.outside(&a, &span(1, 5, 5)), (1, 0));
    }

    #[test]
    fn blocks_share_the_steps_at_their_ends() {
        let rollup = Arc::new(DayRollup::new(Arc::new(ToMinutes), TimeRange::new(0, 1), 10).unwrap());
        let to = RollupStep { finest: 1, step: 60 };
        let steps = |blocks, length_ms| Estimate::new(&rollup, blocks).steps(length_ms, to);
        assert_eq!((steps(1, 600_000), steps(1, 6_000)), (12.0, 2.1));
        assert_eq!((steps(4, 45_000) * 4.0, steps(1, 180_000)), (5.0, 5.0), "as of one block");
    }

    #[test]
    fn some_of_many_pages_represent_all() {
        assert_eq!(some_of((0..64).collect(), 7), ((0..64).collect(), 1.0));
        assert_eq!(some_of(Vec::new(), 1), (Vec::new(), 0.0));
        let (some, stand_for) = some_of((0..1_000).collect(), 17);
        assert_eq!((some.len(), some[0], some[1], stand_for), (63, 1, 17, 1_000.0 / 63.0));
    }
}
