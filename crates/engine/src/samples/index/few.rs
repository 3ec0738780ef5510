//! Numbers of the values that a few series of a block have of a label, by the lists of all of its values.
//!
//! Series that stand far from each other are on many pages, and the columns of these pages hold all series
//! that lie between them. The lists of a label that groups its series are shorter than that.

use std::sync::Arc;

use sandur_format::sample_block::index::{Index, Part};

use super::columns::columns_cost;
use super::{IndexError, IndexReader, cost_of, plain_of, stored_of};

/// More series are read by their columns.
pub(super) const FEW_MAX: u64 = 1 << 20;
/// So are series that are more than one in so many of all: they stand close to each other.
pub(super) const FEW_SHARE: u64 = 4;
/// Pages of lists that are read at once.
const LISTS_AT_ONCE: usize = 64;

impl IndexReader {
    /// The number of the value that each of these series has, which rise and are on these pages, or 0;
    /// nothing when it takes less to read columns, or when none is given.
    pub(super) async fn numbers_by_lists(
        &self,
        label: usize,
        series: &Arc<Vec<u32>>,
        pages: &[u32],
    ) -> Result<Option<Arc<Vec<u32>>>, IndexError> {
        let of = &self.index().labels()[label];
        let lists: u64 = of.list_pages().iter().map(|page| cost_of(&page.part)).sum();
        if series.is_empty() || lists >= columns_cost(of, pages) {
            return Ok(None);
        }
        let mut numbers = vec![0; series.len()];
        let all: Vec<usize> = (0..of.list_pages().len()).collect();
        for some in all.chunks(LISTS_AT_ONCE) {
            self.check()?;
            let parts: Vec<Part> = some.iter().map(|page| of.list_pages()[*page].part).collect();
            // One page after the other is decoded.
            let table = |page: &usize| u64::from(of.list_pages()[*page].count) * 16;
            let largest = some.iter().zip(&parts).map(|(page, part)| part.memory_bytes() + table(page)).max();
            let _memory = self.reserve(stored_of(&parts) + largest.unwrap_or(0))?;
            let stored = self.stored(&parts).await?;
            let (pages, plain, series) = (some.to_vec(), plain_of(&parts), Arc::clone(series));
            let work = move |index: &Index| {
                let of = &index.labels()[label];
                for ((page, part), stored) in pages.iter().zip(&parts).zip(&stored) {
                    let page = &of.list_pages()[*page];
                    let lists = index.lists(page, &part.open(stored)?)?;
                    // The list before the first value is that of all series with the label.
                    for number in page.first.max(1)..page.first.saturating_add(page.count) {
                        let _ = sandur_base::job::spend(64);
                        lists.runs((number - page.first) as usize, index.series(), |run| {
                            let from = series.partition_point(|ordinal| *ordinal < run.start);
                            let of_run = series[from..].iter().take_while(|ordinal| **ordinal < run.end);
                            numbers[from..].iter_mut().zip(of_run).for_each(|(own, _)| *own = number);
                        })?;
                    }
                }
                Ok(numbers)
            };
            numbers = self.decode(plain, work).await?;
        }
        Ok(Some(Arc::new(numbers)))
    }
}
