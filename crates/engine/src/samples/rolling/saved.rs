//! How many rows rollups would save of blocks. The index decides, no sample is read.
//!
//! **Invariant.** It is an estimate: points are taken for evenly spaced, and each of several blocks for one
//! that has its share of the points of a path and of the steps at its begin and end; of a block with more
//! than a quarter of a million series some are looked at. What was rolled before counts no more, so that a
//! day is not rolled for nothing again and again.

use std::sync::{Arc, Mutex, PoisonError};

use roaring::RoaringBitmap;
use sandur_base::{Lane, MemoryBudget};
use sandur_format::sample_block::index::SeriesSpan;
use sandur_model::{Labels, RollupLabels};

use super::path::{Kind, LEAST_FACTOR};
use super::path_of;
use crate::block_reader::BlockReader;
use crate::rollups::{DayRollup, RollupStep};
use crate::samples::OpenSamples;
use crate::samples::index::{HeldPage, IndexError, IndexReader, WantedLabels};

/// Series whose rules are looked for in one job.
const LABELS_AT_ONCE: usize = 256;
/// Pages of series that are looked at in a block: to find the rules of all series of a large one would take
/// longer than to roll their points.
const PAGES_MAX: usize = 64;
/// What is kept of the series of a page while it is looked at.
const PAGE_BYTES: u64 = 256 << 10;
/// Aggregates that a step of points becomes.
const AGGREGATES: u64 = 6;
/// Fewer points never pay: they are taken for those of two steps at least.
const LEAST_ROWS: u64 = CUT_STEPS * AGGREGATES * LEAST_FACTOR as u64;
/// Steps of which the first and the last point of a path are a part.
const CUT_STEPS: u64 = 2;

/// Rows that become fewer when the points of these blocks are rolled.
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

/// Pages at equal distances, other ones in the next block of several, and for how many each of them stands.
fn some_of(pages: Vec<u32>, block: usize) -> (Vec<u32>, f64) {
    let apart = pages.len().div_ceil(PAGES_MAX).max(1);
    let some: Vec<u32> = pages.iter().copied().skip(block % apart).step_by(apart).collect();
    let stand_for = pages.len() as f64 / some.len().max(1) as f64;
    (some, stand_for)
}

/// What the series of a page hold, by rising ordinal.
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

/// The estimate of a block, whose series come in order.
struct Estimate {
    rollup: Arc<DayRollup>,
    /// The blocks that share the points of a path.
    blocks: u64,
    /// The last path that has a rollup, which comes before its points, and the times that it is of.
    rolled: (Labels, i64, i64),
    /// The last path whose rule was looked for, and what it says: that takes longest, and the aggregates of a
    /// path follow each other.
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

    /// The share of a block in the steps of a path of which it has points of so long a time.
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

    /// About how many of the points of a path are before or after its rollup, and of how long a time.
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
    use crate::rollups::RollupSteps;
    use sandur_model::{Matcher, TimeRange, graphite_path_labels};

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
        let [a, b] = ["a", "b"].map(|path| graphite_path_labels(path).unwrap());
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
    fn blocks_share_the_steps_that_they_cut() {
        let rollup = Arc::new(DayRollup::new(Arc::new(ToMinutes), TimeRange::new(0, 1), 10).unwrap());
        let to = RollupStep { finest: 1, step: 60 };
        let steps = |blocks, length_ms| Estimate::new(&rollup, blocks).steps(length_ms, to);
        assert_eq!((steps(1, 600_000), steps(1, 6_000)), (12.0, 2.1));
        assert_eq!((steps(4, 45_000) * 4.0, steps(1, 180_000)), (5.0, 5.0), "as of one block");
    }

    #[test]
    fn of_many_pages_some_stand_for_all() {
        assert_eq!(some_of((0..64).collect(), 7), ((0..64).collect(), 1.0));
        assert_eq!(some_of(Vec::new(), 1), (Vec::new(), 0.0));
        let (some, stand_for) = some_of((0..1_000).collect(), 17);
        assert_eq!((some.len(), some[0], some[1], stand_for), (63, 1, 17, 1_000.0 / 63.0));
    }
}
