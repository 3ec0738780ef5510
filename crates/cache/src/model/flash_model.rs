//! A model of the flash tier for the policy: segments of records, appended by class and reclaimed as a
//! whole. It stores only sizes.
//!
//! **Invariants.** After every call the bytes of all segments, including dead records, are at most the
//! capacity. A record belongs to one segment until that is reclaimed; at most one record of a hash is live.

use std::collections::VecDeque;

use crate::policy::reclaim::{self, Arrivals, Oldest, Step, TailAge};
use crate::policy::table::Table;
use crate::policy::{Class, Eviction, RecordFacts, Reinsertion, Source};

const CLASSES: usize = Class::ALL.len();

/// A value on flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) hash: u64,
    pub(crate) bytes: u32,
    segment: u32,
    pub(crate) written_s: u32,
    pub(crate) tenant: u32,
    pub(crate) source: Source,
    uses: u8,
    pub(crate) fetched: bool,
    live: bool,
}

#[derive(Debug)]
struct Segment {
    class: Class,
    /// When it was sealed or spared.
    placed: u64,
    /// The time of that, by the clock of [`TailAge`].
    placed_at: u64,
    bytes: u64,
    /// Bytes of live records with uses.
    used_bytes: u64,
    /// Whether it was made protected without enough reads, and has not been judged since.
    unproven: bool,
    records: Vec<u32>,
}

/// Sizes and options of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashShape {
    pub(crate) capacity: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) reinsertion: Reinsertion,
}

/// The model.
#[derive(Debug)]
pub(crate) struct FlashModel {
    shape: FlashShape,
    table: Table,
    records: Vec<Record>,
    free: Vec<u32>,
    segments: Vec<Segment>,
    free_segments: Vec<u32>,
    open: [Option<u32>; CLASSES],
    sealed: [VecDeque<u32>; CLASSES],
    bytes: u64,
    class_bytes: [u64; CLASSES],
    written: u64,
    placed: u64,
    facts: Vec<RecordFacts>,
    arrivals: Arrivals,
    tail_age: TailAge,
}

impl FlashModel {
    /// An empty model with memory for `records` records.
    pub(crate) fn with_room(shape: FlashShape, records: usize) -> Self {
        Self {
            shape,
            table: Table::with_room(records),
            records: Vec::with_capacity(records),
            free: Vec::new(),
            segments: Vec::new(),
            free_segments: Vec::new(),
            open: [None; CLASSES],
            sealed: Default::default(),
            bytes: 0,
            class_bytes: [0; CLASSES],
            written: 0,
            placed: 0,
            facts: Vec::new(),
            arrivals: Arrivals::default(),
            tail_age: TailAge::default(),
        }
    }

