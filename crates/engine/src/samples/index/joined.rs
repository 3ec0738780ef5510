//! Combinations of the values that some series of a block have of several labels.
//!
//! Columns are read page by page of series, and a combination is one of numbers until all are known: texts
//! are read of those values alone that are part of one. Series are sorted, so that those with the same
//! combination follow each other, at least where it is that of the first labels of their order, and where all
//! series of a page have one value of a label, nothing of that label is read. Where series stand far from
//! each other, lists of values may be shorter than columns ([`super::few`]).

use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_base::{Reservation, job};
use sandur_format::sample_block::index::{Column, Index, Part, TextRef};
use sandur_query::{JoinedLabels, JoinedTexts, TextBatch, beyond};

use super::columns::{PageNumbers, numbers_of};
use super::few::{FEW_MAX, FEW_SHARE};
use super::{IndexError, IndexReader, memory_of};

/// Pages of series whose columns are read at once.
const PAGES_AT_ONCE: usize = 64;
/// Pages of texts that are read at once.
const TEXTS_AT_ONCE: usize = 64;
/// Bytes that a page of numbers takes at most.
const PAGE_BYTES: u64 = 40 << 10;
/// Bytes of a text beside its letters.
const TEXT_BYTES: u64 = 16;
/// So many combinations are looked through for repeated ones for the first time.
const LOOK_MIN: usize = 1 << 16;

/// Numbers of values, one for each label: one combination after the other.
struct Combinations {
    width: usize,
    numbers: Vec<u32>,
    /// When repeated ones are taken out next.
    look_at: usize,
}

/// The labels that are put together, and the series whose values are.
struct Of<'s> {
    labels: Vec<usize>,
    series: &'s RoaringBitmap,
    /// The same in order, if they are few.
    ordinals: Arc<Vec<u32>>,
    /// The numbers that each series has of a label, where they are read by lists.
    by_lists: Vec<Option<Arc<Vec<u32>>>>,
}

/// Numbers of a label: of the series of a page, or of some series in order.
enum Numbers<'n> {
    OfPage(&'n PageNumbers),
    OfSome(&'n [u32]),
}

/// The texts of some values of a label.
struct Values {
    /// Rising.
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

    /// Adds one that is not the one before.
    fn add(&mut self, numbers: &[u32]) {
        if !self.numbers.ends_with(numbers) {
            self.numbers.extend_from_slice(numbers);
            if self.len() > self.look_at {
                self.take_repeated_out();
            }
        }
    }

    /// Takes repeated ones out, unless it did so of half as many before.
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
    /// The text of a number; `hint` is the place of the one before, which most are next to.
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

    /// Those of the series of some pages, beside what was found before.
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

    /// The texts of some values of a label.
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
    /// That of a series: by its place on the page, or among the series that are asked about.
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
        // A job that is stopped gives an answer that nobody uses.
        let _ = job::spend(labels.len());
        next.clear();
        next.extend(labels.iter().map_while(|label| label.get((ordinal - of.start) as usize, place)));
        if next.len() == labels.len() {
            found.add(&next);
        }
    }
}

/// The values of the only label of a page that has several, if each series has one of them and all other
/// labels have one value.
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
