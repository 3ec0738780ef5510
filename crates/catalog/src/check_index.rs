//! Verifies the index of a sample block, because queries trust it.
//!
//! Compares the index's entry of each series with the samples, the lists of series with the columns, and
//! the texts of one order with those of the other.

use bytes::Bytes;
use sandur_format::Error as FormatError;
use sandur_format::sample_block::index::{Column, ColumnNumbers, Index, Label, Part, Place, SeriesSpan};

use crate::check_object::Window;

/// Reads the parts of an index; most of them have ascending offsets.
pub(crate) struct IndexCheck<'a, 'b> {
    index: &'a Index,
    window: Window<'b>,
}

impl<'a, 'b> IndexCheck<'a, 'b> {
    pub(crate) fn new(index: &'a Index, window: Window<'b>) -> Self {
        Self { index, window }
    }

    /// Verifies the index against the spans found in the pages, and returns the number of parts.
    pub(crate) async fn run(mut self, found: &[SeriesSpan]) -> Result<u64, String> {
        let index = self.index;
        for (number, page) in (0..).zip(index.pages()) {
            let plain = self.part(&page.spans).await?;
            let spans = index.spans(number, &plain).map_err(|e| e.to_string())?;
            let series = index.series_of(number);
            let of_page = &found[series.start as usize..series.end as usize];
            for ((ordinal, said), found) in series.zip(&spans).zip(of_page) {
                if said != found {
                    let fields = |span: &SeriesSpan| (span.rows, span.min_ms, span.max_ms);
                    return Err(format!(
                        "its index says of series {ordinal} (samples, first and last time) {:?}, its pages \
                         {:?}",
                        fields(said),
                        fields(found)
                    ));
                }
            }
            let holds = |span: &&SeriesSpan| span.rows > 0;
            let (first, last) = bounds(of_page.iter().filter(holds));
            let is_full = of_page.iter().all(|span| span.rows > 0);
            let has_none = first > last;
            if page.is_full != is_full || (!has_none && (page.min_ms, page.max_ms) != (first, last)) {
                return Err(format!("its footer and its index differ in the times of series page {number}"));
            }
        }
        for label in index.labels() {
            self.label(label).await?;
        }
        Ok(index.parts().count() as u64)
    }

    async fn part(&mut self, part: &Part) -> Result<Bytes, String> {
        let stored = match self.index.locate(part).map_err(|e| e.to_string())? {
            Place::Footer(bytes) => bytes,
            Place::Object(piece) => self.window.read(piece).await?,
        };
        part.open(&stored).map_err(|e| e.to_string())
    }

    async fn label(&mut self, label: &Label) -> Result<(), String> {
        let index = self.index;
        let problem = |what: &str| format!("the index is malformed: {what} of label '{}'", label.name());
        let damaged = |error: FormatError| error.to_string();
        // Number of series with each value; index 0 counts all series that have the label.
        let mut counts = vec![0u32; label.values() as usize + 1];
        for (page, column) in label.columns() {
            let series = index.series_of(*page).len();
            match column {
                Column::Constant(number) => counts[*number as usize] += series as u32,
                Column::Each(part) => {
                    let plain = self.part(part).await?;
                    let numbers =
                        ColumnNumbers::decode(part, &plain, series, label.values()).map_err(damaged)?;
                    for row in numbers.rows.iter().filter(|row| **row > 0) {
                        counts[numbers.distinct[usize::from(*row) - 1] as usize] += 1;
                    }
                }
            }
        }
        counts[0] = counts.iter().sum();
        let mut members = Default::default();
        for page in label.list_pages() {
            let lists = index.lists(page, &self.part(&page.part).await?).map_err(damaged)?;
            let first = page.first as usize;
            if lists.counts() != &counts[first..first + page.count as usize] {
                return Err(problem("a list and the columns differ in their series"));
            }
            for at in 0..page.count as usize {
                lists.add(at, index.series(), &mut members).map_err(damaged)?;
            }
        }
        if members.len() != u64::from(counts[0]) {
            return Err(problem("the lists and the columns differ in their series"));
        }
        self.texts(label, problem).await
    }

    /// Checks that both orders have the same texts with the same numbers, and that one of them is sorted.
    async fn texts(&mut self, label: &Label, problem: impl Fn(&str) -> String) -> Result<(), String> {
        let index = self.index;
        let damaged = |error: FormatError| error.to_string();
        let sum = |number: u32, text: &str| {
            let of_both = u64::from(crc32c::crc32c(text.as_bytes())) << 32 | u64::from(number);
            of_both.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31)
        };
        let (mut by_number, mut by_text) = (0u64, 0u64);
        for page in label.text_pages() {
            let texts = index.texts(page, &self.part(&page.part).await?).map_err(damaged)?;
            for (number, text) in (page.first + 1..).zip(texts.iter()) {
                by_number = by_number.wrapping_add(sum(number, text));
            }
        }
        let mut before: Option<String> = None;
        for (at, page) in label.sorted_pages().iter().enumerate() {
            let plain = self.part(&page.part).await?;
            let (texts, numbers) = index.sorted_texts(label, at, &plain).map_err(damaged)?;
            for (number, text) in numbers.into_iter().zip(texts.iter()) {
                by_text = by_text.wrapping_add(sum(number, text));
                if before.as_deref().is_some_and(|before| before >= text) {
                    return Err(problem("the texts are not sorted"));
                }
                before = Some(text.to_owned());
            }
            let first = texts.iter().next().unwrap_or_default();
            if label.sorted_page_of(first) != Some(at) {
                return Err(problem("the first texts of pages differ from the footer"));
            }
        }
        match by_number == by_text {
            true => Ok(()),
            false => Err(problem("the two orders of texts differ")),
        }
    }
}

fn bounds<'a>(spans: impl Iterator<Item = &'a SeriesSpan>) -> (i64, i64) {
    spans.fold((i64::MAX, i64::MIN), |(first, last), span| (first.min(span.min_ms), last.max(span.max_ms)))
}
