//! Caches decoded parts between queries: of blocks with few series, and of the few pages of a large block
//! that a query for few series reads.
//!
//! Blocks never change, so a cached part is never stale. The caller reserves memory for what it uses,
//! cached or not.

use std::sync::Arc;

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::sample_block::index::{Column, ColumnNumbers, Index, Part, Place, SeriesSpan, TextPage};
use sandur_model::TimeRange;

use super::wanted_labels::WantedLabels;
use super::{IndexError, IndexReader, plain_of};
use crate::blocks::cache::{Piece, for_the_cache};

/// Blocks with more pages of series have their spans and columns not cached, unless few are read at once.
const KEPT_SERIES_PAGES: usize = 32;
/// Up to this many spans or columns that are read at once are cached in every block.
const KEPT_AT_ONCE: usize = 8;
/// Labels with more pages of texts have these not cached.
pub(super) const KEPT_TEXT_PAGES: usize = 16;
/// The most bytes of the decoded spans of a page of series.
pub(super) const SPANS_BYTES: u64 =
    (sandur_format::sample_block::index::PAGE_SERIES as usize * size_of::<SeriesSpan>()) as u64 + 96;

/// The spans of the series of a page.
#[derive(Debug)]
pub(super) struct KeptSpans {
    pub(super) spans: Vec<SeriesSpan>,
    /// The latest first time and the earliest last time of all series; `None` if one of them has no samples.
    together_ms: Option<(i64, i64)>,
}

impl KeptSpans {
    fn new(spans: Vec<SeriesSpan>) -> Self {
        let all_have = !spans.is_empty() && spans.iter().all(|span| span.rows > 0);
        let begun = spans.iter().map(|span| span.min_ms).max().filter(|_| all_have);
        let ends = spans.iter().map(|span| span.max_ms).min();
        Self { together_ms: begun.zip(ends), spans }
    }

    /// Whether all series certainly may have samples in a range.
    pub(super) fn all_touch(&self, range: TimeRange) -> bool {
        let (first_ms, last_ms) = range.milliseconds();
        self.together_ms.is_some_and(|(begun, ends)| begun <= last_ms && ends >= first_ms)
    }
}

/// A page of sorted texts with their numbers.
#[derive(Debug)]
pub(super) struct SortedTexts {
    pub(super) texts: Arc<TextPage>,
    pub(super) numbers: Vec<u32>,
}

impl IndexReader {
    /// Whether all decoded spans and columns of the block are cached.
    fn keeps_series(&self) -> bool {
        self.index().pages().len() <= KEPT_SERIES_PAGES
    }

    /// Whether decoded spans or columns are cached when those of this many pages are read at once.
    pub(super) fn keeps_pages(&self, pages: usize) -> bool {
        self.keeps_series() || pages <= KEPT_AT_ONCE
    }

    /// Returns the spans of the series of some pages.
    pub(super) async fn kept_spans(&self, pages: &[u32]) -> Result<Vec<Arc<KeptSpans>>, IndexError> {
        let parts: Vec<Part> = pages.iter().map(|page| self.index().pages()[*page as usize].spans).collect();
        let pieces = pages.iter().map(|page| Piece::Spans(*page)).collect();
        let numbers = pages.to_vec();
        let decode = move |index: &Index, at: usize, plain: &Bytes| {
            index.spans(numbers[at], plain).map(KeptSpans::new)
        };
        let bytes = |kept: &KeptSpans| size_of_val(&kept.spans[..]) as u64 + 96;
        self.kept((pieces, parts), self.keeps_pages(pages.len()), bytes, decode).await
    }

    /// Returns the numbers of a label on some pages of series: those of these parts.
    pub(super) async fn kept_columns(
        &self,
        label: usize,
        columns: &[(u32, Part)],
    ) -> Result<Vec<Arc<ColumnNumbers>>, IndexError> {
        let pieces = columns.iter().map(|(_, part)| Piece::Column(part.address)).collect();
        let parts = columns.iter().map(|(_, part)| *part).collect();
        let keep = self.keeps_pages(columns.len());
        let columns = columns.to_vec();
        let decode = move |index: &Index, at: usize, plain: &Bytes| {
            let (page, part) = &columns[at];
            let (count, values) = (index.series_of(*page).len(), index.labels()[label].values());
            ColumnNumbers::decode(part, plain, count, values)
        };
        self.kept((pieces, parts), keep, ColumnNumbers::memory_bytes, decode).await
    }

    /// Whether decoded texts of a label are cached.
    pub(super) fn keeps_texts(&self, label: usize) -> bool {
        self.index().labels()[label].sorted_pages().len() <= KEPT_TEXT_PAGES
    }

