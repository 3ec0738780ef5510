//! Pages of series: the labels and spans of 4,096 series at a time.

use std::sync::Arc;

use roaring::RoaringBitmap;
use sandur_format::sample_block::index::{
    Index, PAGE_SERIES, Part, SeriesColumns, SeriesPage, SeriesSpan, TextPage, TextRef,
};
use sandur_memory::Reservation;
use sandur_model::{MILLISECOND_NS, TimeRange};

use super::kept::{KEPT_TEXT_PAGES, SPANS_BYTES};
use super::wanted_labels::WantedLabels;
use super::{IndexError, IndexReader, memory_of, open_all, plain_of};
use crate::blocks::cache::{Piece, for_the_cache};

/// Number of pages of series whose spans are read together.
const SPANS_AT_ONCE: usize = 256;

/// A page of series, with the reservation of its memory.
#[derive(Clone)]
pub(crate) struct HeldPage {
    pub(crate) page: Arc<SeriesPage>,
    _memory: Arc<Reservation>,
}

/// Whether decoded pages of the label's texts are cached, which holds for labels with few values.
fn of_label_is_kept(index: &Index, text: &TextRef) -> bool {
    index.labels()[text.label].text_pages().len() <= KEPT_TEXT_PAGES
}

impl IndexReader {
    /// Reads a page of series with all labels or with the wanted ones. With `keep` and all labels, the
    /// decoded page is cached.
    pub(crate) async fn page(
        &self,
        number: u32,
        wanted: &WantedLabels,
        keep: bool,
    ) -> Result<HeldPage, IndexError> {
        let (cache, id) = (self.reader.cache(), self.block.meta.id);
        if let Some(page) = cache.get::<SeriesPage>(id, Piece::Series(number)) {
            let memory = self.reserve(page.memory_bytes())?;
            return Ok(HeldPage { page, _memory: Arc::new(memory) });
        }
        self.check()?;
        let parts = SeriesColumns::parts(self.index(), number, &|name| wanted.has(name));
        let mut memory = self.reserve(memory_of(&parts))?;
        let stored = self.stored(&parts).await?;
        let plain = plain_of(&parts);
        let of = wanted.clone();
        let work = move |index: &_| {
            SeriesColumns::decode(index, number, &|name| of.has(name), &open_all(&parts, &stored)?)
        };
        let columns = self.decode(plain, work).await?;
        memory.grow(columns.memory_bytes())?;
        let texts = self.texts(columns.texts(self.index()), &mut memory).await?;
        let bytes = texts.iter().map(|(_, page)| page.memory_bytes()).sum();
        let keep = keep && matches!(wanted, WantedLabels::All);
        let work = move |index: &_| {
            let finish = || columns.finish(index, &texts);
            if keep { for_the_cache(finish) } else { finish() }
        };
        let page = self.decode(bytes, work).await?;
        memory.resize(page.memory_bytes())?;
        let page = Arc::new(page);
        if keep {
            cache.insert(id, Piece::Series(number), Arc::clone(&page), page.memory_bytes());
        }
        Ok(HeldPage { page, _memory: Arc::new(memory) })
    }

