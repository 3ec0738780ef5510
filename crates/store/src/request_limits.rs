//! How the client behaves towards a store that others use too: every bound in one place.
//!
//! The defaults suit S3, GCS and Azure. Local directories keep only the bound of the line.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::{GIB, MIB};

use crate::prices::Prices;

/// Bytes of the smallest part: saturates a connection, and 10,000 of them are 80 GiB. Parts are half of what
/// may be sent in one request, so that an upload holds a known multiple of it.
pub(crate) const PART_BYTES_MIN: usize = 8 * MIB as usize;

/// What a tenant's queries may ask of the store. 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantRates {
    /// Requests per second.
    pub requests_per_second: u64,
    /// Requests that may exceed the rate at once.
    pub requests_burst: u64,
    /// Bytes per second.
    pub bytes_per_second: u64,
    /// Bytes that may exceed the rate at once.
    pub bytes_burst: u64,
}

impl Default for TenantRates {
    /// About half of what one partition of S3 answers (5,500 GET/s), and a 16 Gbit/s network.
    fn default() -> Self {
        Self {
            requests_per_second: 3_000,
            requests_burst: 30_000,
            bytes_per_second: 2 * GIB,
            bytes_burst: 32 * GIB,
        }
    }
}

/// The rates of a tenant now; asked at each of its requests.
pub type RatesOf = Arc<dyn Fn(&str) -> TenantRates + Send + Sync>;

/// How the client behaves.
#[derive(Clone)]
pub struct RequestLimits {
    /// Largest window of block reads: requests under way at once.
    pub concurrent_reads_max: u32,
    /// Largest window of block writes.
    pub concurrent_writes_max: u32,
    /// Requests of a lane that may wait for a slot; more are refused.
    pub waiting_max: usize,
    /// Second requests for slow reads, in percent of reads. 0: none.
    pub hedge_percent: u32,
    /// No second request is made earlier than this.
    pub hedge_after_min: Duration,
    /// Retries in percent of requests.
    pub retry_percent: u32,
    /// The largest gap in bytes between two ranges that are read together.
    pub range_gap_max: u64,
    /// The largest read in bytes.
    pub range_request_max: u64,
    /// Largest object that an upload sends in one request, and holds in memory until then; larger ones are
    /// sent in parts of half of it, which take two requests more and up to five parts of memory.
    pub whole_upload_max: usize,
    /// What tenants' queries may ask.
    pub rates_of: RatesOf,
    /// What requests cost.
    pub prices: Prices,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            concurrent_reads_max: 128,
            concurrent_writes_max: 32,
            waiting_max: 16_384,
            hedge_percent: 5,
            hedge_after_min: Duration::from_millis(50),
            retry_percent: 10,
            // A round trip of ~20 ms at ~50 MB/s is worth 1 MiB.
            range_gap_max: MIB,
            // Saturates a connection at the least cost per byte.
            range_request_max: 16 * MIB,
            whole_upload_max: 16 * MIB as usize,
            rates_of: Arc::new(|_| TenantRates::default()),
            prices: Prices::default(),
        }
    }
}

impl fmt::Debug for RequestLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLimits").field("hedge_percent", &self.hedge_percent).finish_non_exhaustive()
    }
}
