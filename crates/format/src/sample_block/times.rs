//! The times of samples: lists of ascending milliseconds; each list is stored once, even if many runs
//! have it.
//!
//! Series of one scraped target have the same times. Lists are numbered and stored in their own pages, in
//! ascending order of numbers. Within a page the differences of all lists are stored minus a common step,
//! either from time to time or from a regular grid, whichever takes fewer bits: late scrapes that do not
//! delay later ones are small on the grid.
//!
//! Times and stamps of samples belong together: samples with the same times and other stamps have another
//! list.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::HashMap;
use foldhash::fast::RandomState;
use sandur_model::{MILLISECOND_NS, TimeRange};

use super::{LIST_ROWS_MAX, PART_TIMES, list_stamps};
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::codec::number_page::Moments;
use crate::codec::numbers::{NumberDecoder, compress};
use crate::codec::varint::{put_blob, put_signed, put_varint};
use crate::codec::{Piece, Reader};
use crate::error::Error;
use crate::stamp::{Stamp, Stamps};

/// A page of lists is closed at this many times.
const PAGE_TIMES: usize = 1 << 15;
/// Most times that are kept to find equal lists: 16 MiB.
const KNOWN_TIMES: usize = 1 << 21;
/// Level of entropy coding.
const LEVEL: usize = 6;
/// The reference of the differences.
const FROM_BEFORE: u8 = 0;
const FROM_GRID: u8 = 1;
/// Added to the reference if the page has stamps.
const STAMPED: u8 = 2;
/// Bytes that a known list takes for each of its stamps.
const STAMP_TIMES: usize = size_of::<Stamp>() / size_of::<i64>();

/// Whether times in milliseconds, both inclusive, overlap a range.
pub(super) fn touches(range: TimeRange, min_ms: i64, max_ms: i64) -> bool {
    range.touches(min_ms.saturating_mul(MILLISECOND_NS), max_ms.saturating_mul(MILLISECOND_NS))
}

/// One page of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePageEntry {
    /// The range of the page in the object.
    pub piece: Piece,
    /// Number of its first list.
    pub first_list: u32,
    /// Number of lists.
    pub lists: u32,
    /// Number of times of all lists.
    pub times: u32,
    /// Whether some of its lists have stamps.
    pub stamped: bool,
}

/// The times of samples in milliseconds, with their stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeList {
    /// Ascending.
    pub times: Arc<Vec<i64>>,
    /// `None` if no sample has a stamp.
    pub stamps: Option<Arc<Stamps>>,
}

impl TimePageEntry {
    /// Returns the bytes of its lists, including memory for decoding them.
    pub fn memory_bytes(&self) -> u64 {
        self.lists_bytes() + u64::from(self.times) * size_of::<i64>() as u64
    }

    /// Returns the bytes of its lists.
    pub fn lists_bytes(&self) -> u64 {
        let stamp = if self.stamped { Stamps::ROW_BYTES } else { 0 };
        let list = if self.stamped { 192 } else { 80 };
        u64::from(self.times) * (size_of::<i64>() as u64 + stamp) + u64::from(self.lists) * list
    }

    /// Decodes the lists from the bytes of the piece, after verifying checksums.
    pub fn decode(&self, bytes: &[u8]) -> Result<Vec<TimeList>, Error> {
        self.piece.check(PART_TIMES, bytes)?;
        let mut reader = Reader::new(PART_TIMES, self.piece.offset, bytes);
        let lengths = get_packed_u32(&mut reader, self.lists as usize)?;
        let mut all = 0u64;
        for length in &lengths {
            all += u64::from(*length);
            if *length == 0 || *length > LIST_ROWS_MAX {
                return Err(reader.malformed("a list of times is empty or too long"));
            }
        }
        if all != u64::from(self.times) {
            return Err(reader.malformed("a page and its entry differ in their number of times"));
        }
        let (mut firsts, mut first) = (Vec::with_capacity(lengths.len()), 0i64);
        for _ in &lengths {
            first = first.wrapping_add(reader.signed()?);
            firsts.push(first);
        }
        let (from, step) = (reader.u8()?, reader.signed()?);
        if from > (FROM_GRID | if self.stamped { STAMPED } else { 0 }) {
            return Err(reader.unknown("reference of times", from));
        }
        let mut stamps = match from & STAMPED {
            0 => Vec::new(),
            _ => list_stamps::get(&mut reader, &lengths)?,
        };
        let from = from & !STAMPED;
        let distances = get_distances(&mut reader, self.times as usize - lengths.len())?;
        let mut rest = distances.as_slice();
        let mut lists = Vec::with_capacity(lengths.len());
        let mut same = SameTimes::default();
        for (n, (length, first)) in lengths.iter().zip(firsts).enumerate() {
            let (own, after) = rest.split_at(*length as usize - 1);
            let list = list_of(first, own, from == FROM_GRID, step);
            if !list.windows(2).all(|pair| pair[0] < pair[1]) {
                let (part, offset) = (PART_TIMES, self.piece.offset);
                return Err(Error::Malformed { part, offset, what: "the times of a list do not ascend" });
            }
            let stamps = stamps.get_mut(n).and_then(Option::take).map(Arc::new);
            let times = if self.stamped { same.shared(list) } else { list };
            lists.push(TimeList { times, stamps });
            rest = after;
        }
        Ok(lists)
    }
}

