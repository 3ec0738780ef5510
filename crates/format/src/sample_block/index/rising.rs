//! Values of a label that ascend from series to series, and their lists: those of the metric's name.
//!
//! Series are sorted by metric first, so a name does not occur again after the next one began. Its text
//! and its list are put into pages, and full pages leave memory while the block is being written; other
//! labels keep all their values until the block is closed. A block of Graphite paths has a name for each
//! of its series.
//!
//! Full pages are gathered until there are enough, so that they are adjacent in the object and a reader
//! reads them together. The first page of lists begins with the list of all series with the label, so it
//! waits until the end.

use super::label::PageRef;
use super::lists::{self, ListDraft, PAGE_LIST_BYTES, PAGE_LISTS};
use super::part::{Area, AreaWriter, PartRun, PartWriter, WrittenArea};
use super::texts::{TextPage, is_page_full};
use crate::error::Error;

/// Pages leave memory when they have this many stored bytes together.
const RUN_BYTES: usize = 1 << 18;

/// Values that ascend, and the lists of their series.
#[derive(Debug, Default)]
pub(super) struct RisingValues {
    len: u32,
    /// The last value.
    last: String,
    open_texts: TextPage,
    firsts: TextPage,
    texts: Pages,
    /// The list of all series with the label.
    all: ListDraft,
    open_lists: OpenLists,
    /// The first page of lists without the list of all series, once it is full.
    first_lists: Option<OpenLists>,
    lists: Pages,
}

/// The lists of a page that is not written yet; the last of them may grow.
#[derive(Debug, Default)]
struct OpenLists {
    lists: Vec<ListDraft>,
    /// Bytes of the rests of lists that have ended.
    rests: usize,
    /// Bytes of the lists in addition to their entries.
    grown: usize,
}

/// Written pages.
#[derive(Debug, Default)]
struct Pages {
    refs: Vec<PageRef>,
    /// Number of texts or lists before the next page.
    before: u32,
    /// Index of the first page that is still in the run: addresses of these pages count from the run's
    /// start.
    waiting: usize,
    run: PartRun,
}

/// All pages of a label.
pub(super) struct RisingPages {
    pub(super) texts: Vec<PageRef>,
    pub(super) firsts: TextPage,
    pub(super) lists: Vec<PageRef>,
}

impl RisingValues {
    /// Returns the number of values.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the last value.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Returns the bytes held in memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let of_lists = |lists: &OpenLists| lists.lists.capacity() * size_of::<ListDraft>() + lists.grown;
        let lists = of_lists(&self.open_lists) + self.first_lists.as_ref().map_or(0, of_lists);
        let pages = self.texts.memory_bytes() + self.lists.memory_bytes();
        let texts = self.open_texts.memory_bytes() + self.firsts.memory_bytes();
        texts + (lists + pages + self.last.capacity()) as u64
    }

    /// Records the value of a series, in ascending order of ordinals, and returns its number. Full pages
    /// are moved to `areas`.
    pub(super) fn push(
        &mut self,
        value: &str,
        ordinal: u32,
        (areas, level): (&mut AreaWriter, i32),
    ) -> Result<u32, Error> {
        if self.len == 0 || self.last != value {
            if self.len > 0 && value < &*self.last {
                return Err(Error::Misuse("the metric names of a block must ascend"));
            }
            self.begin(value, level)?;
            self.texts.hand_over(areas, RUN_BYTES);
            self.lists.hand_over(areas, RUN_BYTES);
        }
        self.all.push(ordinal);
        self.open_lists.push(ordinal);
        Ok(self.len)
    }

    fn begin(&mut self, value: &str, level: i32) -> Result<(), Error> {
        if is_page_full(self.open_texts.len(), self.open_texts.text_bytes(), &self.firsts) {
            self.end_texts(level)?;
        }
        self.open_lists.end_last();
        let others = usize::from(self.first_lists.is_none());
        let is_full = self.open_lists.lists.len() + others >= PAGE_LISTS;
        if is_full || self.open_lists.rests >= PAGE_LIST_BYTES {
            self.end_lists(level)?;
        }
        self.last.clear();
        self.last.push_str(value);
        self.open_texts.push(value);
        self.open_lists.lists.push(ListDraft::default());
        self.len += 1;
        Ok(())
    }

    fn end_texts(&mut self, level: i32) -> Result<(), Error> {
        let mut plain = Vec::new();
        let (count, bytes) = (self.open_texts.len(), self.open_texts.text_bytes());
        TextPage::put_page(&mut plain, self.open_texts.iter(), bytes);
        self.texts.put(&plain, (count as u32, bytes as u32), level)?;
        self.firsts.push(self.open_texts.get(0));
        self.open_texts.clear();
        Ok(())
    }

    fn end_lists(&mut self, level: i32) -> Result<(), Error> {
        let ended = std::mem::take(&mut self.open_lists);
        if self.first_lists.is_none() {
            self.lists.before = 1 + ended.lists.len() as u32;
            self.first_lists = Some(ended);
            return Ok(());
        }
        let mut plain = Vec::new();
        lists::put_page(&mut plain, &ended.lists);
        self.lists.put(&plain, (ended.lists.len() as u32, lists::longest(&ended.lists)), level)
    }

    /// Writes the remaining pages.
    pub(super) fn finish(
        mut self,
        writer: &mut PartWriter<'_>,
        store: &mut impl FnMut(WrittenArea) -> Area,
    ) -> Result<RisingPages, Error> {
        self.open_lists.end_last();
        if !self.open_lists.lists.is_empty() {
            self.end_lists(writer.level)?;
        }
        if !self.open_texts.is_empty() {
            self.end_texts(writer.level)?;
        }
        self.all.end();
        let mut first = vec![self.all];
        first.append(&mut self.first_lists.unwrap_or_default().lists);
        let mut plain = Vec::new();
        lists::put_page(&mut plain, &first);
        let (part, count) = (writer.put(&plain, store)?, first.len() as u32);
        let mut lists = vec![PageRef { part, first: 0, count, bytes: lists::longest(&first) }];
        lists.extend(self.lists.finish(writer, store));
        let texts = self.texts.finish(writer, store);
        Ok(RisingPages { texts, firsts: self.firsts, lists })
    }
}

impl OpenLists {
    fn push(&mut self, ordinal: u32) {
        if let Some(last) = self.lists.last_mut() {
            self.grown += last.push(ordinal);
        }
    }

    fn end_last(&mut self) {
        if let Some(last) = self.lists.last_mut() {
            last.end();
            self.rests += last.rest().len();
        }
    }
}

impl Pages {
    fn put(&mut self, plain: &[u8], (count, bytes): (u32, u32), level: i32) -> Result<(), Error> {
        let part = self.run.put(plain, level)?;
        self.refs.push(PageRef { part, first: self.before, count, bytes });
        self.before += count;
        Ok(())
    }

    /// Moves the run to an area when it has at least `least` bytes.
    fn hand_over(&mut self, areas: &mut AreaWriter, least: usize) {
        if self.run.len() >= least {
            let address = areas.append(&mut self.run);
            self.refs[self.waiting..].iter_mut().for_each(|page| page.part.address += address);
            self.waiting = self.refs.len();
        }
    }

    fn finish(
        mut self,
        writer: &mut PartWriter<'_>,
        store: &mut impl FnMut(WrittenArea) -> Area,
    ) -> Vec<PageRef> {
        self.hand_over(writer.areas, 1);
        writer.store_full(store);
        self.refs
    }

    fn memory_bytes(&self) -> usize {
        self.refs.capacity() * size_of::<PageRef>() + self.run.memory_bytes()
    }
}
