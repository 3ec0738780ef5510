//! The filters of pages that a merge copies.
//!
//! The filter of a page is in all pieces of its segment. So a segment is read completely, and the filters of
//! all its pages that the merge copies are taken from it at once. If their memory is not available, it is
//! read several times, each time for fewer pages, down to one.
//!
//! Invariant: filters, and the pieces from which they are copied, are in memory that was reserved before they
//! are read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sandur_cache::Hint;
use sandur_format::needle::{FilterCopy, FilterSegment, PageFilter, SegmentPieces};
use sandur_memory::{MemoryBudget, OverBudget, Reservation};
use sandur_query::QueryStats;

use super::block::OpenLogs;
use crate::blocks::cache::Piece;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;

/// Bytes of pieces that are read at once: a segment of 512 pages takes four reads.
const READ_BYTES: u64 = 1 << 20;

/// Identifies a page of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// Position of the block among the inputs.
    pub input: usize,
    /// Position of the page in the block.
    pub page: u32,
}

/// Filters to be copied from one segment.
pub struct FilterRequest {
    /// Position of the block among the inputs.
    pub(super) input: usize,
    copies: Vec<FilterCopy>,
    /// Memory of the copies.
    memory: Reservation,
    /// Memory of the pieces that are read at once.
    reading: Reservation,
}

/// Filters that were copied from one segment.
pub struct ReadFilters {
    input: usize,
    filters: Vec<(u32, PageFilter)>,
    memory: Reservation,
}

/// The filters of the next pages of all inputs.
#[derive(Default)]
pub(super) struct MergeFilters {
    ready: BTreeMap<(usize, u32), (PageFilter, Reservation)>,
    /// Bytes that the filters of one input may take. So the first inputs leave memory for the others.
    share: Option<u64>,
}

impl MergeFilters {
    /// Adds filters that were read.
    pub(super) fn add(&mut self, read: ReadFilters) {
        let ReadFilters { input, filters, mut memory } = read;
        for (page, filter) in filters {
            let memory = memory.split(filter.len() as u64);
            self.ready.insert((input, page), (filter, memory));
        }
    }

    /// Removes the filter of a page.
    pub(super) fn take(&mut self, page: PageRef) -> Option<(PageFilter, Reservation)> {
        self.ready.remove(&(page.input, page.page))
    }

    /// The request for the filter of the first of the pages to be copied and for as many others of its
    /// segment as memory allows; `None` if the filter is there or the page has none.
    pub(super) fn missing(
        &mut self,
        inputs: &[Arc<OpenLogs>],
        moved: &VecDeque<PageRef>,
        budget: &MemoryBudget,
    ) -> Result<Option<FilterRequest>, OverBudget> {
        let Some(first) = moved.front() else { return Ok(None) };
        let segment = inputs[first.input].footer.filter_segment_of(first.page);
        let Some(segment) = segment.filter(|_| !self.ready.contains_key(&(first.input, first.page))) else {
            return Ok(None);
        };
        let share = *self.share.get_or_insert_with(|| budget.available() / (inputs.len() as u64 + 1));
        let is_of_segment =
            |page: &&PageRef| page.input == first.input && segment.pages().contains(&page.page);
        let mut pages = Vec::new();
        let mut bytes = 0;
        for page in moved.iter().filter(is_of_segment).map(|page| page.page) {
            let more = segment.filter_bytes(page);
            if !pages.is_empty() && bytes + more > share {
                break;
            }
            pages.push(page);
            bytes += more;
        }
        loop {
            match memory_for(segment, &pages, budget) {
                Ok((memory, reading)) => {
                    let copies = pages.iter().filter_map(|page| segment.begin_copy(*page)).collect();
                    return Ok(Some(FilterRequest { input: first.input, copies, memory, reading }));
                }
                Err(_) if pages.len() > 1 => pages.truncate(pages.len() / 2),
                // Filters of later pages are read again when their pages are copied.
                Err(_) if !self.ready.is_empty() => self.ready.clear(),
                Err(refusal) => return Err(refusal),
            }
        }
    }
}

/// Reserves memory for the filters of pages, and for reading some pieces of their segment.
fn memory_for(
    segment: &FilterSegment,
    pages: &[u32],
    budget: &MemoryBudget,
) -> Result<(Reservation, Reservation), OverBudget> {
    let memory = budget.reserve(pages.iter().map(|page| segment.filter_bytes(*page)).sum())?;
    let range = segment.range();
    let largest = (0..segment.pieces()).map(|number| segment.piece(number).len).max().unwrap_or(0);
    let some = READ_BYTES.min(range.end - range.start).max(u64::from(largest));
    let reading = budget.reserve(some).or_else(|_| budget.reserve(u64::from(largest)))?;
    Ok((memory, reading))
}

/// Reads the pieces of the segment and copies the filters of a request from them.
pub(super) async fn read_filters(
    reader: &BlockReader,
    block: &OpenLogs,
    request: FilterRequest,
    hint: Hint,
) -> Result<ReadFilters, ReadError> {
    let FilterRequest { input, mut copies, memory, reading } = request;
    let first = copies.first().and_then(|copy| block.footer.filter_segment_of(copy.page()));
    if let Some(segment) = first {
        let damaged = |reason| ReadError::damaged(&block.meta, reason);
        let known = reader.cache.get::<SegmentPieces>(block.meta.id, Piece::Filter(segment.range().start));
        let mut next = 0;
        while next < segment.pieces() {
            if let Some(bytes) = known.as_ref().and_then(|pieces| pieces.piece(next)) {
                segment.copy(next, bytes, &mut copies).map_err(damaged)?;
                next += 1;
                continue;
            }
            let mut wanted = vec![segment.piece(next)];
            let mut left = reading.bytes().saturating_sub(u64::from(wanted[0].len));
            for piece in (next + 1..segment.pieces()).map(|number| segment.piece(number)) {
                let Some(rest) = left.checked_sub(u64::from(piece.len)) else { break };
                left = rest;
                wanted.push(piece);
            }
            let read = reader.pieces(&block.meta, &wanted, hint, &QueryStats::default()).await?;
            for stored in read {
                segment.copy(next, &stored.bytes, &mut copies).map_err(damaged)?;
                next += 1;
            }
        }
    }
    Ok(ReadFilters { input, filters: copies.into_iter().map(FilterCopy::finish).collect(), memory })
}
