//! The table of segments: the content of each slot, and which slots are free.
//!
//! Invariants: a slot is in exactly one state. Its id is 0 unless it holds records that may be read.
//! Live bytes are those of records in the index.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::format::{Class, TenantUnits};

/// Free segments that only reinsertion and images may open, so that reclaiming never waits for room.
const RESERVED: usize = 2;

/// The records that a slot may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// New records; all records if there is no protected pool.
    General,
    /// Protected records, which include those that were written again.
    Protected,
}

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentState {
    /// Unknown, because recovery has not examined it yet.
    Unknown,
    /// Not in use.
    Free,
    /// Records are being appended.
    Open,
    /// Full, but not completely on the device yet.
    Sealing,
    /// Completely on the device.
    Sealed,
    /// Part of an image of the index.
    Image,
    /// Not in use since a write to it failed.
    Retired,
}

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its slot.
    pub slot: u32,
    /// The use of the slot.
    pub state: SegmentState,
    /// Class of its records.
    pub class: Class,
    /// Whether it was made protected without enough reads, and has not been judged since.
    pub unproven: bool,
    /// Its id, 0 when it holds nothing.
    pub id: u64,
    /// Position in the queue of its class: its id, or a later number since it was spared.
    pub placed: u64,
    /// When it took that position, by the clock of [`TailAge`](crate::policy::reclaim::TailAge).
    pub placed_at: u64,
    /// When it was opened, in seconds since 1970.
    pub opened_at: u32,
    /// When its last record expires, in seconds since 1970; 0 for never.
    pub latest_expiry: u32,
    /// Bytes of its records.
    pub record_bytes: u64,
    /// Bytes of its records that are still in the index.
    pub live_bytes: u64,
    /// Bytes of those of them that were read since they were last judged.
    pub used_bytes: u64,
    /// Number of records that failed a checksum or could not be read.
    pub errors: u32,
}

/// The table of segments. See the module.
pub(super) struct SegmentTable {
    slots: Box<[Slot]>,
    /// The first slot of [`Pool::Protected`].
    kept_from: u32,
    lists: Mutex<Lists>,
}

/// The fields of a slot that are read and changed without a common lock.
#[derive(Default)]
struct Slot {
    id: AtomicU64,
    /// Bytes from the slot's start that are on the device.
    written_to: AtomicU64,
    live_bytes: AtomicU64,
    used_bytes: AtomicU64,
    tenants: Mutex<TenantUnits>,
}

struct Lists {
    segments: Vec<Segment>,
    /// Free slots by pool.
    free: [VecDeque<u32>; 2],
}

impl SegmentTable {
    /// A table in which no slot may be used before it is adopted or released.
    pub fn unknown(count: u32, kept_from: u32) -> Self {
        let unknown = |slot| Segment { state: SegmentState::Unknown, ..Segment::free(slot) };
        let segments = (0..count).map(unknown).collect();
        let slots = (0..count).map(|_| Slot::default()).collect();
        Self { slots, kept_from, lists: Mutex::new(Lists { segments, free: Default::default() }) }
    }

    /// Every slot is free.
    pub fn free_all(&self) {
        (0..self.slots.len() as u32).for_each(|slot| drop(self.release(slot, SegmentState::Free)));
    }

    /// The id of the segment in a slot, 0 if nothing can be read there.
    pub fn id(&self, slot: u32) -> u64 {
        self.slots.get(slot as usize).map_or(0, |slot| slot.id.load(Ordering::Acquire))
    }

    pub fn written_to(&self, slot: u32) -> u64 {
        self.slots[slot as usize].written_to.load(Ordering::Acquire)
    }

    pub fn set_written_to(&self, slot: u32, bytes: u64) {
        self.slots[slot as usize].written_to.store(bytes, Ordering::Release);
    }

