//! The segments of the device: which are free, in use or out of use, with the observer of dropped records.
//!
//! Invariants: the bytes of a tenant reported when records are written or recovered are equal to those
//! reported when their segment is freed. A retired slot is tried again only when the index has no entry
//! for it any more.

use std::sync::Arc;

use super::disk::Disk;
use super::format::{Class, TenantUnits, UNIT};
use super::index::Entry;
use super::observer::{DropEvent, Dropped, Observer};
use super::retired::Retired;
use super::segments::{Pool, SegmentState, SegmentTable};
use crate::device::BLOCK;

/// Most slots tried in one round of the keeper.
const TRIES: usize = 64;

/// The segments. See the module.
pub(super) struct Space {
    pub disk: Arc<Disk>,
    pub table: SegmentTable,
    pub retired: Retired,
    observer: Arc<dyn Observer>,
}

impl Space {
    /// Segments whose content is unknown.
    pub fn new(disk: Arc<Disk>, observer: Arc<dyn Observer>) -> Self {
        let layout = &disk.layout;
        let kept_from = layout.slots_before(disk.device.size().saturating_sub(disk.options.kept_bytes));
        let table = SegmentTable::unknown(layout.segments, kept_from);
        Self { table, retired: Retired::default(), observer, disk }
    }

    /// Counts a record that was written to a segment.
    pub fn occupy(&self, slot: u32, tenant: u32, units: u32) {
        let counted = self.table.occupy(slot, tenant, units);
        self.observer.occupied(counted, u64::from(units) * UNIT);
    }

    /// Counts the records of a recovered segment.
    pub fn occupy_again(&self, slot: u32, tenants: TenantUnits) {
        for (tenant, units) in tenants.iter() {
            self.observer.occupied(tenant, u64::from(units) * UNIT);
        }
        self.table.occupy_again(slot, tenants);
    }

    /// Frees a slot, or takes it out of use. Nothing there can be read any more.
    pub fn release(&self, slot: u32, state: SegmentState) {
        for (tenant, units) in self.table.release(slot, state).iter() {
            self.observer.vacated(tenant, u64::from(units) * UNIT);
        }
    }

    pub fn report(&self, event: DropEvent) {
        self.disk.counters.drop_of(event.reason, event.records);
        if event.reason == Dropped::Evicted {
            self.disk.counters.bytes_evicted.add(event.bytes);
        }
        self.observer.dropped(event);
    }

    /// Reports a dropped record that was in the index.
    pub fn report_entry(&self, reason: Dropped, hash: u64, entry: &Entry) {
        let segment = self.table.segment(entry.location.slot);
        self.report(DropEvent {
            reason,
            class: segment.class,
            hash,
            records: 1,
            bytes: u64::from(entry.location.units) * UNIT,
            age_s: self.disk.now().saturating_sub(segment.opened_at),
            tenant: 0,
            is_fetched: entry.is_fetched,
        });
    }

    /// Number of segments of a pool that are kept free: one for each class and two in reserve, or a
    /// hundredth.
    pub fn free_wanted(&self, pool: Pool) -> usize {
        let classes = if pool == Pool::Protected { 1 } else { Class::OF_RECORDS.len() };
        let count = self.table.count(pool);
        (count / 100).max(classes + 2).min(count / 3)
    }

    /// Retires a slot without records after a failed write to it.
    pub fn retire_empty(&self, slot: u32) {
        self.release(slot, SegmentState::Retired);
        self.disk.counters.segments_retired.add(1);
        self.retired.add(slot, self.disk.env.monotonic());
    }

    /// Frees retired slots whose pause is over and whose superblock can be overwritten.
    pub fn give_back_retired(&self) {
        for _ in 0..TRIES {
            if !self.disk.watch.may_write() {
                return;
            }
            let Some(slot) = self.retired.take_due(self.disk.env.monotonic()) else { return };
            match self.disk.write(self.disk.layout.slot_start(slot), &[0; BLOCK as usize]) {
                Ok(()) => self.release(slot, SegmentState::Free),
                Err(error) => {
                    self.retired.add(slot, self.disk.env.monotonic());
                    self.disk.write_failed("superblock", &error);
                }
            }
        }
    }
}
