//! Finds the rows that two blocks have in common.
//!
//! If clients push to several processes in turn, the blocks of these processes have rows of the same streams
//! and times, although hardly a row is stored twice. The bounds of streams ([`super::suspects`]) then make
//! every row suspect, and each query would compare all of them. The rows of a block never change, so two
//! blocks are compared once, and the result is cached.
//!
//! Timestamps are compared first. Only rows with a timestamp that both blocks have in a stream are compared
//! as a whole.
//!
//! **Invariants.** A result is complete: rows of the two blocks that are not in it differ. A comparison is
//! optional. There is no result if memory is short, a block has too many rows, or a block cannot be read;
//! then the bounds decide, and the query that needs the rows reports the damage.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sandur_cache::Hint;
use sandur_format::Error as FormatError;
use sandur_format::log_block::{PageEntry, Wanted};
use sandur_memory::{Reservation, job};
use sandur_model::{LogPage, StreamId, Suspect};
use sandur_query::{Error, QueryContext, SeenRows};

use super::block::OpenLogs;
use crate::blocks::cache::Piece;
use crate::blocks::reader::BlockReader;
use crate::error::ReadError;

/// The most rows in the pages of one block that are compared.
const ROWS_MAX: u64 = 4 << 20;
/// Stored bytes of pages that are read at once.
const BATCH_BYTES: u64 = 4 << 20;

/// The rows that two blocks have in common: for each of their streams, the times between which they are.
#[derive(Debug, Default)]
pub(crate) struct CommonRows(Vec<(StreamId, Suspect)>);

impl CommonRows {
    /// The times between which all common rows of a stream are.
    pub(crate) fn of(&self, stream: StreamId) -> Option<Suspect> {
        let at = self.0.binary_search_by_key(&stream, |(stream, _)| *stream).ok()?;
        Some(self.0[at].1)
    }

    fn add(&mut self, stream: StreamId, timestamp: i64) {
        match self.0.last_mut() {
            Some((last, times)) if *last == stream => {
                *times = Suspect { first: times.first.min(timestamp), last: times.last.max(timestamp) };
            }
            _ => self.0.push((stream, Suspect { first: timestamp, last: timestamp })),
        }
    }

    fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + self.0.capacity() * size_of::<(StreamId, Suspect)>()) as u64
    }
}

/// A stream that both blocks have, at times that both have.
#[derive(Clone, Copy)]
struct Shared {
    id: StreamId,
    times: Suspect,
}

/// One of the two blocks, with the places of the shared streams by their ordinals.
#[derive(Clone)]
struct Side {
    block: Arc<OpenLogs>,
    shared: Arc<Vec<Shared>>,
    places: Arc<HashMap<u32, u32, foldhash::fast::RandomState>>,
}

/// A row: the place of its shared stream, its timestamp, and what else is known of it.
type Found<T> = (u32, i64, T);

/// The place of a shared stream, and a timestamp.
type Instant = (u32, i64);

/// Rows in ascending order, with their memory.
struct Rows<T> {
    rows: Vec<Found<T>>,
    _memory: Reservation,
}

/// A page with its stored bytes.
type StoredPage = (u32, Bytes, Option<Bytes>);

/// Compares blocks for a query.
pub(crate) struct Comparison<'a> {
    /// Reads the pages.
    pub(crate) reader: &'a BlockReader,
    /// The query, whose memory and turns are used.
    pub(crate) context: &'a QueryContext,
}

