//! Reads the series of a block of samples, page by page.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::units::ByteSize;
use sandur_format::sample_block::index::{Index, PAGE_SERIES, Part, Place, SeriesColumns, SeriesPage};
use sandur_format::sample_block::{Footer, SAMPLE_BYTES};

use crate::target::Object;

/// Reads series by ordinal, and keeps the last page.
pub struct SeriesPages<'a> {
    object: &'a Object,
    index: &'a Index,
    page: Option<SeriesPage>,
}

impl<'a> SeriesPages<'a> {
    /// The series of a block.
    pub fn new(object: &'a Object, footer: &'a Footer) -> Self {
        Self { object, index: footer.index(), page: None }
    }

    /// Prints the first `most` series and their sizes.
    pub async fn show(&mut self, most: usize) -> Result<(), String> {
        for ordinal in 0..self.index.series().min(most as u32) {
            let page = self.page_of(ordinal).await?;
            let rows = page.span(ordinal).rows;
            println!("  {} {rows} rows, {}", page.labels(ordinal), ByteSize(rows * SAMPLE_BYTES));
        }
        Ok(())
    }

    /// The page of a series.
    pub async fn page_of(&mut self, ordinal: u32) -> Result<&SeriesPage, String> {
        let page = match self.page.take().filter(|page| page.holds(ordinal)) {
            Some(page) => page,
            None => self.read(ordinal / PAGE_SERIES).await?,
        };
        Ok(self.page.insert(page))
    }

    async fn read(&self, number: u32) -> Result<SeriesPage, String> {
        let damaged = |error: sandur_format::Error| error.to_string();
        let mut plain = Vec::new();
        for part in SeriesColumns::parts(self.index, number, &|_| true) {
            plain.push(self.part(&part).await?);
        }
        let columns = SeriesColumns::decode(self.index, number, &|_| true, &plain).map_err(damaged)?;
        let mut texts = Vec::new();
        for text in columns.texts(self.index) {
            let page = &self.index.labels()[text.label].text_pages()[text.page];
            let plain = self.part(&page.part).await?;
            texts.push((text, Arc::new(self.index.texts(page, &plain).map_err(damaged)?)));
        }
        columns.finish(self.index, &texts).map_err(damaged)
    }

    async fn part(&self, part: &Part) -> Result<Bytes, String> {
        let stored = match self.index.locate(part).map_err(|error| error.to_string())? {
            Place::Footer(bytes) => bytes,
            Place::Object(piece) => self.object.read(piece.range()).await?,
        };
        part.open(&stored).map_err(|error| error.to_string())
    }
}