    /// Reads pages of texts. Uncached ones are read together.
    pub(super) async fn texts(
        &self,
        wanted: Vec<TextRef>,
        memory: &mut Reservation,
    ) -> Result<Vec<(TextRef, Arc<TextPage>)>, IndexError> {
        let (cache, id, index) = (self.reader.cache(), self.block.meta.id, self.index());
        let entry = |text: &TextRef| &index.labels()[text.label].text_pages()[text.page];
        let is_kept = |text: &TextRef| of_label_is_kept(index, text);
        // Pages are decoded one after the other.
        let plain = wanted.iter().map(|text| u64::from(entry(text).part.plain)).max().unwrap_or(0);
        memory.grow(plain + wanted.iter().map(|text| entry(text).kept_bytes()).sum::<u64>())?;
        let key = |text: &TextRef| Piece::Texts(entry(text).part.address);
        let known: Vec<Option<Arc<TextPage>>> =
            wanted.iter().map(|text| if is_kept(text) { cache.get(id, key(text)) } else { None }).collect();
        let unknown: Vec<TextRef> =
            wanted.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(text, _)| *text).collect();
        let parts: Vec<Part> = unknown.iter().map(|text| entry(text).part).collect();
        let stored = self.stored(&parts).await?;
        let work = {
            let unknown = unknown.clone();
            move |index: &Index| {
                let page = |(text, stored): (&TextRef, &bytes::Bytes)| {
                    let of = &index.labels()[text.label].text_pages()[text.page];
                    let page = || index.texts(of, &of.part.open(stored)?).map(Arc::new);
                    if of_label_is_kept(index, text) { for_the_cache(page) } else { page() }
                };
                unknown.iter().zip(&stored).map(page).collect::<Result<Vec<_>, _>>()
            }
        };
        let read = self.decode(plain_of(&parts), work).await?;
        for (text, page) in unknown.iter().zip(&read).filter(|(text, _)| is_kept(text)) {
            cache.insert(id, key(text), Arc::clone(page), page.memory_bytes());
        }
        let mut read = read.into_iter();
        let all = wanted.into_iter().zip(known);
        Ok(all.filter_map(|(text, known)| Some((text, known.or_else(|| read.next())?))).collect())
    }

    /// Returns those of the series that may have samples in a range.
    pub(crate) async fn touching(
        &self,
        mut series: RoaringBitmap,
        range: TimeRange,
    ) -> Result<RoaringBitmap, IndexError> {
        let mut across = Vec::new();
        for number in self.pages_of(&series) {
            let page = &self.index().pages()[number as usize];
            let is_empty = page.min_ms > page.max_ms;
            let ns = |ms: i64| ms.saturating_mul(MILLISECOND_NS);
            if is_empty || !range.touches(ns(page.min_ms), ns(page.max_ms)) {
                series.remove_range(self.index().series_of(number));
            } else if !page.is_full || !range.covers(ns(page.min_ms), ns(page.max_ms)) {
                across.push(number);
            }
        }
        let touches = SeriesSpan::touching(range);
        for some in across.chunks(SPANS_AT_ONCE) {
            self.check()?;
            let some = self.not_plainly_touching(some, range).await?;
            series -= self.each_span(&some, &series, move |span| !touches(span)).await?;
        }
        Ok(series)
    }

    /// Returns the pages whose series must be tested one by one for samples in a range.
    async fn not_plainly_touching(&self, pages: &[u32], range: TimeRange) -> Result<Vec<u32>, IndexError> {
        if !self.keeps_pages(pages.len()) {
            return Ok(pages.to_vec());
        }
        let _memory = self.reserve(self.spans_memory(pages))?;
        let spans = self.kept_spans(pages).await?;
        let looked_at = pages.iter().zip(&spans).filter(|(_, kept)| !kept.all_touch(range));
        Ok(looked_at.map(|(page, _)| *page).collect())
    }

    /// Bytes of memory for decoding and using the spans of some pages, when they are cached.
    fn spans_memory(&self, pages: &[u32]) -> u64 {
        let parts: Vec<Part> = pages.iter().map(|page| self.index().pages()[*page as usize].spans).collect();
        memory_of(&parts) + pages.len() as u64 * SPANS_BYTES
    }

    /// Returns those of the series, on some pages, whose spans pass a test.
    pub(crate) async fn each_span(
        &self,
        pages: &[u32],
        series: &RoaringBitmap,
        test: impl Fn(&SeriesSpan) -> bool + Send + 'static,
    ) -> Result<RoaringBitmap, IndexError> {
        if pages.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        let of_pages = self.of_pages(series, pages);
        if self.keeps_pages(pages.len()) {
            let _memory = self.reserve(self.spans_memory(pages))?;
            let spans = self.kept_spans(pages).await?;
            let mut found = Tested::default();
            let each = pages.iter().zip(&spans);
            each.for_each(|(page, kept)| found.add(self.index(), *page, &kept.spans, &of_pages, &test));
            return Ok(found.set());
        }
        let parts: Vec<Part> = pages.iter().map(|page| self.index().pages()[*page as usize].spans).collect();
        let (pages, plain) = (pages.to_vec(), plain_of(&parts));
        let _memory = self.reserve(memory_of(&parts) + pages.len() as u64 * 1024 + SPANS_BYTES)?;
        let stored = self.stored(&parts).await?;
        let work = move |index: &Index| {
            let mut found = Tested::default();
            for ((page, part), stored) in pages.iter().zip(&parts).zip(&stored) {
                found.add(index, *page, &index.spans(*page, &part.open(stored)?)?, &of_pages, &test);
            }
            Ok(found.set())
        };
        self.decode(plain, work).await
    }

    /// Those of the series that are on some pages.
    pub(crate) fn of_pages(&self, series: &RoaringBitmap, pages: &[u32]) -> RoaringBitmap {
        let mut of_pages = RoaringBitmap::new();
        pages.iter().for_each(|page| _ = of_pages.insert_range(self.index().series_of(*page)));
        of_pages & series
    }

    /// The pages that have some of the series, ascending. Does not look at the series between the first ones
    /// of two pages.
    pub(crate) fn pages_of(&self, series: &RoaringBitmap) -> Vec<u32> {
        let (mut pages, mut rest) = (Vec::new(), series.iter());
        while let Some(first) = rest.next() {
            let page = first / PAGE_SERIES;
            pages.push(page);
            rest.advance_to((page + 1).saturating_mul(PAGE_SERIES));
        }
        pages
    }
}

/// Ordinals of series whose spans pass a test, ascending.
#[derive(Default)]
struct Tested(Vec<u32>);

impl Tested {
    /// Tests the series of a page, among these.
    fn add(
        &mut self,
        index: &Index,
        page: u32,
        spans: &[SeriesSpan],
        series: &RoaringBitmap,
        test: impl Fn(&SeriesSpan) -> bool,
    ) {
        let of = index.series_of(page);
        if series.range_cardinality(of.clone()) == of.len() as u64 {
            let passing = of.zip(spans).filter(|(_, span)| test(span));
            return self.0.extend(passing.map(|(ordinal, _)| ordinal));
        }
        let passes = |ordinal: &u32| test(&spans[(ordinal - of.start) as usize]);
        self.0.extend(series.range(of.clone()).filter(passes));
    }

    fn set(self) -> RoaringBitmap {
        RoaringBitmap::from_sorted_iter(self.0).unwrap_or_default()
    }
}
