//! Pages of texts; each text is stored without the prefix that it shares with the text before it.
//!
//! Layout: per text the number of bytes that it shares with the one before (LEB128), then length and
//! bytes of the rest. A page is decoded completely. **Invariants:** its texts take exactly the bytes that
//! its entry states, which is known before memory is reserved for them; they share at most
//! [`SHARED_BYTES_MAX`] bytes.

use std::ops::Range;

use crate::codec::Reader;
use crate::codec::varint::{put_blob, put_varint};
use crate::error::Error;

/// Most texts of a page.
const PAGE_TEXTS: usize = 512;
/// A page is closed when its texts have this many bytes, as long as few pages precede it.
const PAGE_TEXT_BYTES: usize = 1 << 15;
/// The size of pages doubles whenever the first texts of the pages before have grown by this many bytes.
const FIRSTS_STEP: usize = 1 << 23;
/// Most doublings.
const DOUBLINGS_MAX: usize = 5;

/// Most bytes that the texts of a page share with others; readers refuse more.
pub(super) const SHARED_BYTES_MAX: usize = 2 * PAGE_TEXT_BYTES;

/// Whether a page with `texts` texts of `bytes` bytes is full; `firsts` are the first texts of the pages
/// before it. Footers hold the first texts, and readers bound their size, so very long texts need few
/// pages.
pub(super) fn is_page_full(texts: usize, bytes: usize, firsts: &TextPage) -> bool {
    texts >= PAGE_TEXTS || bytes >= page_bytes(firsts.text_bytes())
}

/// Returns the bytes at which a page is closed after pages whose first texts have `firsts` bytes.
fn page_bytes(firsts: usize) -> usize {
    PAGE_TEXT_BYTES << (firsts / FIRSTS_STEP).min(DOUBLINGS_MAX)
}

/// Decoded texts, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPage {
    text: String,
    ends: Vec<u32>,
}

impl TextPage {
    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns a text.
    ///
    /// # Panics
    /// When the index is not below [`TextPage::len`].
    pub fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.text[start..self.ends[at] as usize]
    }

    /// Returns all texts.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Appends a text. All texts together must have fewer than 2^32 bytes.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
    }

    /// Appends adjacent texts of another page.
    ///
    /// # Panics
    /// When the page does not have all of them.
    pub(super) fn push_some(&mut self, of: &Self, some: Range<usize>) {
        let ends = &of.ends[some.clone()];
        let (Some(end), before) = (ends.last(), self.text.len() as u32) else { return };
        let start = some.start.checked_sub(1).map_or(0, |before| of.ends[before]);
        self.text.push_str(&of.text[start as usize..*end as usize]);
        self.ends.extend(ends.iter().map(|end| end - start + before));
    }

    /// Returns the index of the first text that is not less than `text`; the texts must be sorted.
    pub fn lower_bound(&self, text: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < text { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the bytes held in memory.
    pub fn memory_bytes(&self) -> u64 {
        (self.text.len() + self.ends.len() * 4 + size_of::<Self>()) as u64
    }

    /// Removes all texts and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Returns the bytes of all texts.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn put<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a str>) {
        let mut before = "";
        for text in texts {
            let shared = shared(before, text);
            put_varint(out, shared as u64);
            put_blob(out, &text.as_bytes()[shared..]);
            before = text;
        }
    }

    /// Writes a page of texts that have `bytes` bytes together. Texts of a large page could share too
    /// many bytes, so these are stored completely; compression finds common parts.
    pub(super) fn put_page<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a str>, bytes: usize) {
        if bytes <= SHARED_BYTES_MAX {
            return Self::put(out, texts);
        }
        for text in texts {
            put_varint(out, 0);
            put_blob(out, text.as_bytes());
        }
    }

    /// Reads `count` texts of `bytes` bytes together; the caller bounds both. Memory grows as texts are
    /// read.
    pub(super) fn get_page(reader: &mut Reader<'_>, count: usize, bytes: usize) -> Result<Self, Error> {
        // Each text takes at least two bytes.
        if count > reader.remaining() / 2 {
            return Err(reader.malformed("a page of texts is shorter than their number"));
        }
        let mut text = Vec::with_capacity(bytes.min(reader.remaining() + PAGE_TEXT_BYTES));
        let mut ends: Vec<u32> = Vec::with_capacity(count);
        let mut before = 0..0;
        for _ in 0..count {
            let shared = reader.count("bytes shared with the text before", before.len())?;
            let rest = reader.blob()?;
            let start = text.len();
            if shared + rest.len() > bytes - start {
                return Err(reader.malformed("texts have more bytes than stated"));
            }
            text.extend_from_within(before.start..before.start + shared);
            text.extend_from_slice(rest);
            before = start..text.len();
            ends.push(text.len() as u32);
        }
        if text.len() != bytes {
            return Err(reader.malformed("texts have fewer bytes than stated"));
        }
        let text = String::from_utf8(text).map_err(|_| reader.malformed("a text is not UTF-8"))?;
        if !ends.iter().all(|end| text.is_char_boundary(*end as usize)) {
            return Err(reader.malformed("a text is not UTF-8"));
        }
        Ok(Self { text, ends })
    }
}

