//! Eviction from memory: writes an item to flash, or counts it as lost and notifies the listener.
//!
//! Invariant: an evicted item is on flash, or counted as lost with its reason.

use std::sync::Arc;

use super::record::{Moment, Record};
use crate::flash_tier::FlashTier;
use crate::listener::{RemovalListener, RemovalReason, RemovedItem};
use crate::policy::{Churn, Class, Eviction};

/// The destination of the items that a shard evicts.
#[derive(Debug, Default)]
pub(crate) struct Evictor {
    pub listener: Option<Arc<dyn RemovalListener>>,
    pub churn: Arc<Churn>,
    pub flash: Option<Arc<FlashTier>>,
}

/// What happened to an evicted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A copy was on flash already.
    WasOnFlash,
    /// It was written to flash.
    Demoted,
    /// It was dropped.
    Lost,
}

impl Evictor {
    /// Moves a live item out of memory. `uses` is the number of its recent uses.
    pub fn evicted(&self, hash: u64, record: &Record, uses: u8, at: Moment) -> Fate {
        if let Some(flash) = &self.flash {
            if record.on_flash && flash.still_has(hash, record.fetched) {
                return Fate::WasOnFlash;
            }
            if flash.offer(hash, record, uses.max(u8::from(record.fetched))) {
                return Fate::Demoted;
            }
        }
        let age_s = u64::from(at.now.saturating_sub(record.stored_at));
        let (bytes, tenant, fetched) = (record.weight(), record.tenant, record.fetched);
        let eviction =
            Eviction { class: Class::Ram, source: record.hint.into(), tenant, age_s, bytes, fetched };
        self.churn.count(&eviction, u64::from(at.now));
        self.notify(record, RemovalReason::Evicted, false, at);
        Fate::Lost
    }

    /// Notifies the listener that an item has left.
    pub fn notify(&self, record: &Record, why: RemovalReason, looked_up: bool, at: Moment) {
        let Some(listener) = &self.listener else { return };
        listener.removed(&RemovedItem {
            key: record.key(),
            length: record.length() as u64,
            flags: record.flags,
            expires_at: record.expires_at,
            accessed_at: record.accessed_at,
            fetched: record.fetched,
            why,
            looked_up,
            now: at.now,
        });
    }
}
