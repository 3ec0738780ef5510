//! Start times of samples: they rarely change, so only changes are stored.
//!
//! Layout: number of changes (LEB128), per change the rows since the one before (LEB128) and the
//! difference (zigzag) between the new and the old start.

use crate::codec::Reader;
use crate::codec::varint::{put_signed, put_varint};
use crate::error::Error;

/// Appends the starts of all rows.
pub(super) fn put(out: &mut Vec<u8>, starts: &[i64]) {
    let mut changes = Vec::new();
    let mut before = 0;
    for (row, start) in starts.iter().enumerate() {
        if *start != before {
            changes.push((row as u64, start.wrapping_sub(before)));
            before = *start;
        }
    }
    put_varint(out, changes.len() as u64);
    let mut before = 0;
    for (row, distance) in changes {
        put_varint(out, row - before);
        put_signed(out, distance);
        before = row;
    }
}

/// Reads the starts of `rows` rows.
pub(super) fn get(reader: &mut Reader<'_>, rows: usize) -> Result<Vec<i64>, Error> {
    let changes = reader.count("start times of a page", rows.min(reader.remaining() / 2))?;
    let (mut starts, mut start) = (Vec::with_capacity(rows), 0i64);
    for _ in 0..changes {
        let after = reader.count("rows before a start time", rows - starts.len())?;
        let at = reader.signed()?;
        starts.resize(starts.len() + after, start);
        start = start.wrapping_add(at);
    }
    starts.resize(rows, start);
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_start_that_never_changes_takes_a_few_bytes() {
        let mut bytes = Vec::new();
        put(&mut bytes, &[1_795_176_000_000; 5_000]);
        assert!(bytes.len() <= 9);
    }

    proptest! {
        #[test]
        fn any_starts_round_trip(runs in prop::collection::vec((any::<i64>(), 1..5usize), 0..30)) {
            let starts: Vec<i64> = runs.iter().flat_map(|(start, rows)| vec![*start; *rows]).collect();
            let mut bytes = Vec::new();
            put(&mut bytes, &starts);
            let mut reader = Reader::new("test", 0, &bytes);
            prop_assert_eq!(get(&mut reader, starts.len()).unwrap(), starts);
            reader.finish().unwrap();
        }

        #[test]
        fn arbitrary_bytes_return_no_more_rows(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(starts) = get(&mut Reader::new("test", 0, &bytes), 10) {
                prop_assert_eq!(starts.len(), 10);
            }
        }
    }
}