    /// Whether the key is there.
    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.find(hash).is_some()
    }

    /// Number of records, including dead ones that still take space.
    pub(crate) fn records(&self) -> usize {
        self.records.len() - self.free.len()
    }

    /// All live keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u64> {
        self.records.iter().filter(|record| record.live).map(|record| record.hash)
    }

    /// Bytes of the model itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        let places: usize = self.segments.iter().map(|segment| segment.records.capacity()).sum();
        let places = places + self.free.capacity() + self.free_segments.capacity();
        self.table.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.facts.capacity() * size_of::<RecordFacts>()
            + places * size_of::<u32>()
    }

    /// Halves capacity and segments. The next `append` evicts the excess.
    pub(crate) fn halve(&mut self) {
        self.shape.capacity /= 2;
        self.shape.segment_bytes = (self.shape.segment_bytes / 2).max(1);
        self.tail_age.halve();
        self.segments.iter_mut().for_each(|segment| segment.placed_at /= 2);
    }

    /// Reads a record, which counts as a use. `None` is a miss, which is counted.
    pub(crate) fn read(&mut self, hash: u64) -> Option<Record> {
        let Some(at) = self.find(hash) else {
            self.arrivals.missed();
            return None;
        };
        self.use_record(at, 1);
        self.records[at as usize].fetched = true;
        Some(self.records[at as usize])
    }

    /// Counts uses of the copy in RAM; `false` if the record is gone.
    pub(crate) fn note_uses(&mut self, hash: u64, uses: u8) -> bool {
        match self.find(hash) {
            Some(at) => {
                self.use_record(at, uses);
                self.records[at as usize].fetched |= uses > 0;
                true
            }
            None => false,
        }
    }

    /// Removes a key.
    pub(crate) fn forget(&mut self, hash: u64) {
        if let Some(at) = self.find(hash) {
            self.kill(at);
        }
    }

    /// Appends a record. Calls `evicted` for each record that is evicted for it.
    pub(crate) fn append(
        &mut self,
        class: Class,
        record: NewRecord,
        evicted: &mut impl FnMut(u64, Eviction),
    ) {
        self.forget(record.hash);
        let bytes = u64::from(record.bytes);
        while self.bytes + bytes > self.shape.capacity {
            if !self.reclaim(record.written_s, evicted) {
                return;
            }
            self.tail_age.look_at(self.oldest());
        }
        self.shape.reinsertion.admitted(bytes, self.shape.segment_bytes);
        self.arrivals.admitted(class, bytes, self.shape.capacity);
        self.put(class, record);
    }

    /// How long the oldest protected segment has gone unread, at time `time` of [`Admission::time`].
    ///
    /// [`Admission::time`]: crate::policy::Admission::time
    pub(crate) fn tail_age_at(&self, time: u64) -> u64 {
        self.tail_age.set_time(time);
        self.tail_age.bytes()
    }

    /// Bytes written so far, including rewritten records.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |at| self.records[at as usize].hash == hash)
    }

    fn use_record(&mut self, at: u32, uses: u8) {
        let record = &mut self.records[at as usize];
        if record.uses == 0 && uses > 0 {
            self.segments[record.segment as usize].used_bytes += u64::from(record.bytes);
        }
        record.uses = (record.uses + uses).min(3);
    }

    fn kill(&mut self, at: u32) {
        let record = &mut self.records[at as usize];
        if record.uses > 0 {
            self.segments[record.segment as usize].used_bytes -= u64::from(record.bytes);
        }
        record.live = false;
        self.table.remove(record.hash, at);
    }

    fn put(&mut self, class: Class, new: NewRecord) {
        let segment = self.open_segment(class, u64::from(new.bytes));
        let record = Record { segment, uses: 0, live: true, ..new.record() };
        let at = match self.free.pop() {
            Some(at) => {
                self.records[at as usize] = record;
                at
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as u32
            }
        };
        self.table.insert(new.hash, at);
        let bytes = u64::from(new.bytes);
        let segment = &mut self.segments[segment as usize];
        segment.records.push(at);
        segment.bytes += bytes;
        self.bytes += bytes;
        self.class_bytes[class as usize] += bytes;
        self.written += bytes;
        self.use_record(at, new.uses);
    }

    fn open_segment(&mut self, class: Class, bytes: u64) -> u32 {
        if let Some(open) = self.open[class as usize] {
            let held = self.segments[open as usize].bytes;
            if held == 0 || held + bytes <= self.shape.segment_bytes {
                return open;
            }
            self.place(class, open);
        }
        let segment = Segment {
            class,
            placed: 0,
            placed_at: 0,
            bytes: 0,
            used_bytes: 0,
            unproven: false,
            records: Vec::new(),
        };
        let at = match self.free_segments.pop() {
            Some(at) => {
                self.segments[at as usize] = segment;
                at
            }
            None => {
                self.segments.push(segment);
                (self.segments.len() - 1) as u32
            }
        };
        self.open[class as usize] = Some(at);
        at
    }

    /// Adds a segment at the young end of its class.
    fn place(&mut self, class: Class, segment: u32) {
        self.placed += 1;
        let placed = &mut self.segments[segment as usize];
        (placed.placed, placed.placed_at) = (self.placed, self.tail_age.time());
        self.sealed[class as usize].push_back(segment);
    }

    /// Frees a segment; `false` if there is none.
    fn reclaim(&mut self, now_s: u32, evicted: &mut impl FnMut(u64, Eviction)) -> bool {
        let spare_share = self.shape.reinsertion.spare_share(self.shape.segment_bytes);
        let mut spared = 0;
        loop {
            let conditions = self.arrivals.conditions(spared, spare_share);
            match reclaim::next_step(&self.oldest(), self.shape.capacity, conditions) {
                Some(Step::Join) => {
                    let Some(segment) = self.sealed[Class::Probation as usize].pop_front() else {
                        return false;
                    };
                    self.join(segment);
                }
                Some(Step::Spare(class)) => {
                    let Some(segment) = self.sealed[class as usize].pop_front() else { return false };
                    self.judged(segment);
                    self.spare(segment);
                    self.place(class, segment);
                    spared += 1;
                }
                Some(Step::Free(class)) => {
                    let Some(segment) = self.sealed[class as usize].pop_front() else { return false };
                    self.judged(segment);
                    self.free_segment(segment, now_s, evicted);
                    return true;
                }
                // All segments are open: free the largest one.
                None => {
                    let Some(class) = (0..CLASSES).max_by_key(|class| self.class_bytes[*class]) else {
                        break;
                    };
                    let Some(segment) = self.open[class].take() else { break };
                    self.free_segment(segment, now_s, evicted);
                    return true;
                }
            }
        }
        false
    }

    fn join(&mut self, at: u32) {
        let segment = &mut self.segments[at as usize];
        (segment.class, segment.unproven) = (Class::Protected, true);
        self.class_bytes[Class::Probation as usize] -= segment.bytes;
        self.class_bytes[Class::Protected as usize] += segment.bytes;
        self.place(Class::Protected, at);
    }

    fn judged(&mut self, at: u32) {
        let segment = &mut self.segments[at as usize];
        if std::mem::take(&mut segment.unproven) {
            self.arrivals.judged(segment.bytes);
        }
    }

    fn oldest(&self) -> Vec<Oldest> {
        let lines = Class::ALL.into_iter().filter_map(|class| {
            let segment = &self.segments[*self.sealed[class as usize].front()? as usize];
            let Segment { placed, placed_at, bytes, used_bytes, unproven, .. } = *segment;
            let class_bytes = self.class_bytes[class as usize];
            Some(Oldest { class, placed, placed_at, bytes, used_bytes, spent: false, unproven, class_bytes })
        });
        lines.collect()
    }

    /// Takes a use from each record of a spared segment.
    fn spare(&mut self, segment: u32) {
        let mut used_bytes = 0;
        for at in &self.segments[segment as usize].records {
            let record = &mut self.records[*at as usize];
            record.uses = record.uses.saturating_sub(1);
            if record.live && record.uses > 0 {
                used_bytes += u64::from(record.bytes);
            }
        }
        self.segments[segment as usize].used_bytes = used_bytes;
    }

    fn free_segment(&mut self, segment: u32, now_s: u32, evicted: &mut impl FnMut(u64, Eviction)) {
        let Segment { class, bytes, .. } = self.segments[segment as usize];
        let places = std::mem::take(&mut self.segments[segment as usize].records);
        self.facts.clear();
        self.facts.extend(places.iter().map(|at| self.records[*at as usize].facts()));
        let mut again = Vec::new();
        self.shape.reinsertion.choose(class, bytes, &self.facts, |at, uses| again.push((places[at], uses)));
        let mut next = again.iter().copied().peekable();
        let mut survivors = Vec::with_capacity(again.len());
        for at in &places {
            let record = self.records[*at as usize];
            if record.live {
                self.kill(*at);
                match next.next_if(|(chosen, _)| chosen == at) {
                    Some((_, uses)) => survivors.push(NewRecord { uses, ..record.again() }),
                    None => evicted(record.hash, record.eviction(class, now_s)),
                }
            }
            self.free.push(*at);
        }
        self.bytes -= bytes;
        self.class_bytes[class as usize] -= bytes;
        self.free_segments.push(segment);
        for survivor in survivors {
            self.put(Class::Protected, survivor);
        }
    }
}