impl<'a> FromIterator<&'a str> for TextPage {
    fn from_iter<T: IntoIterator<Item = &'a str>>(texts: T) -> Self {
        let mut page = Self::default();
        texts.into_iter().for_each(|text| page.push(text));
        page
    }
}

fn shared(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(texts: &[String]) -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        TextPage::put(&mut bytes, texts.iter().map(String::as_str));
        (bytes, texts.iter().map(String::len).sum())
    }

    #[test]
    fn the_lower_bound_is_the_first_text_that_is_not_less() {
        let mut page = TextPage::default();
        ["b", "d", "f"].into_iter().for_each(|text| page.push(text));
        let at = ["a", "b", "c", "f", "g"].map(|text| page.lower_bound(text));
        assert_eq!(at, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn texts_with_common_prefixes_have_the_stated_length() {
        let texts = vec!["x".repeat(1_000); 500];
        let (bytes, announced) = put(&texts);
        assert!(bytes.len() < 3_000);
        let read = |announced| TextPage::get_page(&mut Reader::new("test", 0, &bytes), 500, announced);
        assert_eq!(read(announced).unwrap().text_bytes(), announced);
        assert!(read(announced - 1).is_err() && read(announced + 1).is_err());
    }

    #[test]
    fn pages_grow_with_the_first_texts_before_them() {
        let sizes = [0, FIRSTS_STEP - 1, FIRSTS_STEP, 3 * FIRSTS_STEP, 99 * FIRSTS_STEP].map(page_bytes);
        assert_eq!(sizes.map(|bytes| bytes / PAGE_TEXT_BYTES), [1, 1, 2, 8, 32]);
    }

    proptest! {
        #[test]
        fn any_texts_round_trip(texts in prop::collection::vec(".{0,12}", 0..60)) {
            let (bytes, announced) = put(&texts);
            let mut reader = Reader::new("test", 0, &bytes);
            let page = TextPage::get_page(&mut reader, texts.len(), announced).unwrap();
            reader.finish().unwrap();
            prop_assert!(page.iter().eq(texts.iter().map(String::as_str)));
        }

        #[test]
        fn texts_that_are_appended_together_equal_those_one_by_one(
            texts in prop::collection::vec(".{0,12}", 0..20),
            parts in prop::collection::vec((0..20usize, 0..20usize), 0..6),
        ) {
            let of: TextPage = texts.iter().map(String::as_str).collect();
            let (mut together, mut one_by_one) = (TextPage::default(), TextPage::default());
            for (start, end) in parts.into_iter().filter(|(start, end)| start <= end && *end <= of.len()) {
                together.push_some(&of, start..end);
                (start..end).for_each(|at| one_by_one.push(of.get(at)));
            }
            prop_assert_eq!(together, one_by_one);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..90),
            n in 0..40usize,
        ) {
            let _ = TextPage::get_page(&mut Reader::new("test", 0, &bytes), n, 50);
        }
    }
}
