//! Applies requests to several policies in parallel and measures each.
//!
//! **Invariants.** Every policy sees the same requests in the same order. Requests before the end of the
//! warm-up fill the caches and are not counted. Memory: that of the policies, and 40 bytes per hour.

use sandur_cache::model::{Drops, Kind, Policy, Request};

/// Seconds of an hour.
const HOUR_S: u32 = 3_600;

/// The results of one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Number of reads after the warm-up.
    pub reads: u64,
    /// Number of reads answered from the cache.
    pub hits: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes answered from the cache.
    pub hit_bytes: u64,
    /// Bytes written into the cache.
    pub written_bytes: u64,
    /// Those of them that were in the cache already and were written again.
    pub rewritten_bytes: u64,
    /// Evictions.
    pub drops: Drops,
    /// Results by hour.
    pub hours: Vec<Hour>,
}

/// The results of one policy in one hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    /// Number of reads.
    pub reads: u64,
    /// Number of reads answered from the cache.
    pub hits: u64,
    /// Bytes evicted.
    pub evicted_bytes: u64,
    /// Objects evicted.
    pub evicted_objects: u64,
    /// Objects evicted unread.
    pub unfetched_objects: u64,
}

/// A policy and its results so far.
struct Lane<'a> {
    policy: &'a mut dyn Policy,
    measured: Measured,
    /// Totals at the start of the present hour, and at the start of measuring.
    hour_start: Drops,
    start: Drops,
    start_written: u64,
    start_rewritten: u64,
    hour: Hour,
}

/// Applies all requests to all policies. Calls `progress` with the number of finished requests every
/// 65,536 requests.
///
/// # Errors
/// The first error that the iterator of requests returns.
pub fn run<E>(
    requests: impl Iterator<Item = Result<Request, E>>,
    policies: &mut [Box<dyn Policy>],
    warm_up_s: u32,
    mut progress: impl FnMut(u64),
) -> Result<Vec<Measured>, E> {
    let mut lanes: Vec<Lane<'_>> = policies.iter_mut().map(|policy| Lane::new(policy.as_mut())).collect();
    let (mut count, mut first_s, mut measuring, mut hour) = (0u64, None, false, 0);
    for request in requests {
        let request = request?;
        let at_s = request.at_s.saturating_sub(*first_s.get_or_insert(request.at_s));
        if at_s >= warm_up_s && !measuring {
            measuring = true;
            hour = (at_s - warm_up_s) / HOUR_S;
            lanes.iter_mut().for_each(Lane::begin);
        }
        while measuring && (at_s - warm_up_s) / HOUR_S > hour {
            hour += 1;
            lanes.iter_mut().for_each(Lane::end_hour);
        }
        for lane in &mut lanes {
            lane.step(&request, measuring);
        }
        count += 1;
        if count.is_multiple_of(65_536) {
            progress(count);
        }
    }
    progress(count);
    Ok(lanes.into_iter().map(|lane| lane.end(measuring)).collect())
}

impl<'a> Lane<'a> {
    fn new(policy: &'a mut dyn Policy) -> Self {
        let (drops, hour) = (Drops::default(), Hour::default());
        Self {
            policy,
            measured: Measured::default(),
            hour_start: drops,
            start: drops,
            start_written: 0,
            start_rewritten: 0,
            hour,
        }
    }

    fn begin(&mut self) {
        self.start = self.policy.drops();
        self.hour_start = self.start;
        self.start_written = self.policy.written_bytes();
        self.start_rewritten = self.policy.rewritten_bytes();
    }

    fn step(&mut self, request: &Request, measuring: bool) {
        if request.kind == Kind::Write {
            self.policy.put(request);
            return;
        }
        let hit = self.policy.read(request);
        if !hit {
            self.policy.put(request);
        }
        if measuring {
            let (bytes, hit) = (u64::from(request.bytes), u64::from(hit));
            self.hour.reads += 1;
            self.hour.hits += hit;
            self.measured.read_bytes += bytes;
            self.measured.hit_bytes += bytes * hit;
        }
    }

