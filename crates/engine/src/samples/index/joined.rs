//! Combinations of the values of several labels in series of a block.
//!
//! Columns are read a page of series at a time, and combinations consist of numbers until all are known.
//! Only then are texts read, and only those of values that are part of a combination. Series are sorted,
//! so equal combinations are adjacent, at least for the first labels of the order. If all series of a
//! page have one value of a label, nothing of that label is read for the page. For series far apart,
//! lists of values may be shorter than columns ([`super::few`]).

use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{Column, Index, Part, TextRef};
use sandur_memory::{Reservation, job};
use sandur_query::{JoinedLabels, JoinedTexts, TextBatch, beyond};

use super::columns::{PageNumbers, numbers_of};
use super::few::{FEW_MAX, FEW_SHARE};
use super::{IndexError, IndexReader, memory_of};

/// Number of pages of series whose columns are read together.
const PAGES_AT_ONCE: usize = 64;
/// Number of pages of texts that are read together.
const TEXTS_AT_ONCE: usize = 64;
/// The most bytes that a page of numbers takes.
const PAGE_BYTES: u64 = 40 << 10;
/// Bytes of a text in addition to its characters.
const TEXT_BYTES: u64 = 16;
/// Number of combinations at which repeated ones are removed for the first time.
const LOOK_MIN: usize = 1 << 16;

/// Combinations of numbers of values, one number for each label, one combination after the other.
struct Combinations {
    width: usize,
    numbers: Vec<u32>,
    /// The number of combinations at which repeated ones are removed next.
    look_at: usize,
}

/// The labels to combine, and the series whose values are combined.
struct Of<'s> {
    labels: Vec<usize>,
    series: &'s RoaringBitmap,
    /// The ordinals of the series in order, if they are few; otherwise empty.
    ordinals: Arc<Vec<u32>>,
    /// For each label, the number of each series, if it is read by lists.
    by_lists: Vec<Option<Arc<Vec<u32>>>>,
}