/// Lists of a page with equal times, which readers recognize by their address.
#[derive(Default)]
struct SameTimes(HashMap<(i64, i64, usize), Arc<Vec<i64>>>);

impl SameTimes {
    fn shared(&mut self, list: Arc<Vec<i64>>) -> Arc<Vec<i64>> {
        let key = (list[0], list[list.len() - 1], list.len());
        let known = self.0.entry(key).or_insert_with(|| Arc::clone(&list));
        if **known == *list { Arc::clone(known) } else { list }
    }
}

fn get_distances(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, Error> {
    let offset = reader.offset();
    let table = reader.blob()?;
    let page = reader.rest();
    if table.is_empty() {
        return Ok(vec![0; count]);
    }
    NumberDecoder::new(table, PART_TIMES, offset)?.page(page, count, PART_TIMES, offset)
}

fn list_of(first: i64, distances: &[i64], on_grid: bool, step: i64) -> Arc<Vec<i64>> {
    let (mut at, mut tick) = (first, first);
    let times = distances.iter().map(|distance| {
        tick = if on_grid { tick } else { at }.wrapping_add(step);
        at = tick.wrapping_add(*distance);
        at
    });
    Arc::new(std::iter::once(first).chain(times).collect())
}

/// Times and their stamps.
type StampedTimes = Arc<(Vec<i64>, Vec<Stamp>)>;

/// Numbers lists of times, and creates pages of the new ones.
#[derive(Debug, Default)]
pub(super) struct TimeLists {
    /// Lists with their numbers, by first time, last time and number of times, by their first stamp, and by a
    /// hash of their times: imported series of thousands of targets may differ by single milliseconds.
    known: HashMap<(i64, i64, usize, Stamp, u64), Vec<(u32, StampedTimes)>>,
    hashing: RandomState,
    known_times: usize,
    lists: u32,
    pending: Vec<StampedTimes>,
    pending_times: usize,
}

impl TimeLists {
    /// Returns the number of a list: not empty, ascending, of at most [`LIST_ROWS_MAX`] times, each with a
    /// stamp or all without.
    pub(super) fn number(&mut self, times: &[i64], stamps: &[Stamp]) -> u32 {
        let first = stamps.first().copied().unwrap_or_default();
        let hash = self.hashing.hash_one(times);
        let key = (times[0], times[times.len() - 1], times.len(), first, hash);
        let alike = self.known.entry(key).or_default();
        if let Some((number, _)) = alike.iter().find(|(_, known)| known.0 == times && known.1 == stamps) {
            return *number;
        }
        let (number, list) = (self.lists, Arc::new((times.to_vec(), stamps.to_vec())));
        alike.push((number, Arc::clone(&list)));
        self.lists += 1;
        self.pending_times += times.len();
        self.pending.push(list);
        self.known_times += times.len() + stamps.len() * STAMP_TIMES;
        if self.known_times > KNOWN_TIMES {
            self.known.clear();
            self.known_times = 0;
        }
        number
    }

    /// Whether a page is full.
    pub(super) fn is_full(&self) -> bool {
        self.pending_times >= PAGE_TIMES
    }

    /// Returns the page of the pending lists for `offset`.
    pub(super) fn take_page(&mut self, offset: u64) -> Result<Option<(TimePageEntry, Vec<u8>)>, Error> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        put_packed(&mut bytes, &pending.iter().map(|list| list.0.len() as u64).collect::<Vec<_>>());
        let mut before = 0i64;
        for list in &pending {
            put_signed(&mut bytes, list.0[0].wrapping_sub(before));
            before = list.0[0];
        }
        let stamped = pending.iter().any(|list| !list.1.is_empty());
        put_distances(&mut bytes, &pending, stamped)?;
        let lists = pending.len() as u32;
        let entry = TimePageEntry {
            piece: Piece::of(offset, &bytes),
            first_list: self.lists - lists,
            lists,
            times: std::mem::take(&mut self.pending_times) as u32,
            stamped,
        };
        Ok(Some((entry, bytes)))
    }
}

