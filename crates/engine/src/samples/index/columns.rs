//! Applies matchers to the columns of series, where that costs less than reading lists.
//!
//! Each value is tested once. If all values of a page of series match, or none does, its series are not
//! tested one by one.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{
    Column, ColumnNumbers, Index, Label, Part, TextRef, each_passing_row,
};
use sandur_model::Matcher;

use super::dictionary::Passing;
use super::{IndexError, IndexReader, cost_of, memory_of};

/// Cost of testing a series, in bytes.
pub(super) const LOOK_BYTES: u64 = 2;

/// If at least this fraction of the series of a page are tested, testing all of its rows is faster than
/// walking the set of series.
const ROWS_SHARE: u64 = 4;
/// Number of pages of series that are checked together.
const PAGES_AT_ONCE: usize = 64;
/// The most bytes that a page of numbers takes while it is checked.
const PAGE_BYTES: u64 = 40 << 10;

/// The results of testing the values of a label.
#[derive(Clone, Debug)]
pub(super) struct Verdicts {
    label: usize,
    matchers: Vec<Matcher>,
    without: bool,
    /// Numbers of the values that were tested; `None` if all were.
    known: Option<RoaringBitmap>,
    passing: RoaringBitmap,
}

/// The numbers of a label on one page of series.
pub(super) enum PageNumbers {
    Missing,
    Constant(u32),
    Each(Arc<ColumnNumbers>),
}

impl Verdicts {
    /// No value was tested yet.
    pub(super) fn unknown(label: usize, matchers: Vec<Matcher>) -> Self {
        let without = matchers.iter().all(Matcher::matches_empty);
        Self { label, matchers, without, known: Some(RoaringBitmap::new()), passing: RoaringBitmap::new() }
    }

    /// All values were tested.
    pub(super) fn known(passing: Passing) -> Self {
        let Passing { label, numbers, without } = passing;
        Self { label, matchers: Vec::new(), without, known: None, passing: numbers }
    }

    /// The numbers on these pages that were not tested yet.
    fn unknown_of(&self, pages: &[(u32, PageNumbers)]) -> RoaringBitmap {
        let Some(known) = &self.known else { return RoaringBitmap::new() };
        let mut unknown = RoaringBitmap::new();
        for (_, numbers) in pages {
            match numbers {
                PageNumbers::Missing => {}
                PageNumbers::Constant(number) => _ = unknown.insert(*number),
                PageNumbers::Each(numbers) => unknown |= RoaringBitmap::from_iter(&numbers.distinct),
            }
        }
        unknown - known
    }

    /// The verdict on each value of a page, and on series without the label.
    fn of_page<'n>(&self, numbers: &'n PageNumbers) -> OfPage<'n> {
        let passes = |number: u32| self.passing.contains(number);
        let numbers = match numbers {
            PageNumbers::Missing => return OfPage::all_or_none(self.without),
            PageNumbers::Constant(number) => return OfPage::all_or_none(passes(*number)),
            PageNumbers::Each(numbers) => numbers,
        };
        let of_values = numbers.distinct.iter().map(|number| passes(*number));
        let verdicts: Vec<bool> = std::iter::once(self.without).chain(of_values).collect();
        match verdicts.iter().all(|passes| *passes == verdicts[0]) {
            true => OfPage::all_or_none(verdicts[0]),
            false => OfPage::Some { rows: &numbers.rows, verdicts },
        }
    }

    /// Removes the series of some pages that do not match. Pages of which all series match, or none, cost
    /// the same however many series they have; `looked_at` is the number of series on all other pages.
    fn retain(
        &self,
        index: &Index,
        (pages, looked_at): (&[(u32, PageNumbers)], u64),
        series: &mut RoaringBitmap,
    ) {
        // They ascend, so a set of them is made in one step.
        let mut found = Vec::with_capacity(looked_at as usize);
        for (page, numbers) in pages {
            let of = index.series_of(*page);
            match self.of_page(numbers) {
                OfPage::All => continue,
                OfPage::None => {}
                OfPage::Some { rows, verdicts } => {
                    let selected = series.range_cardinality(of.clone());
                    let is_selected = |at: &u32| selected == of.len() as u64 || series.contains(*at);
                    if selected * ROWS_SHARE >= of.len() as u64 {
                        each_passing_row(rows, &verdicts, |row| {
                            found.extend(Some(of.start + row as u32).filter(is_selected));
                        });
                    } else {
                        let passes = |at: &u32| verdicts[usize::from(rows[(at - of.start) as usize])];
                        found.extend(series.range(of.clone()).filter(passes));
                    }
                }
            }
            series.remove_range(of);
        }
        *series |= RoaringBitmap::from_sorted_iter(found).unwrap_or_default();
    }
}

