//! The segments of the device: which are free, in use or out of use, and who hears of what leaves them.
//!
//! Invariants: what is told of a tenant when records are written or found again is exactly what is told when
//! their segment is given up. A slot is in line for another try only when nothing in the index points to it
//! any more.

use std::sync::Arc;

use super::disk::Disk;
use super::format::{Class, TenantUnits, UNIT};
use super::index::Entry;
use super::observer::{DropEvent, Dropped, Observer};
use super::retired::Retired;
use super::segments::{Pool, SegmentState, SegmentTable};
use crate::device::BLOCK;

/// Slots tried in one round of the keeper, at most.
const TRIES: usize = 64;

/// See the module.
pub(super) struct Space {
    pub disk: Arc<Disk>,
    pub table: SegmentTable,
    pub retired: Retired,
    observer: Arc<dyn Observer>,
}

impl Space {
    /// Segments of which nothing is known yet.
    pub fn new(disk: Arc<Disk>, observer: Arc<dyn Observer>) -> Self {
        let layout = &disk.layout;
        let kept_from = layout.slots_before(disk.device.size().saturating_sub(disk.options.kept_bytes));
        let table = SegmentTable::unknown(layout.segments, kept_from);
        Self { table, retired: Retired::default(), observer, disk }
    }

    /// A record was written to a segment.
    pub fn occupy(&self, slot: u32, tenant: u32, units: u32) {
        let counted = self.table.occupy(slot, tenant, units);
        self.observer.occupied(counted, u64::from(units) * UNIT);
    }

    /// A segment of an earlier run was found.
    pub fn occupy_again(&self, slot: u32, tenants: TenantUnits) {
        for (tenant, units) in tenants.iter() {
            self.observer.occupied(tenant, u64::from(units) * UNIT);
        }
        self.table.occupy_again(slot, tenants);
    }

    /// Nothing of the segment can be read any more; the slot is free, or out of use.
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

    /// A record that was in the index was dropped.
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

    /// Segments of a pool kept free: one for each class and two in reserve, or a hundredth.
    pub fn free_wanted(&self, pool: Pool) -> usize {
        let classes = if pool == Pool::Protected { 1 } else { Class::OF_RECORDS.len() };
        let count = self.table.count(pool);
        (count / 100).max(classes + 2).min(count / 3)
    }

    /// A write to a slot failed that holds no records.
    pub fn retire_empty(&self, slot: u32) {
        self.release(slot, SegmentState::Retired);
        self.disk.counters.segments_retired.add(1);
        self.retired.add(slot, self.disk.env.monotonic());
    }

    /// Gives slots back whose pause is over and whose superblock can be made void.
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
