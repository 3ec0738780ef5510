//! Counters of a shard for misses and for items that leave.
//!
//! Invariant: every lookup and every item that leaves is counted once.

use super::record::{Dead, Record};
use crate::stats::RamCounts;

impl RamCounts {
    pub(crate) fn count_miss(&mut self, why: Option<Dead>) {
        match why {
            None => self.absent += 1,
            Some(Dead::Expired) => self.found_expired += 1,
            Some(Dead::Flushed) => self.found_flushed += 1,
        }
    }

    pub(crate) fn count_dead(&mut self, why: Dead, fetched: bool) {
        match why {
            Dead::Flushed => self.flushed += 1,
            Dead::Expired => {
                self.expired += 1;
                self.expired_unfetched += u64::from(!fetched);
            }
        }
    }

    pub(crate) fn count_evicted(&mut self, record: &Record) {
        self.evicted += 1;
        self.evicted_unfetched += u64::from(!record.fetched);
        self.evicted_with_expiry += u64::from(record.expires_at != 0);
        self.evicted_bytes += record.weight();
    }
}
