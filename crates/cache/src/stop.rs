//! A clean stop: items that are only in memory are written to flash, and flash is closed.
//!
//! Values are offered as fast as flash accepts them. A slow device, or a busy machine, makes the stop
//! longer, but loses no value before the caller's patience is over.
//!
//! Invariant: items that were not written are logged.

use std::time::Duration;

use crate::flash_tier::FlashTier;
use crate::inner::Inner;

/// Items that are looked at under one lock of the shard.
const STEP: usize = 64;

impl Inner {
    /// See [`Cache::close`](crate::Cache::close).
    pub fn close(&self, patience: Duration) {
        let Some(flash) = &self.flash else { return };
        if !patience.is_zero()
            && let Err(looked_at) = self.write_memory(flash, patience)
        {
            let (_, items) = self.ram.counts();
            tracing::warn!(
                items = items.saturating_sub(looked_at),
                patience_s = patience.as_secs(),
                health = flash.flash().health().name(),
                "some items in memory were not written to flash before the stop: those that flash does not \
                 have are lost"
            );
        }
        flash.close();
    }

    /// Writes items that are only in memory to flash. On failure returns the number of items looked at
    /// before `patience` was over or the device failed.
    fn write_memory(&self, flash: &FlashTier, patience: Duration) -> Result<(), u64> {
        let until = self.env.monotonic() + patience;
        let mut looked_at = 0;
        for number in 0..self.ram.shards() {
            let mut next = Some(0);
            while let Some(from) = next {
                let mut unsaved = Vec::new();
                let at = self.moment();
                next = self.ram.lock_shard(number).visit(from, STEP, at, |hash, record| {
                    if record.on_flash && flash.still_has(hash, false) {
                        looked_at += 1;
                    } else {
                        unsaved.push((hash, record.shared_key(), record.weight()));
                    }
                });
                for (hash, key, weight) in unsaved {
                    if !flash.wait_for_room(weight, until) || self.env.monotonic() >= until {
                        return Err(looked_at);
                    }
                    looked_at += 1;
                    // An item that was changed or removed since is left to that change.
                    let _ = self.ram.lock(hash).with(hash, &key, (at, false), |record, _| {
                        record.on_flash = flash.offer(hash, record, u8::from(record.fetched));
                    });
                }
            }
        }
        Ok(())
    }
}