impl Comparison<'_> {
    /// The rows that the blocks have in common, if that is known already.
    pub(crate) fn known(&self, [a, b]: [&OpenLogs; 2]) -> Option<Arc<CommonRows>> {
        let (a, b) = (a.meta.id.min(b.meta.id), a.meta.id.max(b.meta.id));
        self.reader.cache().get(a, Piece::CommonRows(b))
    }

    /// The rows that the blocks have in common; `None` if they cannot be compared.
    pub(crate) async fn compare(&self, pair: [&Arc<OpenLogs>; 2]) -> Result<Option<Arc<CommonRows>>, Error> {
        let common = match self.common(pair).await {
            Ok(Some(common)) => Arc::new(common),
            Ok(None) | Err(Error::OverBudget(_) | Error::Corrupt(_) | Error::Unavailable(_)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let (a, b) = (pair[0].meta.id.min(pair[1].meta.id), pair[0].meta.id.max(pair[1].meta.id));
        self.reader.cache().insert(a, Piece::CommonRows(b), Arc::clone(&common), common.memory_bytes());
        Ok(Some(common))
    }

    async fn common(&self, pair: [&Arc<OpenLogs>; 2]) -> Result<Option<CommonRows>, Error> {
        let streams = pair[0].footer.streams().len() + pair[1].footer.streams().len();
        let entry = size_of::<Shared>() + 2 * size_of::<(u32, u32)>();
        let _memory = self.context.budget().reserve((2 * streams * entry) as u64)?;
        let [one, other] = sides(pair);
        let pages = [one.pages(|_| true), other.pages(|_| true)];
        if [&one, &other].into_iter().zip(&pages).any(|(side, pages)| side.rows(pages) > ROWS_MAX) {
            return Ok(None);
        }
        let [of_one, of_other] = pages;
        let times = self.times(&one, of_one).await?;
        let others = self.times(&other, of_other).await?;
        let count = both(&times.rows, &others.rows).count();
        let _memory = self.context.budget().reserve((count * size_of::<Instant>()) as u64)?;
        let mut instants: Vec<Instant> = Vec::with_capacity(count);
        instants.extend(both(&times.rows, &others.rows));
        drop((times, others));
        let mut common = CommonRows::default();
        if !instants.is_empty() {
            let instants = Arc::new(instants);
            let rows = self.whole_rows(&one, &instants).await?;
            let others = self.whole_rows(&other, &instants).await?;
            both(&rows.rows, &others.rows).for_each(|(n, at)| common.add(one.shared[n as usize].id, at));
        }
        Ok(Some(common))
    }

    /// The timestamps of the shared streams on these pages, without repetitions.
    async fn times(&self, side: &Side, pages: Vec<u32>) -> Result<Rows<()>, Error> {
        let decode = |side: &Side, page: &PageEntry, (narrow, _): (&Bytes, Option<&Bytes>)| {
            let decoded = page.decode_narrow(narrow, Wanted { metadata: false })?;
            let mut found = Vec::new();
            for run in &decoded.runs {
                let Some((n, Shared { times, .. })) = side.shared_stream(run.stream) else { continue };
                let of_run = &decoded.timestamps[run.start as usize..run.end as usize];
                let start = of_run.partition_point(|&at| at < times.first);
                let end = of_run.partition_point(|&at| at <= times.last);
                found.extend(of_run[start..end.max(start)].iter().map(|&at| (n, at, ())));
            }
            found.dedup();
            Ok(found)
        };
        self.rows(side, pages, false, Arc::new(decode)).await
    }

    /// The hashes of all rows with these timestamps in these streams.
    async fn whole_rows(&self, side: &Side, instants: &Arc<Vec<Instant>>) -> Result<Rows<u128>, Error> {
        let _memory = self.context.budget().reserve((instants.len() * size_of::<i64>()) as u64)?;
        let mut times: Vec<i64> = instants.iter().map(|(_, at)| *at).collect();
        times.sort_unstable();
        let pages = side.pages(|page| {
            let next = times.partition_point(|at| *at < page.min_ts);
            times.get(next).is_some_and(|at| *at <= page.max_ts)
        });
        drop(times);
        let wanted = Arc::clone(instants);
        let decode = move |side: &Side, page: &PageEntry, (narrow, lines): (&Bytes, Option<&Bytes>)| {
            let decoded = page.decode_narrow(narrow, Wanted { metadata: true })?;
            let lines = page.decode_lines(lines.unwrap_or(&Bytes::new()), &decoded.timestamps)?;
            let runs = decoded.runs;
            let page = LogPage {
                runs: Vec::new(),
                timestamps: decoded.timestamps,
                levels: decoded.levels,
                metadata: decoded.metadata,
                lines: None,
            };
            let mut found = Vec::new();
            for run in &runs {
                let Some((n, Shared { id, .. })) = side.shared_stream(run.stream) else { continue };
                for row in run.start as usize..run.end as usize {
                    let at = page.timestamps[row];
                    if wanted.binary_search(&(n, at)).is_ok() {
                        found.push((n, at, SeenRows::hash(id, at, lines.line(row), page.metadata_of(row))));
                    }
                }
            }
            Ok(found)
        };
        self.rows(side, pages, true, Arc::new(decode)).await
    }

    /// Reads pages in batches and decodes rows of them.
    async fn rows<T, D>(
        &self,
        side: &Side,
        pages: Vec<u32>,
        with_lines: bool,
        decode: Arc<D>,
    ) -> Result<Rows<T>, Error>
    where
        T: Ord + Send + 'static,
        D: Fn(&Side, &PageEntry, (&Bytes, Option<&Bytes>)) -> Result<Vec<Found<T>>, FormatError>,
        D: Send + Sync + 'static,
    {
        let mut rows = Rows { rows: Vec::new(), _memory: self.context.budget().reserve(0)? };
        let mut left = &pages[..];
        while let Some((batch, rest)) = side.batch(left, with_lines) {
            left = rest;
            let held = rows._memory.bytes();
            let mut memory =
                self.context.budget().reserve(held + side.memory_bytes::<T>(batch, with_lines))?;
            let stored = self.stored(side, batch, with_lines).await?;
            let (side, decode, pages) = (side.clone(), Arc::clone(&decode), batch.to_vec());
            let mut known = std::mem::take(&mut rows.rows);
            rows.rows = self
                .context
                .compute(move || {
                    known.reserve_exact(side.rows(&pages) as usize);
                    for (page, narrow, lines) in stored {
                        let page = &side.block.footer.pages()[page as usize];
                        let found = decode(&side, page, (&narrow, lines.as_ref()));
                        known.extend(found.map_err(|reason| corrupt(&side, reason))?);
                        job::spend(page.rows as usize)?;
                    }
                    known.sort_unstable();
                    known.dedup();
                    Ok(known)
                })
                .await?;
            let kept = (rows.rows.capacity() * size_of::<Found<T>>()) as u64;
            memory.shrink(memory.bytes().saturating_sub(kept.saturating_sub(held)));
            rows._memory.absorb(memory);
        }
        Ok(rows)
    }

    async fn stored(&self, side: &Side, pages: &[u32], with_lines: bool) -> Result<Vec<StoredPage>, Error> {
        let mut pieces = Vec::with_capacity(2 * pages.len());
        for page in pages {
            let entry = &side.block.footer.pages()[*page as usize];
            pieces.push(entry.narrow);
            if with_lines {
                pieces.push(entry.lines);
            }
        }
        let bytes = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        let (meta, hint) = (&side.block.meta, Hint::Scan { bytes });
        let read = self.reader.pieces(meta, &pieces, hint, self.context.stats()).await;
        let read = read.map_err(|error| match error {
            ReadError::Memory(refusal) => Error::OverBudget(refusal),
            other => Error::Unavailable(other.to_string()),
        })?;
        let mut read = read.into_iter().map(|stored| stored.bytes);
        let next = |page: &u32| Some((*page, read.next()?, if with_lines { read.next() } else { None }));
        Ok(pages.iter().map_while(next).collect())
    }
}

fn corrupt(side: &Side, reason: FormatError) -> Error {
    Error::Corrupt(ReadError::damaged(&side.block.meta, reason).to_string())
}

/// The two blocks with the streams that both have, at times that both have.
fn sides(pair: [&Arc<OpenLogs>; 2]) -> [Side; 2] {
    let [one, other] = pair;
    let table = |block: &OpenLogs| 0..block.footer.streams().len() as u32;
    let ordinals: HashMap<StreamId, u32, foldhash::fast::RandomState> =
        table(other).map(|ordinal| (other.series_id(ordinal), ordinal)).collect();
    let (mut shared, mut places) = (Vec::new(), [HashMap::default(), HashMap::default()]);
    for ordinal in table(one) {
        let id = one.series_id(ordinal);
        let Some(of_other) = ordinals.get(&id) else { continue };
        let (a, b) = (one.footer.streams().stats(ordinal), other.footer.streams().stats(*of_other));
        let times = Suspect { first: a.min_ts.max(b.min_ts), last: a.max_ts.min(b.max_ts) };
        if times.first <= times.last {
            shared.push((Shared { id, times }, ordinal, *of_other));
        }
    }
    // Rows are found in the order of the streams' identities, as the result has them.
    shared.sort_unstable_by_key(|(shared, ..)| shared.id);
    for (n, (_, ordinal, of_other)) in (0u32..).zip(&shared) {
        places[0].insert(*ordinal, n);
        places[1].insert(*of_other, n);
    }
    let shared = Arc::new(shared.into_iter().map(|(shared, ..)| shared).collect::<Vec<_>>());
    let [first, second] = places.map(Arc::new);
    [(one, first), (other, second)].map(|(block, places)| Side {
        block: Arc::clone(block),
        shared: Arc::clone(&shared),
        places,
    })
}

impl Side {
    fn shared_stream(&self, ordinal: u32) -> Option<(u32, Shared)> {
        let place = *self.places.get(&ordinal)?;
        Some((place, self.shared[place as usize]))
    }

    /// The pages that may have rows of shared streams at shared times, of those that `is_wanted`.
    fn pages(&self, is_wanted: impl Fn(&PageEntry) -> bool) -> Vec<u32> {
        let mut ordinals: Vec<(u32, Suspect)> = self
            .places
            .iter()
            .map(|(ordinal, place)| (*ordinal, self.shared[*place as usize].times))
            .collect();
        ordinals.sort_unstable_by_key(|(ordinal, _)| *ordinal);
        let has_shared = |page: &&PageEntry| {
            let first = ordinals.partition_point(|(ordinal, _)| *ordinal < page.first_stream);
            let of_page = ordinals[first..].iter().take_while(|(ordinal, _)| *ordinal <= page.last_stream);
            is_wanted(page)
                && of_page
                    .into_iter()
                    .any(|(_, times)| page.min_ts <= times.last && times.first <= page.max_ts)
        };
        self.block.footer.pages().iter().filter(has_shared).map(|page| page.index).collect()
    }

    fn rows(&self, pages: &[u32]) -> u64 {
        pages.iter().map(|page| u64::from(self.block.footer.pages()[*page as usize].rows)).sum()
    }

    /// The memory of reading pages: as stored, one of them decoded with its rows, and all rows.
    fn memory_bytes<T>(&self, pages: &[u32], with_lines: bool) -> u64 {
        let entries = || pages.iter().map(|page| &self.block.footer.pages()[*page as usize]);
        let row_bytes = |page: &PageEntry| u64::from(page.rows) * size_of::<Found<T>>() as u64;
        let decoded = |page: &PageEntry| {
            let lines = if with_lines { page.line_memory_bytes() } else { 0 };
            page.narrow_memory_bytes(Wanted { metadata: with_lines }) + lines + row_bytes(page)
        };
        entries().map(|page| stored_bytes(page, with_lines) + row_bytes(page)).sum::<u64>()
            + entries().map(decoded).max().unwrap_or(0)
    }

    /// The first pages that are read at once, and the others.
    fn batch<'a>(&self, pages: &'a [u32], with_lines: bool) -> Option<(&'a [u32], &'a [u32])> {
        let mut bytes = 0;
        let fits = |page: &&u32| {
            let entry = &self.block.footer.pages()[**page as usize];
            bytes += stored_bytes(entry, with_lines);
            bytes <= BATCH_BYTES
        };
        let count = pages.iter().take_while(fits).count().max(1);
        (!pages.is_empty()).then(|| pages.split_at(count.min(pages.len())))
    }
}

fn stored_bytes(page: &PageEntry, with_lines: bool) -> u64 {
    u64::from(page.narrow.len) + if with_lines { u64::from(page.lines.len) } else { 0 }
}

/// The streams and timestamps of rows that are in both lists.
fn both<'a, T: Ord>(a: &'a [Found<T>], b: &'a [Found<T>]) -> impl Iterator<Item = Instant> + 'a {
    let mut rest = b.iter().peekable();
    a.iter().filter_map(move |row| {
        while rest.next_if(|other| *other < row).is_some() {}
        rest.next_if(|other| *other == row).map(|_| (row.0, row.1))
    })
}