    pub fn add_live(&self, slot: u32, bytes: u64) {
        self.slots[slot as usize].live_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove_live(&self, slot: u32, bytes: u64) {
        subtract(&self.slots[slot as usize].live_bytes, bytes);
    }

    pub fn add_used(&self, slot: u32, bytes: u64) {
        self.slots[slot as usize].used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove_used(&self, slot: u32, bytes: u64) {
        subtract(&self.slots[slot as usize].used_bytes, bytes);
    }

    /// Notes that the index is empty.
    pub fn clear_live(&self) {
        for slot in &self.slots {
            slot.live_bytes.store(0, Ordering::Relaxed);
            slot.used_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Takes a free slot for a segment of `class`.
    pub fn open(&self, class: Class, id: u64, now: u32) -> Option<u32> {
        let mut lists = self.lock();
        let reserved = if matches!(class, Class::Protected | Class::Image) { 0 } else { RESERVED };
        let is_kept = match class {
            // From the pool with more free slots, so that the other one keeps its reserve.
            Class::Image => {
                lists.free[Pool::Protected as usize].len() > lists.free[Pool::General as usize].len()
            }
            _ => class == Class::Protected && self.has(Pool::Protected),
        };
        let free = &mut lists.free[usize::from(is_kept)];
        if free.len() <= reserved {
            return None;
        }
        let slot = free.pop_front()?;
        let state = if class == Class::Image { SegmentState::Image } else { SegmentState::Open };
        let segment = Segment { state, class, id, placed: id, opened_at: now, ..Segment::free(slot) };
        lists.segments[slot as usize] = segment;
        self.publish(slot, if class == Class::Image { 0 } else { id });
        Some(slot)
    }

    /// Enters a segment that was found on the device into its slot, which was unknown.
    pub fn adopt(&self, segment: Segment, written_to: u64) {
        let mut lists = self.lock();
        lists.segments[segment.slot as usize] = segment;
        let readable = segment.state == SegmentState::Sealed;
        self.publish(segment.slot, if readable { segment.id } else { 0 });
        self.set_written_to(segment.slot, written_to);
    }

    fn publish(&self, slot: u32, id: u64) {
        let place = &self.slots[slot as usize];
        place.written_to.store(0, Ordering::Release);
        place.live_bytes.store(0, Ordering::Release);
        place.used_bytes.store(0, Ordering::Release);
        place.id.store(id, Ordering::Release);
    }

    /// Changes the state of a segment, unless the slot holds another one now.
    pub fn update(&self, slot: u32, id: u64, change: impl FnOnce(&mut Segment)) -> bool {
        let mut lists = self.lock();
        let segment = &mut lists.segments[slot as usize];
        let is_it = segment.id == id;
        if is_it {
            change(segment);
        }
        is_it
    }

    /// Counts a record in the segment. Returns the tenant under which it is counted.
    pub fn occupy(&self, slot: u32, tenant: u32, units: u32) -> u32 {
        self.tenants(slot).add(tenant, units)
    }

    /// Sets the tenants of a recovered segment.
    pub fn occupy_again(&self, slot: u32, tenants: TenantUnits) {
        *self.tenants(slot) = tenants;
    }

    fn tenants(&self, slot: u32) -> MutexGuard<'_, TenantUnits> {
        self.slots[slot as usize].tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees a slot, or takes it out of use. Nothing there can be read any more. Returns the units of
    /// its tenants.
    pub fn release(&self, slot: u32, state: SegmentState) -> TenantUnits {
        let mut lists = self.lock();
        let segment = &mut lists.segments[slot as usize];
        let was_free = segment.state == SegmentState::Free;
        *segment = Segment { state, ..Segment::free(slot) };
        self.publish(slot, 0);
        let tenants = std::mem::take(&mut *self.tenants(slot));
        if state == SegmentState::Free && !was_free {
            lists.free[self.pool_of(slot) as usize].push_back(slot);
        }
        tenants
    }

    pub fn segment(&self, slot: u32) -> Segment {
        let segment = self.lock().segments[slot as usize];
        self.with_live(segment)
    }

    /// All segments, by slot.
    pub fn all(&self) -> Vec<Segment> {
        let segments = self.lock().segments.clone();
        segments.into_iter().map(|segment| self.with_live(segment)).collect()
    }

    /// Number of free slots of a pool.
    pub fn free(&self, pool: Pool) -> usize {
        self.lock().free[pool as usize].len()
    }

    /// Number of slots of a pool.
    pub fn count(&self, pool: Pool) -> usize {
        match pool {
            Pool::General => self.kept_from as usize,
            Pool::Protected => self.slots.len() - self.kept_from as usize,
        }
    }

    /// Whether the pool exists.
    pub fn has(&self, pool: Pool) -> bool {
        self.count(pool) > 0
    }

    pub fn pool_of(&self, slot: u32) -> Pool {
        if slot < self.kept_from { Pool::General } else { Pool::Protected }
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    fn with_live(&self, segment: Segment) -> Segment {
        let slot = &self.slots[segment.slot as usize];
        let live_bytes = slot.live_bytes.load(Ordering::Relaxed);
        Segment { live_bytes, used_bytes: slot.used_bytes.load(Ordering::Relaxed), ..segment }
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn subtract(from: &AtomicU64, bytes: u64) {
    let _ = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(bytes)));
}

impl Segment {
    fn free(slot: u32) -> Self {
        Self {
            slot,
            state: SegmentState::Free,
            class: Class::Ingest,
            unproven: false,
            id: 0,
            placed: 0,
            placed_at: 0,
            opened_at: 0,
            latest_expiry: 0,
            record_bytes: 0,
            live_bytes: 0,
            used_bytes: 0,
            errors: 0,
        }
    }
}
