//! A published case of a chunk cache, at a scale of 1:1000.
//!
//! A large cell of a log service kept its chunks in 1.2 TB of memory, evicted by LRU. Ingesters wrote
//! every chunk into it, and queriers every chunk that they read. The hit ratio was above 70 %, and yet
//! up to 150 million chunks an hour were evicted unread, and the cache was replaced completely up to 40
//! times an hour. With 50 TB on flash, for about the same money, the hit ratio rose above 90 % and
//! requests to the object store fell by 65 % ("How we scaled Grafana Cloud Logs' memcached cluster to
//! 50TB and improved reliability", 2023-08-23).
//!
//! The workload follows the report's statements about the load: 6 to 8 TB of chunks a day; over a
//! hundred million chunks in 50 TB, thus half a megabyte each; queries split by half hours; a third of
//! the requested volume younger than 3 hours and two thirds younger than 5 days; occasionally a test
//! query over millions of chunks. The report does not say how much is read in total. That, the share of
//! dashboards and the skew between streams are chosen so that the hit ratio and the replacements of the
//! first cache are reproduced. All other results follow.

use super::generate::Workload;

/// Divisor of all sizes.
pub const SCALE: u64 = 1_000;
/// Bytes of the cache before the change, scaled.
pub const BEFORE_BYTES: u64 = 1_200_000_000_000 / SCALE;
/// Bytes of flash after the change, scaled.
pub const AFTER_BYTES: u64 = 50_000_000_000_000 / SCALE;
/// Bytes of memory after the change, scaled: 33 nodes with 5 GB each.
pub const AFTER_RAM_BYTES: u64 = 33 * 5_000_000_000 / SCALE;
/// Hours until the caches are full: a week of chunks.
pub const WARM_UP_HOURS: u32 = 8 * 24;

/// The published results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Hit ratio before the change: "70+ %".
    pub hit_ratio_before: f64,
    /// Hit ratio after the change: "90 %+".
    pub hit_ratio_after: f64,
    /// Largest number of chunks evicted unread per hour.
    pub unfetched_per_hour: f64,
    /// Largest number of complete replacements of the cache per hour.
    pub replacements_per_hour: f64,
    /// Share of the requests to the store that were saved.
    pub requests_saved: f64,
}

/// The published results.
pub const PUBLISHED: Published = Published {
    hit_ratio_before: 0.70,
    hit_ratio_after: 0.90,
    unfetched_per_hour: 150e6,
    replacements_per_hour: 40.0,
    requests_saved: 0.65,
};

/// The load, scaled.
pub fn workload(seed: u64) -> Workload {
    Workload {
        seed,
        hours: WARM_UP_HOURS + 7 * 24,
        history_hours: 30 * 24,
        // 582 chunks of 0.5 MB an hour are 7 GB a day. Busy streams fill a chunk long before its time is
        // over.
        streams: 194,
        tenants: 20,
        chunk_minutes: 20,
        chunk_bytes: 500_000,
        stream_skew: 0.6,
        queries_per_hour: 120.0,
        query_streams: 25,
        ages: vec![(0.40, 3.0), (0.32, 5.0 * 24.0), (0.28, 30.0 * 24.0)],
        range_hours: (1.0, 72.0),
        dashboards: 24,
        refresh_s: 30,
        dashboard_hours: 1.0,
        dashboard_streams: 5,
        scans_per_day: 2.0,
        scan_hours: 30 * 24,
        scan_streams: 60,
        scan_chunks_per_s: 30,
        split_minutes: 30,
        day_swing: 0.7,
    }
}