/// Which series of a page match.
enum OfPage<'n> {
    All,
    None,
    /// Those whose code has the verdict `true`.
    Some {
        rows: &'n [u16],
        verdicts: Vec<bool>,
    },
}

impl OfPage<'_> {
    fn all_or_none(all: bool) -> Self {
        if all { Self::All } else { Self::None }
    }
}

/// The cost of reading the columns of a label for checking series on some pages.
pub(super) fn columns_cost(label: &Label, pages: &[u32]) -> u64 {
    let part = |page: &u32| match label.column(*page) {
        Some(Column::Each(part)) => cost_of(part),
        _ => 0,
    };
    pages.iter().map(part).sum()
}

impl IndexReader {
    /// Returns those of the series whose values match.
    pub(super) async fn checked(
        &self,
        mut series: RoaringBitmap,
        mut verdicts: Verdicts,
    ) -> Result<RoaringBitmap, IndexError> {
        let label = verdicts.label;
        let values = u64::from(self.index().labels()[label].values());
        let _memory = self.reserve(values / 4 + 1024)?;
        for some in self.pages_of(&series).chunks(PAGES_AT_ONCE) {
            self.check()?;
            let of = &self.index().labels()[label];
            let each = |page: &u32| match of.column(*page) {
                Some(Column::Each(part)) => Some((*page, *part)),
                _ => None,
            };
            let columns: Vec<(u32, Part)> = some.iter().filter_map(each).collect();
            let parts: Vec<Part> = columns.iter().map(|(_, part)| *part).collect();
            let _memory = self.reserve(memory_of(&parts) + parts.len() as u64 * PAGE_BYTES)?;
            let decoded = self.kept_columns(label, &columns).await?;
            let numbers = numbers_of(of, some, decoded);
            let unknown = verdicts.unknown_of(&numbers);
            if !unknown.is_empty() {
                verdicts = self.judged(verdicts, unknown).await?;
            }
            let of_columns =
                |(page, _): &(u32, Part)| series.range_cardinality(self.index().series_of(*page));
            let looked_at: u64 = columns.iter().map(of_columns).sum();
            let _found = self.reserve(looked_at * size_of::<u32>() as u64)?;
            let work = move |index: &Index| {
                verdicts.retain(index, (&numbers, looked_at), &mut series);
                Ok((verdicts, series))
            };
            (verdicts, series) = self.decode(looked_at * LOOK_BYTES, work).await?;
        }
        Ok(series)
    }

    /// Tests these values as well.
    async fn judged(&self, mut verdicts: Verdicts, numbers: RoaringBitmap) -> Result<Verdicts, IndexError> {
        let label = verdicts.label;
        let of = &self.index().labels()[label];
        let mut pages: Vec<TextRef> = Vec::new();
        for number in &numbers {
            let Some((page, _)) = of.text_page_of(number) else { continue };
            if pages.last().is_none_or(|last| last.page != page) {
                pages.push(TextRef { label, page });
            }
        }
        for some in pages.chunks(PAGES_AT_ONCE) {
            let mut memory = self.reserve(0)?;
            let texts = self.texts(some.to_vec(), &mut memory).await?;
            let numbers = numbers.clone();
            let bytes: u64 = texts.iter().map(|(_, page)| page.text_bytes() as u64).sum();
            let steps = verdicts.matchers.iter().map(Matcher::steps_per_byte).sum::<usize>().max(1) as u64;
            let work = move |index: &Index| {
                for (text, page) in texts {
                    let of = &index.labels()[text.label].text_pages()[text.page];
                    let first = of.first + 1;
                    for number in numbers.range(first..first.saturating_add(of.count)) {
                        let value = page.get((number - first) as usize);
                        let _ = sandur_memory::job::spend(value.len() + 16);
                        if verdicts.matchers.iter().all(|matcher| matcher.matches(value)) {
                            verdicts.passing.insert(number);
                        }
                        verdicts.known.iter_mut().for_each(|known| _ = known.insert(number));
                    }
                }
                Ok(verdicts)
            };
            verdicts = self.decode(bytes.saturating_mul(steps), work).await?;
        }
        Ok(verdicts)
    }
}

pub(super) fn numbers_of(
    label: &Label,
    pages: &[u32],
    decoded: Vec<Arc<ColumnNumbers>>,
) -> Vec<(u32, PageNumbers)> {
    let mut decoded = decoded.into_iter();
    let of_page = |page: &u32| {
        let numbers = match label.column(*page) {
            None => PageNumbers::Missing,
            Some(Column::Constant(number)) => PageNumbers::Constant(*number),
            Some(Column::Each(_)) => PageNumbers::Each(decoded.next()?),
        };
        Some((*page, numbers))
    };
    pages.iter().map_while(of_page).collect()
}
