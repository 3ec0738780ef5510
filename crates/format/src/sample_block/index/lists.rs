//! Lists of the series that have a value of a label, in pages of many lists.
//!
//! Layout of a page: packed per list the number of its series, its first series minus that of the list
//! before, the bytes of the rest; then the rests. The rest of a single series is empty. Otherwise it is
//! the length of the first run minus one, then for each further run: twice the number of series between
//! it and the one before minus one, plus one when the run has several series, and then their number minus
//! two (LEB128).
//!
//! Series are sorted by metric, so most lists are few runs, and short lists share a page with their
//! neighbours. Values are numbered in the order of first occurrence, so their first series ascend.

use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;

use super::part::PART_INDEX;
use crate::codec::Reader;
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::codec::varint::put_varint;
use crate::error::Error;

/// Most lists of a page.
pub(super) const PAGE_LISTS: usize = 512;
/// A page is closed when the rests of its lists have this many bytes.
pub(super) const PAGE_LIST_BYTES: usize = 1 << 14;

/// Runs of fewer series are added one by one.
const SHORT_RUN: u64 = 16;

/// A list that grows in ascending order of series. Most values have one run: further runs are on the
/// heap.
#[derive(Clone, Debug, Default)]
pub(super) struct ListDraft {
    first: u32,
    count: u32,
    /// The open run: its length, and the series after it.
    run: u32,
    end: u32,
    more: Option<Box<MoreRuns>>,
}

/// The runs of a list before the open one.
#[derive(Clone, Debug, Default)]
struct MoreRuns {
    /// The gap before the open run.
    gap: u32,
    rest: Vec<u8>,
}

impl ListDraft {
    /// Adds a series; returns the bytes by which memory grew.
    pub(super) fn push(&mut self, series: u32) -> usize {
        let mut grown = 0;
        if self.count == 0 {
            (self.first, self.run) = (series, 1);
        } else if series == self.end {
            self.run += 1;
        } else {
            let gap = series - self.end;
            if self.more.is_none() {
                grown += size_of::<MoreRuns>();
            }
            grown += self.end_run();
            self.more.get_or_insert_default().gap = gap;
            self.run = 1;
        }
        self.end = series + 1;
        self.count += 1;
        grown
    }

