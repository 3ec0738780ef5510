//! The stamps of the samples of a page of times: for each list none, or one per time.
//!
//! Plain bytes: varint number of writers, their ids; then per list its kind (u8: [`NONE`], [`ONE`],
//! [`MIXED`]) and the fields of the kind: with `ONE` the varint position of its writer; with `MIXED` per
//! sample the varint position of its writer plus one, or 0 without a stamp. With both follows the distance
//! of each stamp's time from the one before in the list, of the first from the first one of the list before
//! (0 at the beginning). So lists with the stamps of the same frames have the same bytes, and zstd shortens
//! them to a few. A distance is the varint of twice its part above the counter (zigzag); one more if its
//! counter is not zero, which follows as a varint.

use sandur_base::Id;

use super::PART_TIMES;
use crate::codec::Reader;
use crate::codec::compress::{get_zstd, put_zstd};
use crate::codec::varint::{put_blob, put_varint, unzigzag, zigzag};
use crate::error::Error;
use crate::stamp::{COUNTER_BITS, Stamp, Stamps};

const NONE: u8 = 0;
const ONE: u8 = 1;
const MIXED: u8 = 2;
/// Most writers of a page of times, which has at most 131,072 times.
const WRITERS_MAX: usize = u16::MAX as usize - 1;
/// Most plain bytes: more than any page takes.
const PLAIN_BYTES_MAX: u64 = 8 << 20;
const LEVEL: i32 = 3;

/// Appends the stamps of lists: for each list its stamps, none if there are none.
pub(super) fn put(out: &mut Vec<u8>, lists: &[impl AsRef<[Stamp]>]) -> Result<(), Error> {
    let stamped = lists.iter().flat_map(AsRef::as_ref).filter(|stamp| stamp.is_some());
    let mut writers: Vec<Id> = stamped.map(|stamp| stamp.incarnation).collect();
    writers.sort_unstable();
    writers.dedup();
    if writers.len() > WRITERS_MAX {
        let (found, limit) = (writers.len() as u64, WRITERS_MAX as u64);
        return Err(Error::TooLarge { part: PART_TIMES, what: "the list of its writers", found, limit });
    }
    let position = |stamp: &Stamp| writers.binary_search(&stamp.incarnation).unwrap_or(0) as u64;
    let mut plain = Vec::new();
    put_varint(&mut plain, writers.len() as u64);
    writers.iter().for_each(|writer| plain.extend_from_slice(&writer.to_bytes()));
    let mut first_before = 0u64;
    for stamps in lists.iter().map(AsRef::as_ref) {
        let Some(first) = stamps.first() else {
            plain.push(NONE);
            continue;
        };
        let is_of_one = first.is_some() && stamps.iter().all(|one| one.incarnation == first.incarnation);
        if is_of_one && stamps.iter().all(|one| one.is_some()) {
            plain.push(ONE);
            put_varint(&mut plain, position(first));
        } else {
            plain.push(MIXED);
            let of = |stamp: &Stamp| if stamp.is_some() { position(stamp) + 1 } else { 0 };
            stamps.iter().for_each(|stamp| put_varint(&mut plain, of(stamp)));
        }
        let mut before = first_before;
        for stamp in stamps {
            put_distance(&mut plain, stamp.time.wrapping_sub(before) as i64);
            before = stamp.time;
        }
        first_before = first.time;
    }
    let mut stored = Vec::new();
    put_zstd(&mut stored, &plain, LEVEL);
    put_varint(out, plain.len() as u64);
    put_blob(out, &stored);
    Ok(())
}

fn put_distance(out: &mut Vec<u8>, distance: i64) {
    let (above, counter) = (distance >> COUNTER_BITS, distance as u64 & ((1 << COUNTER_BITS) - 1));
    put_varint(out, zigzag(above) << 1 | u64::from(counter > 0));
    if counter > 0 {
        put_varint(out, counter);
    }
}

fn get_distance(reader: &mut Reader<'_>) -> Result<i64, Error> {
    let first = reader.varint()?;
    let counter = if first & 1 == 1 { reader.varint()? } else { 0 };
    if counter >> COUNTER_BITS != 0 {
        return Err(reader.malformed("the counter of a stamp is too large"));
    }
    Ok(unzigzag(first >> 1) << COUNTER_BITS | counter as i64)
}