impl Record {
    fn facts(&self) -> RecordFacts {
        let metadata = self.source == Source::Metadata;
        RecordFacts { bytes: self.bytes, uses: self.uses, metadata, live: self.live }
    }

    fn again(&self) -> NewRecord {
        let Self { hash, bytes, written_s, tenant, source, fetched, uses, .. } = *self;
        NewRecord { hash, bytes, written_s, tenant, source, fetched, uses }
    }

    fn eviction(&self, class: Class, now_s: u32) -> Eviction {
        let age_s = u64::from(now_s.saturating_sub(self.written_s));
        let Self { source, tenant, fetched, .. } = *self;
        Eviction { class, source, tenant, age_s, bytes: u64::from(self.bytes), fetched }
    }
}

impl NewRecord {
    fn record(&self) -> Record {
        let Self { hash, bytes, written_s, tenant, source, fetched, uses } = *self;
        Record { hash, bytes, segment: 0, written_s, tenant, source, uses, fetched, live: true }
    }
}

/// A value to append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord {
    pub(crate) hash: u64,
    pub(crate) bytes: u32,
    pub(crate) written_s: u32,
    pub(crate) tenant: u32,
    pub(crate) source: Source,
    pub(crate) fetched: bool,
    pub(crate) uses: u8,
}
