//! Replays the events since the image: records of segments and entries of the journal, merged in the
//! order of their sequence numbers.
//!
//! Footers are read one after the other as the merge reaches them. So memory is bounded by the few segments
//! that were open at the same time, by one batch of events, and by the entries of the journal, which are 24
//! bytes each here and 16 on the device. Several threads apply a batch, each with its own shards of the
//! index, one shard after the other, so that the part of the index in use stays in the processor's caches.
//!
//! Invariant: the events of a key are applied in their order. An event that this run has overtaken is
//! applied and then undone, so that a removal either finds the entry or is found.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

use super::disk::Disk;
use super::expiry::{Coarse, is_expired};
use super::format::{JournalEntry, JournalKind, Kind, Root, Row};
use super::index::{Entry, Location, SHARDS};
use super::keyspace::Keyspace;
use super::options::Journaling;
use super::space::Space;

/// Events applied together: 24 MiB.
const BATCH: usize = 512 << 10;

/// Number of events by which the prefetch of a key is ahead.
const AHEAD: usize = 8;

/// Most threads that apply events.
const THREADS_MAX: usize = 8;

/// A segment whose events are replayed.
pub(super) struct Source {
    pub slot: u32,
    pub id: u64,
    pub last_sequence: u64,
    pub rows: Rows,
}

pub(super) enum Rows {
    /// The rows are in the footer.
    OnDevice,
    /// Rows found by a scan of the segment, which has no footer.
    Scanned(Vec<Row>),
}

/// The remaining events of a source, in order.
struct Stream {
    place: Option<(u32, u64)>,
    rows: VecDeque<Row>,
    entries: VecDeque<JournalEntry>,
}

impl Stream {
    fn next_sequence(&self) -> Option<u64> {
        match self.place {
            Some((_, id)) => self.rows.front().map(|row| id + u64::from(row.sequence)),
            None => self.entries.front().map(|entry| entry.sequence),
        }
    }

    fn next(&mut self) -> Option<Event> {
        match self.place {
            Some((slot, id)) => self.rows.pop_front().map(|row| Event::Row { slot, id, row }),
            None => self.entries.pop_front().map(Event::Journal),
        }
    }
}

#[derive(Clone, Copy)]
enum Event {
    Row { slot: u32, id: u64, row: Row },
    Journal(JournalEntry),
}

impl Event {
    fn hash(&self) -> u64 {
        let (Event::Row { row: Row { hash, .. }, .. } | Event::Journal(JournalEntry { hash, .. })) = self;
        *hash
    }

    fn shard(&self) -> usize {
        self.hash() as usize % SHARDS
    }
}

/// The parts to which events are applied.
pub(super) struct Replay<'a> {
    pub disk: &'a Disk,
    pub space: &'a Space,
    pub keys: &'a Keyspace,
    /// Number of segments whose footers cannot be read.
    pub unread: &'a AtomicU32,
}

