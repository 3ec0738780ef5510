//! The way out of memory: what is asked and told when an item has to leave.
//!
//! Invariant: an item that leaves is on flash, or counted as lost with its reason.

use std::sync::Arc;

use super::record::{Moment, Record};
use crate::flash_tier::FlashTier;
use crate::listener::{Leaving, Left, Listener};
use crate::policy::{Churn, Class, Eviction};

/// Whom a shard asks and tells.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    pub listener: Option<Arc<dyn Listener>>,
    pub churn: Arc<Churn>,
    pub flash: Option<Arc<FlashTier>>,
}

/// What became of an item that had to leave memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It lies on flash already.
    WasOnFlash,
    /// It was written to flash.
    Demoted,
    /// It is gone.
    Lost,
}

impl Exit {
    /// Finds another place for a live item that has to leave memory; `uses` are those of late.
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
        self.tell(record, Leaving::Evicted, false, at);
        Fate::Lost
    }

    /// Tells the listener that an item has left.
    pub fn tell(&self, record: &Record, why: Leaving, looked_up: bool, at: Moment) {
        let Some(listener) = &self.listener else { return };
        listener.left(&Left {
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
