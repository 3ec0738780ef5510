//! One stream of a head: pieces of batches in the order of their arrival, and its rows in the order of time.
//!
//! Appending never moves a row. A stream whose rows arrive in the order of time (the common case) is
//! read in place. The first reader of any other stream sorts its rows once and keeps the result for the
//! next reader.

use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandur_model::{Entry, Labels, LogBatch, StreamId, TimeRange};

use super::batch::HeadBatch;
use crate::growing::Growing;

/// A stream of a head.
pub struct HeadStream {
    /// Its identity.
    pub id: StreamId,
    /// Its labels.
    pub labels: Arc<Labels>,
    state: Mutex<StreamState>,
}

/// The entries of one stream in one batch.
#[derive(Clone)]
struct Piece {
    batch: Arc<HeadBatch>,
    stream: u32,
}

impl Piece {
    fn entries(&self) -> &[Entry] {
        &self.batch.batch().streams[self.stream as usize].entries
    }
}

struct StreamState {
    pieces: Growing<Piece>,
    totals: StreamTotals,
    last_arrived: i64,
    in_order: bool,
    sorted: Option<Sorted>,
}

/// Totals of a stream's rows, duplicates included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamTotals {
    /// Number of rows.
    pub rows: u64,
    /// Bytes of their lines.
    pub line_bytes: u64,
    /// First timestamp.
    pub first: i64,
    /// Last timestamp.
    pub last: i64,
}

/// The position of a row in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowAt {
    piece: u32,
    entry: u32,
}

#[derive(Clone, Copy)]
struct TimedRow {
    timestamp: i64,
    at: RowAt,
}

/// The rows of the first `pieces` pieces by time; rows of one instant are in the order of arrival.
#[derive(Clone)]
struct Sorted {
    pieces: usize,
    rows: Arc<[TimedRow]>,
}

impl HeadStream {
    pub(super) fn new(id: StreamId, labels: Arc<Labels>) -> Self {
        let totals = StreamTotals { rows: 0, line_bytes: 0, first: i64::MAX, last: i64::MIN };
        let state = StreamState {
            pieces: Growing::default(),
            totals,
            last_arrived: i64::MIN,
            in_order: true,
            sorted: None,
        };
        Self { id, labels, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends the entries of stream number `stream` of the batch, at least one. Returns their totals.
    pub(super) fn append(&self, batch: &Arc<HeadBatch>, stream: u32) -> StreamTotals {
        let piece = Piece { batch: Arc::clone(batch), stream };
        let mut state = self.state();
        let (mut last_arrived, mut in_order) = (state.last_arrived, state.in_order);
        let mut added = StreamTotals { rows: 0, line_bytes: 0, first: i64::MAX, last: i64::MIN };
        for entry in piece.entries() {
            in_order &= entry.timestamp >= last_arrived;
            last_arrived = entry.timestamp;
            added.line_bytes += u64::from(entry.line.len);
            added.first = added.first.min(entry.timestamp);
            added.last = added.last.max(entry.timestamp);
        }
        added.rows = piece.entries().len() as u64;
        (state.last_arrived, state.in_order) = (last_arrived, in_order);
        let totals = &mut state.totals;
        totals.rows += added.rows;
        totals.line_bytes += added.line_bytes;
        totals.first = totals.first.min(added.first);
        totals.last = totals.last.max(added.last);
        state.pieces.push(piece);
        added
    }

    /// The current totals.
    pub fn totals(&self) -> StreamTotals {
        self.state().totals
    }

    /// A snapshot of the current rows, by time.
    pub fn rows(self: &Arc<Self>) -> StreamRows {
        let (pieces, totals, in_order, sorted) = {
            let state = self.state();
            (state.pieces.clone(), state.totals, state.in_order, state.sorted.clone())
        };
        let stream = Arc::clone(self);
        if in_order {
            return StreamRows { stream, pieces, totals, sorted: None };
        }
        let sorted = match sorted {
            Some(sorted) if sorted.pieces == pieces.len() => sorted,
            earlier => self.sort(&pieces, earlier),
        };
        StreamRows { stream, pieces, totals, sorted: Some(sorted.rows) }
    }

    fn sort(&self, pieces: &Growing<Piece>, earlier: Option<Sorted>) -> Sorted {
        // A reader with an older snapshot may find an order that covers more than its pieces.
        let earlier = earlier.filter(|sorted| sorted.pieces < pieces.len());
        let (from, mut rows) =
            earlier.map_or((0, Vec::new()), |sorted| (sorted.pieces, sorted.rows.to_vec()));
        for piece in from..pieces.len() {
            for (entry, row) in pieces.get(piece).entries().iter().enumerate() {
                let at = RowAt { piece: piece as u32, entry: entry as u32 };
                rows.push(TimedRow { timestamp: row.timestamp, at });
            }
        }
        rows.sort_by_key(|row| row.timestamp); // stable, and fast on runs that are sorted already
        let sorted = Sorted { pieces: pieces.len(), rows: rows.into() };
        let mut state = self.state();
        if state.sorted.as_ref().is_none_or(|s| s.pieces < sorted.pieces) {
            state.sorted = Some(sorted.clone());
        }
        sorted
    }
}

/// A snapshot of a stream's rows.
#[derive(Clone)]
pub struct StreamRows {
    stream: Arc<HeadStream>,
    pieces: Growing<Piece>,
    totals: StreamTotals,
    sorted: Option<Arc<[TimedRow]>>,
}

/// One row of a snapshot.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its position in the stream.
    pub at: RowAt,
    /// The batch that brought it.
    pub batch: &'a LogBatch,
    /// The entry.
    pub entry: &'a Entry,
}

impl<'a> Row<'a> {
    /// A row of a batch that is in no head.
    pub fn of_batch(batch: &'a LogBatch, entry: &'a Entry) -> Self {
        Self { at: RowAt { piece: 0, entry: 0 }, batch, entry }
    }

