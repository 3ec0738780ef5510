//! Finds the numbers of the values that a few series of a block have of a label, from the lists of all
//! of its values.
//!
//! Series far apart are on many pages, whose columns have all series between them. The lists are shorter
//! than these columns if the label groups the series.

use std::sync::Arc;

use sandur_format::sample_block::index::{Index, Part};

use super::columns::columns_cost;
use super::{IndexError, IndexReader, cost_of, plain_of, stored_of};

/// The most series that are read by lists; more are read by columns.
pub(super) const FEW_MAX: u64 = 1 << 20;
/// Series are read by columns as well if they are more than this fraction of all, since they are then
/// close together.
pub(super) const FEW_SHARE: u64 = 4;
/// Number of pages of lists that are read together.
const LISTS_AT_ONCE: usize = 64;

impl IndexReader {
    /// Returns the number of the value of each of these series, or 0 for none. The series must ascend
    /// and be on these pages. Returns `None` if reading columns costs less, or if there are no series.
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
            // Pages are decoded one after the other.
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
                    // The list before that of the first value has all series with the label.
                    for number in page.first.max(1)..page.first.saturating_add(page.count) {
                        let _ = sandur_memory::job::spend(64);
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