    fn end_run(&mut self) -> usize {
        let is_first = self.more.is_none();
        let MoreRuns { gap, rest } = &mut **self.more.get_or_insert_default();
        let before = rest.capacity();
        if is_first {
            put_varint(rest, u64::from(self.run - 1));
        } else {
            let several = u64::from(self.run > 1);
            put_varint(rest, u64::from(*gap - 1) << 1 | several);
            if several == 1 {
                put_varint(rest, u64::from(self.run - 2));
            }
        }
        rest.capacity() - before
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn end(&mut self) {
        if self.count > 1 {
            self.end_run();
        }
    }

    /// Returns the rest of a list that has ended.
    pub(super) fn rest(&self) -> &[u8] {
        self.more.as_ref().map_or(&[], |more| &more.rest)
    }
}

/// Appends a page of lists that have ended; each has at least one series.
pub(super) fn put_page(out: &mut Vec<u8>, lists: &[ListDraft]) {
    put_packed(out, &lists.iter().map(|list| u64::from(list.count)).collect::<Vec<_>>());
    let mut before = 0;
    let firsts = lists.iter().map(|list| {
        let more = list.first.wrapping_sub(before);
        before = list.first;
        u64::from(more)
    });
    put_packed(out, &firsts.collect::<Vec<_>>());
    put_packed(out, &lists.iter().map(|list| list.rest().len() as u64).collect::<Vec<_>>());
    lists.iter().for_each(|list| out.extend_from_slice(list.rest()));
}

/// Returns the number of series of the longest of some lists.
pub(super) fn longest(lists: &[ListDraft]) -> u32 {
    lists.iter().map(ListDraft::count).max().unwrap_or(0)
}

/// A page of lists.
#[derive(Clone, Debug)]
pub struct ListPage {
    counts: Vec<u32>,
    firsts: Vec<u32>,
    /// The end of the rest of each list.
    ends: Vec<u32>,
    rests: Bytes,
}

impl ListPage {
    /// Reads a page of `lists` lists from its plain bytes.
    pub(super) fn get(plain: &Bytes, lists: usize) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_INDEX, 0, plain);
        let counts = get_packed_u32(&mut reader, lists)?;
        let mut before = 0u32;
        let mut firsts = get_packed_u32(&mut reader, lists)?;
        firsts.iter_mut().for_each(|first| {
            before = before.wrapping_add(*first);
            *first = before;
        });
        let mut ends = get_packed_u32(&mut reader, lists)?;
        let mut end = 0u32;
        for length in &mut ends {
            end = end.checked_add(*length).ok_or_else(|| reader.malformed("lists are too long"))?;
            *length = end;
        }
        let rests = plain.slice(reader.position()..);
        if rests.len() != end as usize || counts.contains(&0) {
            return Err(reader.malformed("lists and their page differ in length"));
        }
        Ok(Self { counts, firsts, ends, rests })
    }

    /// Returns the number of series of each list.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns an upper bound of the number of runs of a list.
    pub fn runs_max(&self, at: usize) -> u64 {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        // A run takes a byte or more, and the first one of a list of one series takes none.
        u64::from(self.ends[at] - start).max(1)
    }

    /// Adds the series of a list to a set, for a block with `series` series.
    pub fn add(&self, at: usize, series: u32, to: &mut RoaringBitmap) -> Result<(), Error> {
        let mut own = RoaringBitmap::new();
        self.runs(at, series, |run| {
            if (run.len() as u64) < SHORT_RUN {
                // They ascend: appending is faster than inserting.
                run.for_each(|ordinal| _ = own.try_push(ordinal));
            } else {
                own.insert_range(run);
            }
        })?;
        *to |= own;
        Ok(())
    }

    /// Calls `each` with the runs of series of a list in order, for a block with `series` series.
    pub fn runs(&self, at: usize, series: u32, mut each: impl FnMut(Range<u32>)) -> Result<(), Error> {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        let mut reader = Reader::new(PART_INDEX, start as u64, &self.rests[start..self.ends[at] as usize]);
        let (count, first) = (self.counts[at], self.firsts[at]);
        let outside = |reader: &Reader<'_>| reader.malformed("a list names a series that does not exist");
        let (mut from, mut left) = (u64::from(first), u64::from(count));
        let mut length = if count > 1 { reader.varint()?.saturating_add(1) } else { 1 };
        loop {
            if length > left || from + length > u64::from(series) {
                return Err(outside(&reader));
            }
            each(from as u32..(from + length) as u32);
            left -= length;
            if left == 0 {
                break;
            }
            let token = reader.varint()?;
            from = (from + length).saturating_add((token >> 1) + 1).min(u64::from(u32::MAX));
            length = if token & 1 == 1 { reader.varint()?.saturating_add(2) } else { 1 };
        }
        reader.finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page_of(lists: &[Vec<u32>]) -> (Vec<u8>, ListPage) {
        let drafts: Vec<ListDraft> = lists
            .iter()
            .map(|list| {
                let mut draft = ListDraft::default();
                list.iter().for_each(|series| _ = draft.push(*series));
                draft.end();
                draft
            })
            .collect();
        let mut bytes = Vec::new();
        put_page(&mut bytes, &drafts);
        let page = ListPage::get(&Bytes::from(bytes.clone()), lists.len()).unwrap();
        (bytes, page)
    }

    fn read(page: &ListPage, at: usize, series: u32) -> Result<Vec<u32>, Error> {
        let mut found = RoaringBitmap::new();
        page.add(at, series, &mut found)?;
        Ok(found.iter().collect())
    }

    #[test]
    fn runs_and_single_series_take_one_or_two_bytes() {
        let lists = [vec![7], (0..10_000).collect(), (0..1_000).map(|n| n * 8).collect(), vec![1, 2, 3, 9]];
        let (bytes, page) = page_of(&lists);
        assert!(bytes.len() < 1_050, "{}", bytes.len());
        for (at, list) in lists.iter().enumerate() {
            assert_eq!(read(&page, at, 10_000).unwrap(), *list);
        }
        assert!(read(&page, 1, 9_999).is_err(), "a series that does not exist");
        assert_eq!(page.counts(), [1, 10_000, 1_000, 4]);
    }

    proptest! {
        #[test]
        fn any_lists_round_trip(
            lists in prop::collection::vec(prop::collection::btree_set(0..500u32, 1..80), 1..20),
        ) {
            let lists: Vec<Vec<u32>> = lists.into_iter().map(|list| list.into_iter().collect()).collect();
            let (_, page) = page_of(&lists);
            for (at, list) in lists.iter().enumerate() {
                prop_assert_eq!(&read(&page, at, 500).unwrap(), list);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            n in 1..9usize,
        ) {
            if let Ok(page) = ListPage::get(&Bytes::from(bytes), n) {
                (0..n).for_each(|at| drop(read(&page, at, 1_000)));
            }
        }
    }
}
