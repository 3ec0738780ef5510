//! Postings: for each label value the set of streams that have it, and for each name the set of streams
//! that have the label at all.
//!
//! Layout: per label name in order of the stream table: bit-packed lengths of the sets (presence first,
//! then one per value); then all sets, concatenated. A set is a serialized roaring bitmap (the portable
//! format), or four bytes: the ordinal of its only member.
//!
//! Lengths are known without decoding a set, so the cheapest matchers are applied first and expensive
//! ones see only the remaining streams.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use roaring::RoaringBitmap;
use sandur_model::{MatchOp, Matcher};

use super::container::PART_FOOTER;
use super::series::{LabelColumn, SeriesTable};
use crate::codec::bitpack::{get_packed_u32, put_packed};
use crate::codec::reader::Reader;
use crate::error::Error;

/// A set with a single member is stored as its ordinal.
const SINGLE: usize = 4;

/// The sets of a block, decoded on demand.
#[derive(Clone, Debug)]
pub(crate) struct Postings {
    bytes: Bytes,
    /// Per label name: the bounds of its sets; one more than there are sets.
    starts: Vec<Vec<u32>>,
}

impl Postings {
    pub(crate) fn put(out: &mut Vec<u8>, table: &SeriesTable) {
        let mut sets = Vec::new();
        for column in table.columns() {
            let mut members = vec![RoaringBitmap::new(); column.values.len() + 1];
            for (ordinal, &id) in column.ids.iter().enumerate() {
                if id > 0 {
                    members[0].insert(ordinal as u32);
                    members[id as usize].insert(ordinal as u32);
                }
            }
            let lengths: Vec<u64> = members.iter().map(|set| put_set(&mut sets, set)).collect();
            put_packed(out, &lengths);
        }
        out.extend_from_slice(&sets);
    }

    pub(crate) fn get(bytes: Bytes, table: &SeriesTable) -> Result<Self, Error> {
        let mut reader = Reader::new(PART_FOOTER, 0, &bytes);
        let mut starts = Vec::with_capacity(table.columns().len());
        let mut at = 0u32;
        for column in table.columns() {
            let lengths = get_packed_u32(&mut reader, column.values.len() + 1)?;
            let mut own = Vec::with_capacity(lengths.len() + 1);
            own.push(at);
            for length in lengths {
                at = at.checked_add(length).ok_or_else(|| reader.malformed("postings are too long"))?;
                own.push(at);
            }
            starts.push(own);
        }
        let sets = bytes.slice(reader.position()..);
        if sets.len() != at as usize {
            return Err(reader.malformed("postings have another length than their sets"));
        }
        Ok(Self { bytes: sets, starts })
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bytes.len() + self.starts.iter().map(|s| s.len() * 4 + 24).sum::<usize>()) as u64
    }

    fn range(&self, column: usize, id: u32) -> Range<usize> {
        let starts = &self.starts[column];
        starts[id as usize] as usize..starts[id as usize + 1] as usize
    }

    /// Returns the streams with value `id` of a column; with id 0 those that have the label at all.
    pub(crate) fn set(&self, column: usize, id: u32, streams: u32) -> Result<RoaringBitmap, Error> {
        let range = self.range(column, id);
        let offset = range.start as u64;
        get_set(&self.bytes[range], offset, streams)
    }
}

/// Decodes a set of streams from its bytes, which are at `offset`.
pub(crate) fn get_set(bytes: &[u8], offset: u64, streams: u32) -> Result<RoaringBitmap, Error> {
    let malformed = |what| Error::Malformed { part: PART_FOOTER, offset, what };
    let set = match <[u8; SINGLE]>::try_from(bytes) {
        Ok(ordinal) => RoaringBitmap::from_iter([u32::from_le_bytes(ordinal)]),
        Err(_) => {
            RoaringBitmap::deserialize_from(bytes).map_err(|_| malformed("a posting is not a bitmap"))?
        }
    };
    if set.max().is_some_and(|highest| highest >= streams) {
        return Err(malformed("a posting names a stream that is not there"));
    }
    Ok(set)
}

