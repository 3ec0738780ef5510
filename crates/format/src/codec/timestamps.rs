//! Timestamps of rows in runs: per run the first value, then the differences from row to row.
//!
//! Layout: unit (LEB128), per run the first value as a zigzag difference from the first value of the run
//! before, then all differences within runs divided by the unit, bit packed. The unit is the greatest
//! common divisor of the differences, so whole seconds, milliseconds or a constant interval take few
//! bits. Sorted runs have small differences; unsorted ones are encoded correctly but need more bits.

use crate::codec::bitpack;
use crate::codec::reader::Reader;
use crate::codec::varint::{put_signed, put_varint};
use crate::error::Error;

/// Appends `timestamps`, whose runs end before the rows in `run_ends` (ascending, the last is the number
/// of timestamps).
pub fn put_timestamps(out: &mut Vec<u8>, run_ends: &[u32], timestamps: &[i64]) {
    let mut distances = Vec::with_capacity(timestamps.len());
    let (mut start, mut unit) = (0, 0);
    for &end in run_ends {
        let run = &timestamps[start..end as usize];
        for pair in run.windows(2) {
            let distance = pair[1].wrapping_sub(pair[0]) as u64;
            if unit != 1 {
                unit = greatest_common_divisor(distance, unit);
            }
            distances.push(distance);
        }
        start = end as usize;
    }
    let unit = unit.max(1);
    put_varint(out, unit);
    let (mut start, mut before) = (0, 0i64);
    for &end in run_ends {
        let first = timestamps[start as usize];
        put_signed(out, first.wrapping_sub(before));
        (before, start) = (first, end);
    }
    if unit > 1 {
        distances.iter_mut().for_each(|d| *d /= unit);
    }
    bitpack::put_packed(out, &distances);
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Reads the timestamps of runs that end before `run_ends` (ascending, none empty).
pub fn get_timestamps(reader: &mut Reader<'_>, run_ends: &[u32]) -> Result<Vec<i64>, Error> {
    let rows = run_ends.last().copied().unwrap_or(0) as usize;
    let unit = reader.varint()?;
    let mut firsts = Vec::with_capacity(run_ends.len());
    let mut first = 0i64;
    for _ in run_ends {
        first = first.wrapping_add(reader.signed()?);
        firsts.push(first);
    }
    let distances = bitpack::get_packed(reader, rows - run_ends.len(), |d| d.wrapping_mul(unit) as i64)?;
    let mut timestamps = Vec::with_capacity(rows);
    let (mut start, mut rest) = (0, distances.as_slice());
    for (&end, first) in run_ends.iter().zip(firsts) {
        let (own, after) = rest.split_at((end - start) as usize - 1);
        let mut at = first;
        timestamps.push(at);
        timestamps.extend(own.iter().map(|distance| {
            at = at.wrapping_add(*distance);
            at
        }));
        (start, rest) = (end, after);
    }
    Ok(timestamps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size_after_round_trip(run_ends: &[u32], timestamps: &[i64]) -> usize {
        let mut bytes = Vec::new();
        put_timestamps(&mut bytes, run_ends, timestamps);
        let mut reader = Reader::new("test", 0, &bytes);
        assert_eq!(get_timestamps(&mut reader, run_ends).unwrap(), timestamps);
        reader.finish().unwrap();
        bytes.len()
    }

    #[test]
    fn a_constant_interval_takes_few_bytes() {
        let steady: Vec<i64> = (0..1_000).map(|i| 1_700_000_000_000_000_123 + i * 15_000_000_000).collect();
        assert!(size_after_round_trip(&[400, 1_000], &steady) < 60);
    }

    #[test]
    fn whole_milliseconds_are_stored_in_milliseconds() {
        let times: Vec<i64> = (0..1_280).map(|i| (i * 64 + i * i % 61) * 1_000_000).collect();
        assert!(size_after_round_trip(&[1_280], &times) <= 1_280 * 8 / 8 + 100);
    }

    #[test]
    fn extreme_and_unsorted_values_round_trip() {
        size_after_round_trip(&[], &[]);
        size_after_round_trip(&[1], &[i64::MIN]);
        size_after_round_trip(&[2, 3], &[i64::MIN, i64::MAX, 0]);
        size_after_round_trip(&[3], &[5, 3, 4]);
    }

    proptest! {
        #[test]
        fn any_runs_round_trip(runs in proptest::collection::vec(
            proptest::collection::vec(any::<i64>(), 1..50), 0..10), shift in 0..60u32) {
            let mut ends = Vec::new();
            let mut all = Vec::new();
            for mut run in runs {
                run.sort_unstable();
                all.extend(run.iter().map(|t| t >> shift));
                ends.push(all.len() as u32);
            }
            size_after_round_trip(&ends, &all);
        }
    }
}
