//! Pages of texts, each told by what it has in common with the text before it.
//!
//! Layout: per text the bytes that it shares with the one before (LEB128), then length and bytes of the rest.
//! A page is decoded as a whole. **Invariants:** its texts take as many bytes as its entry announces, which
//! is known before memory is taken for them; they share at most [`SHARED_BYTES_MAX`] with others.

use crate::codec::Reader;
use crate::codec::varint::{put_blob, put_varint};
use crate::error::Error;

/// Most texts of a page.
const PAGE_TEXTS: usize = 512;
/// A page is closed when its texts have so many bytes, while few pages have come before.
const PAGE_TEXT_BYTES: usize = 1 << 15;
/// Pages become twice as large whenever the first texts of those before have grown by so many bytes.
const FIRSTS_STEP: usize = 1 << 23;
/// How often they do.
const DOUBLINGS_MAX: usize = 5;

/// Most bytes that the texts of a page share with others: readers take more for a lie.
pub(super) const SHARED_BYTES_MAX: usize = 2 * PAGE_TEXT_BYTES;

/// Whether a page with so many texts of so many bytes is closed; `firsts` are the first texts of the pages
/// before it. Footers hold first texts, and readers bound them: gigabytes of long texts are told by few.
pub(super) fn is_page_full(texts: usize, bytes: usize, firsts: &TextPage) -> bool {
    texts >= PAGE_TEXTS || bytes >= page_bytes(firsts.text_bytes())
}

/// Bytes at which a page is closed that comes after pages whose first texts have `firsts` bytes.
fn page_bytes(firsts: usize) -> usize {
    PAGE_TEXT_BYTES << (firsts / FIRSTS_STEP).min(DOUBLINGS_MAX)
}

/// Decoded texts, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPage {
    text: String,
    ends: Vec<u32>,
}

impl TextPage {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One of them.
    ///
    /// # Panics
    /// When the position is not below [`TextPage::len`].
    pub fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.text[start..self.ends[at] as usize]
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Appends a text. Fails when they take more than 32 bits count.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
    }

    /// The position of the first text that is not below this one; they are sorted.
    pub fn lower_bound(&self, text: &str) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < text { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> u64 {
        (self.text.len() + self.ends.len() * 4 + size_of::<Self>()) as u64
    }

    /// Removes all texts and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Bytes of all texts.
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

    /// A page of texts that have so many bytes together. Those of a large page could share too much, so it
    /// tells each whole; compression finds what they have in common.
    pub(super) fn put_page<'a>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'a str>, bytes: usize) {
        if bytes <= SHARED_BYTES_MAX {
            return Self::put(out, texts);
        }
        for text in texts {
            put_varint(out, 0);
            put_blob(out, text.as_bytes());
        }
    }

    /// Reads so many texts of so many bytes together; the caller bounds both. Memory is taken as texts come.
    pub(super) fn get_page(reader: &mut Reader<'_>, count: usize, bytes: usize) -> Result<Self, Error> {
        // Each takes two bytes at least.
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
                return Err(reader.malformed("texts have more bytes than announced"));
            }
            text.extend_from_within(before.start..before.start + shared);
            text.extend_from_slice(rest);
            before = start..text.len();
            ends.push(text.len() as u32);
        }
        if text.len() != bytes {
            return Err(reader.malformed("texts have fewer bytes than announced"));
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
    fn the_lower_bound_is_the_first_text_that_is_not_below() {
        let mut page = TextPage::default();
        ["b", "d", "f"].into_iter().for_each(|text| page.push(text));
        let at = ["a", "b", "c", "f", "g"].map(|text| page.lower_bound(text));
        assert_eq!(at, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn texts_that_repeat_their_start_take_what_was_announced() {
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
        fn any_texts_come_back(texts in prop::collection::vec(".{0,12}", 0..60)) {
            let (bytes, announced) = put(&texts);
            let mut reader = Reader::new("test", 0, &bytes);
            let page = TextPage::get_page(&mut reader, texts.len(), announced).unwrap();
            reader.finish().unwrap();
            prop_assert!(page.iter().eq(texts.iter().map(String::as_str)));
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