    /// The bytes of the line.
    pub fn line(&self) -> &'a [u8] {
        self.entry.line.of(&self.batch.arena.bytes)
    }

    /// The name and value pairs of the structured metadata, as they were sent.
    pub fn metadata(&self) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone + use<'a> {
        self.batch.metadata_of(self.entry)
    }

    fn same_content(&self, other: &Row<'_>) -> bool {
        if self.entry.metadata_len != other.entry.metadata_len || self.line() != other.line() {
            return false;
        }
        self.metadata().eq(other.metadata()) || self.sorted_metadata() == other.sorted_metadata()
    }

    fn sorted_metadata(&self) -> Vec<(&'a [u8], &'a [u8])> {
        let mut pairs: Vec<_> = self.metadata().collect();
        pairs.sort_unstable();
        pairs
    }
}

impl StreamRows {
    /// The stream.
    pub fn stream(&self) -> &Arc<HeadStream> {
        &self.stream
    }

    /// Totals of the snapshot, duplicates included.
    pub fn totals(&self) -> StreamTotals {
        self.totals
    }

    /// The row at a position of this snapshot.
    pub fn row(&self, at: RowAt) -> Row<'_> {
        let piece = self.pieces.get(at.piece as usize);
        Row { at, batch: piece.batch.batch(), entry: &piece.entries()[at.entry as usize] }
    }

    /// Calls `visit` for every row inside the range, by ascending time. Rows of one instant are in the
    /// order of arrival, duplicates included.
    pub fn visit<'a>(&'a self, range: TimeRange, mut visit: impl FnMut(Row<'a>)) {
        let _ = self.visit_while(range, |row| {
            visit(row);
            ControlFlow::Continue(())
        });
    }

    /// Whether it has a row in the range.
    pub(in super::super) fn has_rows(&self, range: TimeRange) -> bool {
        let StreamTotals { rows, first, last, .. } = self.totals;
        let is_at_an_end = range.contains(first) || range.contains(last);
        rows > 0 && (is_at_an_end || self.visit_while(range, |_| ControlFlow::Break(())).is_break())
    }

    /// Does the same as [`StreamRows::visit`], until `visit` breaks.
    fn visit_while<'a>(
        &'a self,
        range: TimeRange,
        mut visit: impl FnMut(Row<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !range.touches(self.totals.first, self.totals.last) {
            return ControlFlow::Continue(());
        }
        match &self.sorted {
            Some(rows) => {
                let from = rows.partition_point(|row| row.timestamp < range.start);
                let mut inside = rows[from..].iter().take_while(|row| row.timestamp < range.end);
                inside.try_for_each(|row| visit(self.row(row.at)))
            }
            None => self.visit_in_place(range, visit),
        }
    }

    fn visit_in_place<'a>(
        &'a self,
        range: TimeRange,
        mut visit: impl FnMut(Row<'a>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let ends_before = |piece: &Piece| piece.entries().last().is_some_and(|e| e.timestamp < range.start);
        for number in self.pieces.partition_point(ends_before)..self.pieces.len() {
            let piece = self.pieces.get(number);
            let entries = piece.entries();
            let from = entries.partition_point(|entry| entry.timestamp < range.start);
            for (n, entry) in entries.iter().enumerate().skip(from) {
                if entry.timestamp >= range.end {
                    return ControlFlow::Continue(());
                }
                let at = RowAt { piece: number as u32, entry: n as u32 };
                visit(Row { at, batch: piece.batch.batch(), entry })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Calls `visit` for every distinct row inside the range, by ascending time. Of rows with the same
    /// timestamp, line and structured metadata the first that arrived is visited. Returns the number of
    /// duplicates.
    pub fn visit_distinct<'a>(&'a self, range: TimeRange, visit: impl FnMut(Row<'a>)) -> u64 {
        self.visit_distinct_while(range, visit, || true).duplicates
    }

    /// Does the same, but calls `go_on` after each instant and stops when it returns false.
    pub(crate) fn visit_distinct_while<'a>(
        &'a self,
        range: TimeRange,
        mut visit: impl FnMut(Row<'a>),
        mut go_on: impl FnMut() -> bool,
    ) -> Visited {
        let mut instant: Vec<Row<'a>> = Vec::new();
        let mut visited = Visited::default();
        let _ = self.visit_while(range, |row| {
            let timestamp = row.entry.timestamp;
            if instant.first().is_some_and(|first| first.entry.timestamp != timestamp) {
                visited.duplicates += drain_distinct(&mut instant, &mut visit);
                if !go_on() {
                    visited.resume_at = Some(timestamp);
                    return ControlFlow::Break(());
                }
            }
            instant.push(row);
            ControlFlow::Continue(())
        });
        visited.duplicates += drain_distinct(&mut instant, &mut visit);
        visited
    }
}

/// The result of a visit that may stop early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Visited {
    /// Number of duplicates that were left out.
    pub(crate) duplicates: u64,
    /// The first instant that was not visited, if the visit stopped early.
    pub(crate) resume_at: Option<i64>,
}

/// Number of rows of one instant above which duplicates are found by hash instead of by comparing all pairs.
const PAIRS_MAX: usize = 8;

fn drain_distinct<'a>(instant: &mut Vec<Row<'a>>, visit: &mut impl FnMut(Row<'a>)) -> u64 {
    if let [only] = instant[..] {
        visit(only);
        instant.clear();
        return 0;
    }
    let all = instant.len();
    let mut kept = 0;
    if all > PAIRS_MAX {
        kept = visit_distinct_by_hash(instant, visit);
    } else {
        for (n, row) in instant.iter().enumerate() {
            if !instant[..n].iter().any(|earlier| earlier.same_content(row)) {
                visit(*row);
                kept += 1;
            }
        }
    }
    instant.clear();
    (all - kept) as u64
}

fn visit_distinct_by_hash<'a>(instant: &[Row<'a>], visit: &mut impl FnMut(Row<'a>)) -> usize {
    // The result does not depend on the seed, and a random one cannot be attacked with collisions.
    let hasher = foldhash::fast::RandomState::default();
    let hash = |row: &Row<'_>| {
        let pairs = row.metadata().map(|pair| hasher.hash_one(pair));
        hasher.hash_one(row.line()) ^ pairs.fold(0, u64::wrapping_add)
    };
    let mut rows: Vec<(u64, usize)> = instant.iter().enumerate().map(|(n, row)| (hash(row), n)).collect();
    rows.sort_unstable();
    let mut keep = vec![true; instant.len()];
    for group in rows.chunk_by(|a, b| a.0 == b.0) {
        let mut distinct: Vec<usize> = Vec::new();
        for &(_, n) in group {
            keep[n] = !distinct.iter().any(|&earlier| instant[earlier].same_content(&instant[n]));
            if keep[n] {
                distinct.push(n);
            }
        }
    }
    let kept = instant.iter().zip(&keep).filter(|(_, keep)| **keep);
    kept.map(|(row, _)| visit(*row)).count()
}