    /// Returns pages of the sorted texts of a label.
    pub(super) async fn kept_texts(
        &self,
        label: usize,
        pages: &[usize],
    ) -> Result<Vec<Arc<SortedTexts>>, IndexError> {
        let of = self.index().labels()[label].sorted_pages();
        let parts: Vec<Part> = pages.iter().map(|page| of[*page].part).collect();
        let pieces = parts.iter().map(|part| Piece::SortedTexts(part.address)).collect();
        let pages = pages.to_vec();
        let decode = move |index: &Index, at: usize, plain: &Bytes| {
            let (texts, numbers) = index.sorted_texts(&index.labels()[label], pages[at], plain)?;
            Ok(SortedTexts { texts: Arc::new(texts), numbers })
        };
        let bytes = |page: &SortedTexts| page.texts.memory_bytes() + page.numbers.len() as u64 * 4 + 64;
        self.kept((pieces, parts), self.keeps_texts(label), bytes, decode).await
    }

    /// Whether all parts are available without a read from the store.
    pub(crate) async fn is_in_memory(&self) -> bool {
        for part in self.index().parts() {
            let is_there = match self.index().locate(&part) {
                Ok(Place::Footer(_)) => true,
                Ok(Place::Object(piece)) => self.reader.kept(&self.block.meta, &piece).await.is_some(),
                Err(_) => false,
            };
            if !is_there {
                return false;
            }
        }
        true
    }

    /// Decodes all parts that are cached between queries, if the index has few series.
    pub(crate) async fn decode_all(&self) -> Result<(), IndexError> {
        if !self.keeps_series() {
            return Ok(());
        }
        let pages: Vec<u32> = (0..self.index().pages().len() as u32).collect();
        self.kept_spans(&pages).await?;
        for page in &pages {
            self.page(*page, &WantedLabels::All, true).await?;
        }
        for (at, label) in self.index().labels().iter().enumerate() {
            let each = label.columns().iter().filter_map(|(page, column)| match column {
                Column::Each(part) => Some((*page, *part)),
                Column::Constant(_) => None,
            });
            self.kept_columns(at, &each.collect::<Vec<_>>()).await?;
            if self.keeps_texts(at) {
                self.kept_texts(at, &(0..label.sorted_pages().len()).collect::<Vec<_>>()).await?;
            }
        }
        Ok(())
    }

    /// Returns decoded parts, in order. Uncached ones are read and decoded together.
    async fn kept<T: Send + Sync + 'static>(
        &self,
        (pieces, parts): (Vec<Piece>, Vec<Part>),
        keep: bool,
        bytes: fn(&T) -> u64,
        decode: impl Fn(&Index, usize, &Bytes) -> Result<T, FormatError> + Send + 'static,
    ) -> Result<Vec<Arc<T>>, IndexError> {
        let (cache, id) = (self.reader.cache(), self.block.meta.id);
        // A query will probably not need what upkeep reads.
        let keep = keep && self.asker.keeps();
        let known: Vec<Option<Arc<T>>> =
            pieces.iter().map(|piece| if keep { cache.get(id, *piece) } else { None }).collect();
        let unknown: Vec<usize> = (0..known.len()).filter(|at| known[*at].is_none()).collect();
        if unknown.is_empty() {
            return Ok(known.into_iter().flatten().collect());
        }
        let parts: Vec<Part> = unknown.iter().map(|at| parts[*at]).collect();
        let (stored, plain) = (self.stored(&parts).await?, plain_of(&parts));
        let places = unknown.clone();
        let work = move |index: &Index| {
            let one = |((at, part), stored): ((&usize, &Part), &Bytes)| {
                decode(index, *at, &part.open(stored)?).map(Arc::new)
            };
            let all = || places.iter().zip(&parts).zip(&stored).map(one).collect::<Result<Vec<_>, _>>();
            if keep { for_the_cache(all) } else { all() }
        };
        let read = self.decode(plain, work).await?;
        for (at, value) in unknown.iter().zip(&read).filter(|_| keep) {
            cache.insert(id, pieces[*at], Arc::clone(value), bytes(value));
        }
        let mut read = read.into_iter();
        Ok(known.into_iter().filter_map(|known| known.or_else(|| read.next())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_all_touch_a_range_touch_it_one_by_one() {
        let span = |min_ms, max_ms| SeriesSpan { rows: 1, min_ms, max_ms };
        let ms = |first: i64, last: i64| TimeRange::inclusive(first * 1_000_000, last * 1_000_000);
        let pages = [
            vec![span(0, 90), span(10, 100), span(5, 95)],
            vec![span(0, 20), span(60, 100)],
            vec![span(0, 90), SeriesSpan::default()],
            vec![],
        ];
        let mut together = 0;
        for spans in pages {
            let kept = KeptSpans::new(spans);
            for range in (-10..11).flat_map(|first| (first..11).map(move |last| ms(first * 10, last * 10))) {
                let touch = kept.spans.iter().all(|span| span.touches(range)) && !kept.spans.is_empty();
                assert!(touch || !kept.all_touch(range), "{range:?}");
                together += usize::from(kept.all_touch(range));
            }
        }
        assert!(together > 100, "{together}");
        let all = KeptSpans::new(vec![span(0, 90), SeriesSpan::default()]);
        assert!(!all.all_touch(TimeRange::ALL), "a series without samples touches nothing");
    }
}