/// Numbers of a label: of the series of a page, or of some series in order.
enum Numbers<'n> {
    OfPage(&'n PageNumbers),
    OfSome(&'n [u32]),
}

/// The texts of some values of a label.
struct Values {
    /// Ascending.
    numbers: Vec<u32>,
    texts: TextBatch,
}

impl Combinations {
    fn new(width: usize) -> Self {
        Self { width, numbers: Vec::new(), look_at: LOOK_MIN }
    }

    fn len(&self) -> usize {
        self.numbers.len() / self.width.max(1)
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.numbers.chunks_exact(self.width.max(1))
    }

    /// Adds a combination unless it equals the previous one.
    fn add(&mut self, numbers: &[u32]) {
        if !self.numbers.ends_with(numbers) {
            self.numbers.extend_from_slice(numbers);
            if self.len() > self.look_at {
                self.take_repeated_out();
            }
        }
    }

    /// Removes repeated combinations. The next time is when there are twice as many.
    fn take_repeated_out(&mut self) {
        let _ = job::spend(self.numbers.len() * 16);
        let mut sorted: Vec<&[u32]> = self.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let look_at = (sorted.len() * 2).max(LOOK_MIN);
        if sorted.len() < self.len() {
            self.numbers = sorted.concat();
        }
        self.look_at = look_at;
    }
}

impl Values {
    /// The text of a number. `hint` is the position of the previous one, which is usually the same or
    /// adjacent.
    fn get(&self, number: u32, hint: &mut usize) -> &str {
        let is_at = |place: &usize| self.numbers.get(*place) == Some(&number);
        let near = [*hint, *hint + 1].into_iter().find(is_at);
        let place = near.or_else(|| self.numbers.binary_search(&number).ok());
        *hint = place.unwrap_or(0);
        place.map_or("", |place| self.texts.get(place))
    }
}

impl IndexReader {
    /// Adds the combinations of values that these series have.
    pub(crate) async fn joined_values(
        &self,
        wanted: &JoinedLabels,
        series: &RoaringBitmap,
        texts: &mut JoinedTexts,
    ) -> Result<(), IndexError> {
        let place = |name: &String| {
            self.index().labels().binary_search_by(|label| (**label.name()).cmp(name.as_str())).ok()
        };
        let Some(labels) = wanted.labels.iter().map(place).collect::<Option<Vec<usize>>>() else {
            return Ok(());
        };
        let pages = self.pages_of(series);
        let few_max = (u64::from(self.index().series()) / FEW_SHARE).min(FEW_MAX);
        let some = if series.len() <= few_max { series.len() } else { 0 };
        let mut memory = self.reserve(some * 4)?;
        let ordinals: Arc<Vec<u32>> = Arc::new(series.iter().take(some as usize).collect());
        let mut by_lists = Vec::with_capacity(labels.len());
        for label in &labels {
            let numbers = self.numbers_by_lists(*label, &ordinals, &pages).await?;
            memory.grow(numbers.as_ref().map_or(0, |numbers| numbers.len() as u64 * 4))?;
            by_lists.push(numbers);
        }
        let held = memory.bytes();
        let of = Of { labels, series, ordinals, by_lists };
        let mut found = Combinations::new(of.labels.len());
        for some in pages.chunks(PAGES_AT_ONCE) {
            self.check()?;
            found = self.combinations(&of, some, found).await?;
            if found.len() > wanted.limit {
                found.take_repeated_out();
            }
            if found.len() > wanted.limit {
                return Err(beyond(wanted.limit).into());
            }
            memory.resize(held + found.numbers.capacity() as u64 * 4)?;
        }
        let mut values = Vec::with_capacity(of.labels.len());
        for (at, label) in of.labels.iter().enumerate() {
            let numbers: RoaringBitmap = found.iter().map(|combination| combination[at]).collect();
            values.push(self.values_of_numbers(*label, &numbers, &mut memory).await?);
        }
        let mut hints = vec![0; values.len()];
        let mut of_one: Vec<&str> = Vec::with_capacity(values.len());
        for combination in found.iter() {
            of_one.clear();
            let each = combination.iter().zip(&values).zip(&mut hints);
            of_one.extend(each.map(|((number, of), hint)| of.get(*number, hint)));
            texts.add(of_one.iter().copied(), wanted.separator)?;
        }
        Ok(())
    }

    /// Adds the combinations of the series of some pages to those found so far.
    async fn combinations(
        &self,
        of: &Of<'_>,
        pages: &[u32],
        mut found: Combinations,
    ) -> Result<Combinations, IndexError> {
        let mut memory = self.reserve(0)?;
        let mut columns: Vec<Vec<(u32, PageNumbers)>> = Vec::with_capacity(of.labels.len());
        for (label, by_lists) in of.labels.iter().zip(&of.by_lists) {
            let own = &self.index().labels()[*label];
            let each = |page: &u32| match own.column(*page) {
                Some(Column::Each(part)) if by_lists.is_none() => Some((*page, *part)),
                _ => None,
            };
            let stored: Vec<(u32, Part)> = pages.iter().filter_map(each).collect();
            let parts: Vec<Part> = stored.iter().map(|(_, part)| *part).collect();
            memory.grow(memory_of(&parts) + parts.len() as u64 * PAGE_BYTES)?;
            let decoded = self.kept_columns(*label, &stored).await?;
            columns.push(if by_lists.is_none() { numbers_of(own, pages, decoded) } else { Vec::new() });
        }
        let (series, pages) = (self.of_pages(of.series, pages), pages.to_vec());
        let (ordinals, by_lists) = (Arc::clone(&of.ordinals), of.by_lists.clone());
        let work = move |index: &Index| {
            for (at, page) in pages.iter().enumerate() {
                let own = index.series_of(*page);
                let first = ordinals.partition_point(|ordinal| *ordinal < own.start);
                let numbers = columns.iter().zip(&by_lists).map(|(column, by_lists)| match by_lists {
                    Some(numbers) => numbers.get(first..).map(Numbers::OfSome),
                    None => column.get(at).map(|(_, numbers)| Numbers::OfPage(numbers)),
                });
                if let Some(numbers) = numbers.collect::<Option<Vec<Numbers<'_>>>>() {
                    add_page(&numbers, &series, own, &mut found);
                }
            }
            Ok(found)
        };
        self.decode(memory.bytes().max(of.ordinals.len() as u64), work).await
    }

    /// Reads the texts of some values of a label.
    async fn values_of_numbers(
        &self,
        label: usize,
        numbers: &RoaringBitmap,
        memory: &mut Reservation,
    ) -> Result<Values, IndexError> {
        let of = &self.index().labels()[label];
        let mut pages: Vec<TextRef> = Vec::new();
        for number in numbers {
            let Some((page, _)) = of.text_page_of(number) else { continue };
            if pages.last().is_none_or(|last| last.page != page) {
                pages.push(TextRef { label, page });
            }
        }
        let mut values = Values { numbers: Vec::new(), texts: TextBatch::default() };
        for some in pages.chunks(TEXTS_AT_ONCE) {
            self.check()?;
            let mut read = self.reserve(0)?;
            let before = (values.numbers.len(), values.texts.text_bytes());
            for (text, page) in self.texts(some.to_vec(), &mut read).await? {
                let entry = &of.text_pages()[text.page];
                let first = entry.first + 1;
                for number in numbers.range(first..first.saturating_add(entry.count)) {
                    let value = page.get((number - first) as usize);
                    values.numbers.push(number);
                    values.texts.push(value);
                }
            }
            let new = (values.numbers.len() - before.0, values.texts.text_bytes() - before.1);
            memory.grow(new.1 as u64 + new.0 as u64 * TEXT_BYTES)?;
        }
        Ok(values)
    }
}