/// Returns the sum of the bits of numbers.
fn cost(numbers: &[i64]) -> u64 {
    numbers.iter().map(|number| u64::from(64 - number.unsigned_abs().leading_zeros())).sum()
}

fn put_distances(out: &mut Vec<u8>, lists: &[StampedTimes], stamped: bool) -> Result<(), Error> {
    let mut from_before: Vec<i64> =
        lists.iter().flat_map(|list| list.0.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]))).collect();
    let mut sorted = from_before.clone();
    let middle = sorted.len() / 2;
    let step = if sorted.is_empty() { 0 } else { *sorted.select_nth_unstable(middle).1 };
    let on_grid = |list: &StampedTimes| -> Vec<i64> {
        let tick = |n: usize| list.0[0].wrapping_add(step.wrapping_mul(n as i64));
        list.0.iter().enumerate().skip(1).map(|(n, time)| time.wrapping_sub(tick(n))).collect()
    };
    let from_grid: Vec<i64> = lists.iter().flat_map(on_grid).collect();
    from_before.iter_mut().for_each(|distance| *distance = distance.wrapping_sub(step));
    let (from, numbers) = match cost(&from_grid) < cost(&from_before) {
        true => (FROM_GRID, from_grid),
        false => (FROM_BEFORE, from_before),
    };
    out.push(from | if stamped { STAMPED } else { 0 });
    put_signed(out, step);
    if stamped {
        list_stamps::put(out, &lists.iter().map(|list| &list.1[..]).collect::<Vec<_>>())?;
    }
    if numbers.iter().all(|number| *number == 0) {
        put_varint(out, 0);
        return Ok(());
    }
    let chunk = compress(&numbers, vec![numbers.len()], 0, LEVEL, Moments::Stored)?;
    put_blob(out, &chunk.table);
    out.extend_from_slice(&chunk.pages);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size_after_round_trip(lists: &[Vec<i64>]) -> usize {
        let mut writer = TimeLists::default();
        let numbers: Vec<u32> = lists.iter().map(|list| writer.number(list, &[])).collect();
        let again: Vec<u32> = lists.iter().map(|list| writer.number(list, &[])).collect();
        assert_eq!(numbers, again, "a list is stored once");
        let (entry, bytes) = writer.take_page(77).unwrap().unwrap();
        let found = entry.decode(&bytes).unwrap();
        for (list, number) in lists.iter().zip(numbers) {
            assert_eq!(found[number as usize].times[..], list[..]);
        }
        assert!(writer.take_page(0).unwrap().is_none());
        bytes.len()
    }

    #[test]
    fn regular_times_take_few_bytes() {
        let list = |offset: i64| (0..5_000i64).map(|n| 1_795_176_000_000 + offset + n * 15_000).collect();
        assert!(size_after_round_trip(&[list(0), list(7_123), list(13_999)]) < 40);
    }

    #[test]
    fn one_late_scrape_in_ten_costs_less_than_a_bit_per_time() {
        let late = |n: i64| if n * 7 % 10 == 0 { n % 4 } else { 0 };
        let list = (0..8_000).map(|n| 1_795_176_000_000 + n * 15_000 + late(n)).collect();
        assert!(size_after_round_trip(&[list]) < 1_000);
    }

    #[test]
    fn extreme_times_round_trip() {
        size_after_round_trip(&[vec![i64::MIN, 0, i64::MAX], vec![i64::MAX], vec![-1, 0]]);
    }

    proptest! {
        #[test]
        fn any_ascending_times_round_trip(
            lists in prop::collection::vec(prop::collection::btree_set(any::<i64>(), 1..40), 1..8),
            shift in 0..60u32,
        ) {
            let rising = |list: &std::collections::BTreeSet<i64>| {
                let mut list: Vec<i64> = list.iter().map(|time| time >> shift).collect();
                list.dedup();
                list
            };
            size_after_round_trip(&lists.iter().map(rising).collect::<Vec<_>>());
        }
    }
}