/// Reads the stamps of lists with these numbers of times; `None` for lists without any.
pub(super) fn get(reader: &mut Reader<'_>, lengths: &[u32]) -> Result<Vec<Option<Stamps>>, Error> {
    let (plain_len, offset) = (reader.varint()?, reader.offset());
    if plain_len > PLAIN_BYTES_MAX {
        let (what, found, limit) = ("the stamps of its samples", plain_len, PLAIN_BYTES_MAX);
        return Err(Error::TooLarge { part: PART_TIMES, what, found, limit });
    }
    let plain = get_zstd(reader.blob()?, plain_len as usize, PART_TIMES, offset)?;
    let mut reader = Reader::new(PART_TIMES, offset, &plain);
    let count = reader.count("writers of a page of times", WRITERS_MAX)?;
    let mut writers = Vec::with_capacity(count.min(reader.remaining() / 16));
    for _ in 0..count {
        writers.push(reader.id()?);
    }
    let (mut lists, mut first_before) = (Vec::with_capacity(lengths.len()), 0u64);
    for length in lengths {
        let stamps = get_list(&mut reader, *length as usize, (&writers, &mut first_before))?;
        lists.push(stamps);
    }
    reader.finish()?;
    Ok(lists)
}

fn get_list(
    reader: &mut Reader<'_>,
    length: usize,
    (writers, first_before): (&[Id], &mut u64),
) -> Result<Option<Stamps>, Error> {
    let (own, of_rows) = match reader.u8()? {
        NONE => return Ok(None),
        ONE => {
            let writer = reader.varint()? as usize;
            let writer = writers.get(writer).copied();
            (vec![writer.ok_or_else(|| reader.malformed("a stamp has no writer"))?], Vec::new())
        }
        MIXED => {
            let mut of_rows = Vec::with_capacity(length);
            for _ in 0..length {
                let writer = reader.varint()?;
                if writer > writers.len() as u64 {
                    return Err(reader.malformed("a stamp has no writer"));
                }
                of_rows.push(writer as u16);
            }
            (std::iter::once(Id::default()).chain(writers.iter().copied()).collect(), of_rows)
        }
        kind => return Err(reader.unknown("kind of stamps", kind)),
    };
    let (mut times, mut at) = (Vec::with_capacity(length), *first_before);
    for _ in 0..length {
        at = at.wrapping_add(get_distance(reader)? as u64);
        times.push(at);
    }
    *first_before = times.first().copied().unwrap_or_default();
    Ok(Some(Stamps::new(times, own, of_rows)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(lists: &[Vec<Stamp>]) -> usize {
        let mut bytes = Vec::new();
        put(&mut bytes, lists).unwrap();
        let lengths: Vec<u32> = lists.iter().map(|list| list.len().max(1) as u32).collect();
        let mut reader = Reader::new("test", 0, &bytes);
        let found = get(&mut reader, &lengths).unwrap();
        reader.finish().unwrap();
        for (list, found) in lists.iter().zip(&found) {
            let found: Vec<Stamp> = found.iter().flat_map(|of| (0..of.len()).map(|at| of.at(at))).collect();
            assert_eq!(found, *list);
        }
        bytes.len()
    }

    /// Points of 1,000 series of 20 senders, whose messages reach frames half a second apart.
    #[test]
    fn lists_of_the_same_frames_take_few_bytes() {
        let stamp = |sender: u64, n: u64| {
            let ms = 1_795_176_000_000 + n * 60_000 + (sender * 7_919 + n * 104_729) % 20_000;
            Stamp { time: ms << COUNTER_BITS, incarnation: Id(7) }
        };
        let lists: Vec<Vec<Stamp>> =
            (0..1_000).map(|series| (0..15).map(|n| stamp(series / 50, n)).collect()).collect();
        let bytes = round_trip(&lists);
        assert!(bytes < 15_000 / 5, "{bytes} bytes for 15,000 samples");
    }

    proptest! {
        #[test]
        fn any_stamps_round_trip(
            lists in prop::collection::vec(prop::collection::vec((any::<u64>(), 0u128..5), 0..30), 1..9),
            shift in 0..60u32,
        ) {
            let stamp = |(time, writer): (u64, u128)| match time >> shift {
                0 => Stamp::default(),
                time => Stamp { time, incarnation: Id(writer) },
            };
            let lists: Vec<Vec<Stamp>> =
                lists.into_iter().map(|list| list.into_iter().map(stamp).collect()).collect();
            round_trip(&lists);
        }

        #[test]
        fn damaged_stamps_are_an_error_and_no_panic(at in any::<prop::sample::Index>(), bit in 0..8u32) {
            let writer = |n: u64| Id(u128::from(n % 4));
            let stamp = |n: u64| Stamp { time: (n << COUNTER_BITS) | (n % 3), incarnation: writer(n) };
            let lists = [(1..40).map(stamp).collect(), Vec::new(), (2..9).map(stamp).collect()];
            let mut bytes = Vec::new();
            put(&mut bytes, &lists).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let _ = get(&mut Reader::new("test", 0, &bytes), &[39, 1, 7]);
        }
    }
}