/// Appends a set of streams and returns its length.
pub(crate) fn put_set(out: &mut Vec<u8>, set: &RoaringBitmap) -> u64 {
    let start = out.len();
    match (set.len(), set.min()) {
        (1, Some(ordinal)) => out.extend_from_slice(&ordinal.to_le_bytes()),
        _ => set.serialize_into(&mut *out).expect("writing to a vector cannot fail"),
    }
    (out.len() - start) as u64
}

/// Returns the streams whose labels pass all matchers.
pub(crate) fn select(
    table: &SeriesTable,
    postings: &Postings,
    matchers: &[Matcher],
) -> Result<RoaringBitmap, Error> {
    let streams = table.len() as u32;
    let mut selected = RoaringBitmap::new();
    selected.insert_range(0..streams);
    let mut ordered: Vec<&Matcher> = matchers.iter().collect();
    ordered.sort_by_key(|matcher| cost(table, postings, matcher));
    for matcher in ordered {
        if selected.is_empty() {
            break;
        }
        let Ok(at) = table.columns().binary_search_by(|c| (*c.name).cmp(matcher.name())) else {
            if !matcher.matches_empty() {
                selected.clear();
            }
            continue;
        };
        let column = &table.columns()[at];
        // Reading the sets of all values costs more than checking each remaining stream.
        let few = selected.len() < column.values.len() as u64;
        if few && !matches!(matcher.op(), MatchOp::Equal) {
            retain(&mut selected, column, matcher);
        } else {
            narrow(&mut selected, (column, at), postings, matcher, streams)?;
        }
    }
    Ok(selected)
}

/// Returns a rough number of steps: bytes of the one set for `=`, distinct values for other operators.
fn cost(table: &SeriesTable, postings: &Postings, matcher: &Matcher) -> usize {
    let Ok(at) = table.columns().binary_search_by(|c| (*c.name).cmp(matcher.name())) else { return 0 };
    let column = &table.columns()[at];
    match matcher.op() {
        MatchOp::Equal => column.id_of(matcher.value()).map_or(0, |id| postings.range(at, id).len()),
        MatchOp::NotEqual => table.len(),
        MatchOp::Regex | MatchOp::NotRegex => table.len() + column.values.len() * 64,
    }
}

fn retain(selected: &mut RoaringBitmap, column: &LabelColumn, matcher: &Matcher) {
    let mut known: HashMap<u32, bool, foldhash::fast::RandomState> = HashMap::default();
    let passes = |ordinal: &u32| {
        let id = column.ids[*ordinal as usize];
        let value = || if id == 0 { "" } else { &*column.values[id as usize - 1] };
        *known.entry(id).or_insert_with(|| matcher.matches(value()))
    };
    *selected = RoaringBitmap::from_sorted_iter(selected.iter().filter(passes)).expect("sorted");
}

fn narrow(
    selected: &mut RoaringBitmap,
    (column, at): (&LabelColumn, usize),
    postings: &Postings,
    matcher: &Matcher,
    streams: u32,
) -> Result<(), Error> {
    let set_of = |id: u32| postings.set(at, id, streams);
    let without_label = matcher.matches_empty();
    match (matcher.op(), column.id_of(matcher.value())) {
        // `=""` requires the absence of the label: the general case below.
        (MatchOp::Equal, id) if !without_label => match id {
            Some(id) => *selected &= set_of(id)?,
            None => selected.clear(),
        },
        (MatchOp::NotEqual, id) if without_label => {
            if let Some(id) = id {
                *selected -= set_of(id)?;
            }
        }
        _ => {
            let ids = 1..=column.values.len() as u32;
            let passes = |id: u32| matcher.matches(&column.values[id as usize - 1]);
            let (passing, failing): (Vec<u32>, Vec<u32>) = ids.partition(|&id| passes(id));
            // The smaller number of sets is read: either those to keep or those to remove.
            let mut kept = RoaringBitmap::new();
            if passing.len() <= failing.len() {
                for id in passing {
                    kept |= set_of(id)?;
                }
            } else {
                kept = set_of(0)?;
                for id in failing {
                    kept -= set_of(id)?;
                }
            }
            if without_label {
                let present = set_of(0)?;
                *selected = (&*selected - &present) | (&*selected & &kept);
            } else {
                *selected &= kept;
            }
        }
    }
    Ok(())
}