    fn end_hour(&mut self) {
        let now = self.policy.drops();
        let dropped = now.since(self.hour_start);
        self.hour.evicted_bytes = dropped.bytes;
        self.hour.evicted_objects = dropped.objects;
        self.hour.unfetched_objects = dropped.unfetched_objects;
        self.measured.reads += self.hour.reads;
        self.measured.hits += self.hour.hits;
        self.measured.hours.push(self.hour);
        (self.hour, self.hour_start) = (Hour::default(), now);
    }

    fn end(mut self, measuring: bool) -> Measured {
        if measuring {
            self.end_hour();
            self.measured.drops = self.policy.drops().since(self.start);
            self.measured.written_bytes = self.policy.written_bytes() - self.start_written;
            self.measured.rewritten_bytes = self.policy.rewritten_bytes() - self.start_rewritten;
        }
        self.measured
    }
}

impl Measured {
    /// Reads answered from the cache per read; 0 without reads.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }

    /// Bytes answered from the cache per byte read.
    pub fn byte_hit_ratio(&self) -> f64 {
        self.hit_bytes as f64 / self.read_bytes.max(1) as f64
    }

    /// Bytes written per byte admitted; 1 if nothing was written.
    pub fn write_amplification(&self) -> f64 {
        let admitted = self.written_bytes - self.rewritten_bytes;
        if admitted == 0 { 1.0 } else { self.written_bytes as f64 / admitted as f64 }
    }

    /// Number of requests to the store.
    pub fn store_requests(&self) -> u64 {
        self.reads - self.hits
    }

    /// Mean and maximum number of objects evicted unread in an hour.
    pub fn unfetched_per_hour(&self) -> (f64, f64) {
        self.per_hour(|hour| hour.unfetched_objects as f64)
    }

    /// Mean and maximum number of times per hour that a cache of `capacity` bytes was replaced completely.
    pub fn replacements_per_hour(&self, capacity: u64) -> (f64, f64) {
        self.per_hour(|hour| hour.evicted_bytes as f64 / capacity.max(1) as f64)
    }

    fn per_hour(&self, of: impl Fn(&Hour) -> f64) -> (f64, f64) {
        let sum: f64 = self.hours.iter().map(&of).sum();
        let most = self.hours.iter().map(&of).fold(0.0, f64::max);
        (sum / self.hours.len().max(1) as f64, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Lru;
    use sandur_cache::Hint;

    fn request(at_s: u32, hash: u64, kind: Kind) -> Result<Request, ()> {
        Ok(Request { at_s, hash, bytes: 10, kind, hint: Hint::Point, tenant: 0 })
    }

    #[test]
    fn counts_by_hour_after_the_warm_up() {
        let requests = vec![
            request(100, 1, Kind::Read),
            request(200, 2, Kind::Read),
            // The warm-up of 1,000 s from the first request ends here.
            request(1_100, 1, Kind::Read),
            request(1_200, 3, Kind::Write),
            request(4_800, 1, Kind::Read),
            request(4_900, 2, Kind::Read),
        ];
        let mut policies: Vec<Box<dyn Policy>> = vec![Box::new(Lru::new(20))];
        let measured = run(requests.into_iter(), &mut policies, 1_000, |_| {}).unwrap().remove(0);
        assert_eq!((measured.reads, measured.hits, measured.store_requests()), (3, 2, 1));
        // Key 2 is evicted unread when 3 is written, and 3 when 2 is read again.
        assert_eq!(measured.drops.unfetched_objects, 2);
        assert_eq!(measured.hours.iter().map(|h| h.unfetched_objects).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(measured.replacements_per_hour(20), (0.5, 0.5));
        assert_eq!(measured.written_bytes, 20);
    }
}