impl Replay<'_> {
    /// Merges all events in order and applies them. Returns the segments that have no footer yet.
    pub fn replay(
        &self,
        sources: Vec<Source>,
        journal: Vec<JournalEntry>,
        root: &Root,
    ) -> Vec<(u32, u64, Vec<Row>)> {
        // If values never change and there is no image, every footer counts.
        let from = if self.disk.options.journaling == Journaling::Off && self.keys.index.len() == 0 {
            0
        } else {
            root.image
        };
        let mut scanned = Vec::new();
        let mut waiting: VecDeque<Source> = sources.into();
        let mut streams = vec![Stream { place: None, rows: VecDeque::new(), entries: journal.into() }];
        let mut heap = BinaryHeap::new();
        heap.extend(streams[0].next_sequence().map(|next| Reverse((next, 0))));
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let next = heap.peek().map_or(u64::MAX, |Reverse((next, _))| *next);
            if let Some(source) = waiting.pop_front_if(|source| source.id <= next) {
                let (slot, id) = (source.slot, source.id);
                let rows = self.rows_from(source, from, &mut scanned);
                let stream = Stream { place: Some((slot, id)), rows: rows.into(), entries: VecDeque::new() };
                heap.extend(stream.next_sequence().map(|next| Reverse((next, streams.len()))));
                streams.push(stream);
                continue;
            }
            let Some(Reverse((first, number))) = heap.pop() else { break };
            // Take all events that precede those of any other source.
            let others = heap.peek().map_or(u64::MAX, |Reverse((next, _))| *next);
            let upto = waiting.front().map_or(u64::MAX, |source| source.id).min(others);
            let stream = &mut streams[number];
            let mut sequence = Some(first);
            while let Some(at) = sequence.filter(|&at| at <= upto.max(first)) {
                let Some(event) = stream.next().filter(|_| at >= from) else {
                    sequence = stream.next_sequence();
                    continue;
                };
                let is_flush = matches!(event, Event::Journal(entry) if entry.kind == JournalKind::Flushed);
                if is_flush {
                    // It affects all shards, so nothing else may be applied at the same time.
                    self.apply(&mut batch);
                }
                batch.push(event);
                if batch.len() == BATCH || is_flush {
                    self.apply(&mut batch);
                }
                sequence = stream.next_sequence();
            }
            match sequence {
                Some(next) => heap.push(Reverse((next, number))),
                // Release their memory.
                None => (stream.rows, stream.entries) = Default::default(),
            }
            if self.keys.earlier.lock_removed().is_given_up {
                return scanned;
            }
        }
        self.apply(&mut batch);
        scanned
    }

    fn rows_from(&self, source: Source, from: u64, scanned: &mut Vec<(u32, u64, Vec<Row>)>) -> Vec<Row> {
        let (slot, id) = (source.slot, source.id);
        match source.rows {
            Rows::Scanned(rows) => {
                scanned.push((slot, id, rows.clone()));
                rows
            }
            Rows::OnDevice if source.last_sequence >= from => match self.disk.read_rows(slot, id) {
                Some((_, rows)) => rows,
                None => {
                    // A footer that cannot be read now may be found after another crash, when it is outdated.
                    self.keys.mark_incomplete();
                    self.unread.fetch_add(1, Ordering::Relaxed);
                    Vec::new()
                }
            },
            Rows::OnDevice => Vec::new(),
        }
    }

    /// Applies the events of a batch and empties it.
    fn apply(&self, batch: &mut Vec<Event>) {
        // Positions in the batch, sorted by shard and in order within a shard.
        let mut ends = [0_usize; SHARDS + 1];
        batch.iter().for_each(|event| ends[event.shard() + 1] += 1);
        (0..SHARDS).for_each(|shard| ends[shard + 1] += ends[shard]);
        let mut next = ends;
        let mut places = vec![0_u32; batch.len()];
        for (place, event) in (0_u32..).zip(batch.iter()) {
            let slot = &mut next[event.shard()];
            places[*slot] = place;
            *slot += 1;
        }
        let now = self.disk.now();
        let work = |from: usize, upto: usize| {
            let places = &places[ends[from]..ends[upto]];
            for (number, &place) in places.iter().enumerate() {
                if let Some(&ahead) = places.get(number + AHEAD) {
                    self.keys.index.prefetch(batch[ahead as usize].hash());
                }
                match &batch[place as usize] {
                    Event::Row { slot, id, row } => self.replay_row(*slot, *id, row, now),
                    Event::Journal(entry) => self.replay_entry(entry),
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        if batch.len() < BATCH / 16 || threads == 1 {
            work(0, SHARDS);
        } else {
            std::thread::scope(|scope| {
                for number in 0..threads {
                    let bounds = [number, number + 1].map(|n| n * SHARDS / threads);
                    let work = &work;
                    scope.spawn(move || work(bounds[0], bounds[1]));
                }
            });
        }
        batch.clear();
    }

    fn replay_row(&self, slot: u32, id: u64, row: &Row, now: u32) {
        if is_expired(row.expires_at, now) || self.space.table.id(slot) != id {
            return;
        }
        let location = Location {
            slot,
            offset: row.offset,
            units: Location::rounded(row.units),
            expiry: Coarse::new(row.expires_at, now),
            is_large: row.kind == Kind::Head,
        };
        let is_older = |old: Option<&Entry>| old.is_none_or(|old| self.keys.is_of_earlier_run(old));
        let Some(inserted) = self.keys.index.insert_if(row.hash, Entry::new(location), is_older) else {
            return;
        };
        self.keys.link_entry(&Entry::new(location));
        inserted.replaced.iter().chain(&inserted.dropped).for_each(|entry| self.keys.unlink(entry));
        if inserted.dropped.is_some() {
            self.keys.note_unindexed();
        }
        self.forget_touch_before(row.hash, slot, row.offset);
        // Checked after the insertion, so that a removal is either seen here or finds the entry.
        let is_void = id + u64::from(row.sequence) < self.keys.flushed_below();
        if (is_void || self.keys.earlier.was_removed(row.hash))
            && let Some(entry) = self.keys.index.remove_at(row.hash, slot, row.offset)
        {
            self.keys.unlink(&entry);
        }
    }

    /// Drops the changed expiry of an older record that a recovered one replaces.
    fn forget_touch_before(&self, hash: u64, slot: u32, offset: u32) {
        if self.keys.touched.len() == 0 {
            return;
        }
        let _key = self.keys.lock_key(hash);
        // Records that this run has written and touched meanwhile keep their expiry.
        if self.keys.index.find(hash, false).is_some_and(|entry| entry.is_at(slot, offset)) {
            self.keys.touched.forget(hash);
        }
    }

    fn replay_entry(&self, entry: &JournalEntry) {
        match entry.kind {
            JournalKind::Forgotten => {
                let _key = self.keys.lock_key(entry.hash);
                self.keys.remove_of_earlier_run(entry.hash);
            }
            JournalKind::Touched { expires_at } => {
                // Records that this run writes meanwhile keep their own expiry.
                let _key = self.keys.lock_key(entry.hash);
                if self.keys.find_of_earlier_run(entry.hash).is_some()
                    && self.keys.touched.set(entry.hash, expires_at)
                {
                    self.keys.index.set_expiry(entry.hash, Coarse::new(expires_at, self.disk.now()));
                }
            }
            JournalKind::Flushed => self.keys.clear_earlier_run(),
        }
    }
}
