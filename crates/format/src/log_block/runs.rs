//! Runs: the rows of each stream in a page.
//!
//! **Invariants:** runs ascend by stream and cover all rows of the page.

use crate::codec::bitpack;
use crate::codec::reader::Reader;
use crate::error::Error;

/// Consecutive rows of one stream, sorted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The stream's ordinal in the block's stream table.
    pub stream: u32,
    /// First row.
    pub start: u32,
    /// Row after the last.
    pub end: u32,
}

pub(super) fn put_runs(out: &mut Vec<u8>, runs: &[Run]) {
    let mut next = 0;
    let gap = |run: &Run| u64::from(run.stream - std::mem::replace(&mut next, run.stream + 1));
    bitpack::put_packed(out, &runs.iter().map(gap).collect::<Vec<_>>());
    let rows: Vec<u64> = runs.iter().map(|run| u64::from(run.end - run.start)).collect();
    bitpack::put_packed(out, &rows);
}

pub(super) fn get_runs(reader: &mut Reader<'_>, count: usize, rows: u32) -> Result<Vec<Run>, Error> {
    let gaps = bitpack::get_packed_u32(reader, count)?;
    let lengths = bitpack::get_packed_u32(reader, count)?;
    let (mut runs, mut start, mut next) = (Vec::with_capacity(count), 0u32, 0u32);
    for (gap, length) in gaps.into_iter().zip(lengths) {
        let stream = next.checked_add(gap).filter(|&stream| stream < u32::MAX);
        let end = start.checked_add(length).filter(|&end| end <= rows && end > start);
        let (Some(stream), Some(end)) = (stream, end) else {
            return Err(reader.malformed("a run of rows lies outside of the page"));
        };
        runs.push(Run { stream, start, end });
        (start, next) = (end, stream + 1);
    }
    if start != rows {
        return Err(reader.malformed("the runs do not cover the page"));
    }
    Ok(runs)
}
