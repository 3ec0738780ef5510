//! Decodes all series of a block that is completely in memory, for tools and tests.

use std::sync::Arc;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{Labels, Matcher};

use super::Footer;
use super::index::{Index, Part, Place, SeriesColumns, SeriesPage, SeriesSpan};
use crate::error::Error;

/// All series of a block, by ordinal.
#[derive(Debug)]
pub struct WholeSeries(Vec<SeriesPage>);

impl WholeSeries {
    /// Decodes every page of series of an object, and every other part of its index.
    pub fn of_object(object: &Bytes, footer: &Footer) -> Result<Self, Error> {
        let index = footer.index();
        for label in index.labels() {
            for (page, of) in label.sorted_pages().iter().enumerate() {
                index.sorted_texts(label, page, &plain(object, index, &of.part)?)?;
            }
            let mut members = RoaringBitmap::new();
            for of in label.list_pages() {
                let lists = index.lists(of, &plain(object, index, &of.part)?)?;
                (0..of.count as usize).try_for_each(|at| lists.add(at, index.series(), &mut members))?;
            }
        }
        let page = |page| series_page(object, index, page);
        (0..index.pages().len() as u32).map(page).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the number of series.
    pub fn len(&self) -> usize {
        self.0.iter().map(|page| page.series().len()).sum()
    }

    /// Whether there are no series.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn page_of(&self, ordinal: u32) -> &SeriesPage {
        &self.0[(ordinal / super::index::PAGE_SERIES) as usize]
    }

    /// Returns the labels of a series.
    ///
    /// # Panics
    /// When the block does not have the series; this applies to the other methods too.
    pub fn labels(&self, ordinal: u32) -> Labels {
        self.page_of(ordinal).labels(ordinal)
    }

    /// Returns the span of a series.
    pub fn span(&self, ordinal: u32) -> SeriesSpan {
        self.page_of(ordinal).span(ordinal)
    }

    /// Returns the series whose labels pass all matchers; tests every series.
    pub fn select(&self, matchers: &[Matcher]) -> RoaringBitmap {
        let passes = |ordinal: &u32| {
            let page = self.page_of(*ordinal);
            matchers.iter().all(|m| m.matches(page.label(*ordinal, m.name()).unwrap_or("")))
        };
        (0..self.len() as u32).filter(passes).collect()
    }
}

fn plain(object: &Bytes, index: &Index, part: &Part) -> Result<Bytes, Error> {
    let stored = match index.locate(part)? {
        Place::Footer(bytes) => bytes,
        Place::Object(piece) => object.slice(piece.offset as usize..piece.end() as usize),
    };
    part.open(&stored)
}

fn series_page(object: &Bytes, index: &Index, page: u32) -> Result<SeriesPage, Error> {
    let parts = SeriesColumns::parts(index, page, &|_| true);
    let bytes = parts.iter().map(|part| plain(object, index, part)).collect::<Result<Vec<_>, _>>()?;
    let columns = SeriesColumns::decode(index, page, &|_| true, &bytes)?;
    let mut texts = Vec::new();
    for text in columns.texts(index) {
        let of = &index.labels()[text.label].text_pages()[text.page];
        texts.push((text, Arc::new(index.texts(of, &plain(object, index, &of.part)?)?)));
    }
    columns.finish(index, &texts)
}
