//! Combinations of the values that some series of a block have of several labels.
//!
//! Columns are read page by page of series, and a combination is one of numbers until all are known: texts
//! are read of those values alone that are part of one. Series are sorted, so that those with the same
//! combination follow each other, at least where it is that of the first labels of their order, and where all
//! series of a page have one value of a label, nothing of that label is read.

use std::ops::Range;

use roaring::RoaringBitmap;
use sandur_base::{Reservation, job};
use sandur_format::sample_block::index::{Column, Index, Part, TextRef};
use sandur_query::{JoinedLabels, JoinedTexts, TextBatch, beyond};

use super::columns::{PageNumbers, numbers_of};
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
        let mut memory = self.reserve(0)?;
        let mut found = Combinations::new(labels.len());
        for some in self.pages_of(series).chunks(PAGES_AT_ONCE) {
            self.check()?;
            found = self.combinations(&labels, some, (series, found)).await?;
            if found.len() > wanted.limit {
                found.take_repeated_out();
            }
            if found.len() > wanted.limit {
                return Err(beyond(wanted.limit).into());
            }
            memory.resize(found.numbers.capacity() as u64 * 4)?;
        }
        let mut values = Vec::with_capacity(labels.len());
        for (at, label) in labels.iter().enumerate() {
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
        labels: &[usize],
        pages: &[u32],
        (series, mut found): (&RoaringBitmap, Combinations),
    ) -> Result<Combinations, IndexError> {
        let mut memory = self.reserve(0)?;
        let mut columns: Vec<Vec<(u32, PageNumbers)>> = Vec::with_capacity(labels.len());
        for label in labels {
            let of = &self.index().labels()[*label];
            let each = |page: &u32| match of.column(*page) {
                Some(Column::Each(part)) => Some((*page, *part)),
                _ => None,
            };
            let stored: Vec<(u32, Part)> = pages.iter().filter_map(each).collect();
            let parts: Vec<Part> = stored.iter().map(|(_, part)| *part).collect();
            memory.grow(memory_of(&parts) + parts.len() as u64 * PAGE_BYTES)?;
            let decoded = self.kept_columns(*label, &stored).await?;
            columns.push(numbers_of(of, pages, decoded));
        }
        let (series, pages) = (self.of_pages(series, pages), pages.to_vec());
        let work = move |index: &Index| {
            for (at, page) in pages.iter().enumerate() {
                let of_page: Option<Vec<&PageNumbers>> =
                    columns.iter().map(|column| column.get(at).map(|(_, numbers)| numbers)).collect();
                if let Some(of_page) = of_page {
                    add_page(&of_page, &series, index.series_of(*page), &mut found);
                }
            }
            Ok(found)
        };
        self.decode(memory.bytes(), work).await
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

/// Adds the combinations of the series of a page.
fn add_page(columns: &[&PageNumbers], series: &RoaringBitmap, of: Range<u32>, found: &mut Combinations) {
    let number = |column: &PageNumbers, row: usize| match column {
        PageNumbers::Missing => None,
        PageNumbers::Constant(number) => Some(*number),
        PageNumbers::Each(numbers) => {
            let place = usize::from(*numbers.rows.get(row)?).checked_sub(1)?;
            numbers.distinct.get(place).copied()
        }
    };
    if let Some(distinct) =
        only_varying(columns).filter(|_| series.range_cardinality(of.clone()) == of.len() as u64)
    {
        let row = |value: u32| {
            let number = |column: &&PageNumbers| match column {
                PageNumbers::Constant(number) => *number,
                _ => value,
            };
            columns.iter().map(number).collect::<Vec<u32>>()
        };
        distinct.iter().for_each(|value| found.add(&row(*value)));
        return;
    }
    let is_constant = columns.iter().all(|column| !matches!(column, PageNumbers::Each(_)));
    let rows = if is_constant { 1 } else { usize::MAX };
    let mut next = Vec::with_capacity(columns.len());
    for ordinal in series.range(of.clone()).take(rows) {
        // A job that is stopped gives an answer that nobody uses.
        let _ = job::spend(columns.len());
        next.clear();
        next.extend(columns.iter().map_while(|column| number(column, (ordinal - of.start) as usize)));
        if next.len() == columns.len() {
            found.add(&next);
        }
    }
}

/// The values of the only column of a page that has several, if each series has one of them and all other
/// columns have one value.
fn only_varying<'c>(columns: &[&'c PageNumbers]) -> Option<&'c [u32]> {
    let mut varying = None;
    for column in columns {
        match column {
            PageNumbers::Missing => return None,
            PageNumbers::Constant(_) => {}
            PageNumbers::Each(_) if varying.is_some() => return None,
            PageNumbers::Each(numbers) => varying = Some(numbers),
        }
    }
    let numbers = varying?;
    (!numbers.rows.contains(&0)).then_some(&numbers.distinct)
}