impl Numbers<'_> {
    /// The number of a series: by its row on the page, or by its position among the selected series.
    fn get(&self, row: usize, place: usize) -> Option<u32> {
        match self {
            Self::OfPage(PageNumbers::Missing) => None,
            Self::OfPage(PageNumbers::Constant(number)) => Some(*number),
            Self::OfPage(PageNumbers::Each(numbers)) => {
                let place = usize::from(*numbers.rows.get(row)?).checked_sub(1)?;
                numbers.distinct.get(place).copied()
            }
            Self::OfSome(numbers) => numbers.get(place).copied().filter(|number| *number > 0),
        }
    }
}

/// Adds the combinations of the series of a page.
fn add_page(labels: &[Numbers<'_>], series: &RoaringBitmap, of: Range<u32>, found: &mut Combinations) {
    if let Some(distinct) =
        only_varying(labels).filter(|_| series.range_cardinality(of.clone()) == of.len() as u64)
    {
        let row = |value: u32| {
            let number = |label: &Numbers<'_>| match label {
                Numbers::OfPage(PageNumbers::Constant(number)) => *number,
                _ => value,
            };
            labels.iter().map(number).collect::<Vec<u32>>()
        };
        distinct.iter().for_each(|value| found.add(&row(*value)));
        return;
    }
    let is_constant = |label: &Numbers<'_>| {
        matches!(label, Numbers::OfPage(PageNumbers::Missing | PageNumbers::Constant(_)))
    };
    let rows = if labels.iter().all(is_constant) { 1 } else { usize::MAX };
    let mut next = Vec::with_capacity(labels.len());
    for (place, ordinal) in series.range(of.clone()).take(rows).enumerate() {
        // The result of a stopped job is not used.
        let _ = job::spend(labels.len());
        next.clear();
        next.extend(labels.iter().map_while(|label| label.get((ordinal - of.start) as usize, place)));
        if next.len() == labels.len() {
            found.add(&next);
        }
    }
}

/// The values of the only label with several values on a page, if each series has one of them and every
/// other label has one value.
fn only_varying<'c>(labels: &'c [Numbers<'_>]) -> Option<&'c [u32]> {
    let mut varying = None;
    for label in labels {
        match label {
            Numbers::OfPage(PageNumbers::Constant(_)) => {}
            Numbers::OfPage(PageNumbers::Each(numbers)) if varying.is_none() => varying = Some(numbers),
            _ => return None,
        }
    }
    let numbers = varying?;
    (!numbers.rows.contains(&0)).then_some(&numbers.distinct)
}
