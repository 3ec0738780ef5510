//! All limits of the client. They protect a store that has other users too.
//!
//! The defaults suit S3, GCS and Azure. For local directories only the bound of the queue applies.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::{GIB, MIB};

use crate::prices::Prices;

/// The smallest part in bytes: it saturates a connection, and 10,000 parts are 80 GiB. A part is half of
/// the largest object that is sent in one request, so that the memory of an upload is a known multiple
/// of it.
pub(crate) const PART_BYTES_MIN: usize = 8 * MIB as usize;

/// Rate limits of a tenant's queries. 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantRates {
    /// Requests per second.
    pub requests_per_second: u64,
    /// Requests by which a burst may exceed the rate.
    pub requests_burst: u64,
    /// Bytes per second.
    pub bytes_per_second: u64,
    /// Bytes by which a burst may exceed the rate.
    pub bytes_burst: u64,
}

impl Default for TenantRates {
    /// About half of what one partition of S3 answers (5,500 GET/s), and 16 Gbit/s.
    fn default() -> Self {
        Self {
            requests_per_second: 3_000,
            requests_burst: 30_000,
            bytes_per_second: 2 * GIB,
            bytes_burst: 32 * GIB,
        }
    }
}

/// Returns the current rate limits of a tenant; called for each of its requests.
pub type RatesOf = Arc<dyn Fn(&str) -> TenantRates + Send + Sync>;

/// Limits of the client.
#[derive(Clone)]
pub struct RequestLimits {
    /// The largest window of block reads: requests in progress at once.
    pub concurrent_reads_max: u32,
    /// The largest window of block writes.
    pub concurrent_writes_max: u32,
    /// The most requests of a lane that may wait for a slot; further ones are refused.
    pub waiting_max: usize,
    /// Second requests for slow reads, in percent of reads. 0: none.
    pub hedge_percent: u32,
    /// The earliest time after which a second request is sent.
    pub hedge_after_min: Duration,
    /// Retries in percent of requests.
    pub retry_percent: u32,
    /// The largest gap, in bytes, between two ranges that are read together.
    pub range_gap_max: u64,
    /// The largest read, in bytes.
    pub range_request_max: u64,
    /// The largest object, in bytes, that an upload sends in one request and buffers in memory. Larger
    /// objects are sent in parts of half of it, which needs two more requests and memory of up to five
    /// parts.
    pub whole_upload_max: usize,
    /// Rate limits of tenants' queries.
    pub rates_of: RatesOf,
    /// Prices of requests.
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
            // 1 MiB takes about as long as a round trip: 20 ms at 50 MB/s.
            range_gap_max: MIB,
            // Large enough to saturate a connection.
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
