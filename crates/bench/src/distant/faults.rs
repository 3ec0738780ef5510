//! The latency of the simulated bucket, its errors, and the counts of requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;

/// What the proxy does to requests. It can be changed while the proxy runs.
pub struct ProxyFaults {
    env: Env,
    get_delay_us: AtomicU64,
    refused_percent: AtomicU64,
    requests_per_second: AtomicU64,
    /// The number of requests that may pass, and the time of this number.
    allowance: Mutex<(f64, Duration)>,
    block_gets: AtomicU64,
    block_bytes: AtomicU64,
    put_class: AtomicU64,
    wal_puts_us: Mutex<Vec<u64>>,
    requests: AtomicU64,
    refused: AtomicU64,
    /// The longest chain of sequential block reads that were answered.
    round_trips: AtomicU64,
}

/// Counts of requests to the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of block reads.
    pub block_gets: u64,
    /// Bytes of blocks that were read.
    pub block_bytes: u64,
    /// Number of requests in the expensive class: every PUT, POST (multipart uploads have both) and
    /// list.
    pub put_class: u64,
    /// Number of all requests.
    pub requests: u64,
    /// Number of requests that were answered with 503.
    pub refused: u64,
}

impl Counted {
    /// Returns the counts since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            block_gets: self.block_gets - before.block_gets,
            block_bytes: self.block_bytes - before.block_bytes,
            put_class: self.put_class - before.put_class,
            requests: self.requests - before.requests,
            refused: self.refused - before.refused,
        }
    }
}

impl ProxyFaults {
    /// Without delays and errors.
    pub fn new(env: Env) -> Self {
        let zero = || AtomicU64::new(0);
        let allowance = Mutex::new((0.0, env.monotonic()));
        let (get_delay_us, refused_percent, requests_per_second) = (zero(), zero(), zero());
        let (block_gets, block_bytes, requests, refused) = (zero(), zero(), zero(), zero());
        let (put_class, wal_puts_us) = (zero(), Mutex::default());
        Self {
            env,
            get_delay_us,
            refused_percent,
            requests_per_second,
            allowance,
            block_gets,
            block_bytes,
            put_class,
            wal_puts_us,
            requests,
            refused,
            round_trips: zero(),
        }
    }

    /// Delays every read by this time.
    pub fn set_get_delay(&self, delay: Duration) {
        self.get_delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// Refuses this percentage of all requests at random.
    pub fn set_refused_percent(&self, percent: u64) {
        self.refused_percent.store(percent, Ordering::Relaxed);
    }

    /// Answers at most this number of requests per second and refuses the rest; 0: answers all.
    pub fn set_requests_per_second(&self, requests: u64) {
        self.requests_per_second.store(requests, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn counted(&self) -> Counted {
        Counted {
            block_gets: self.block_gets.load(Ordering::Relaxed),
            block_bytes: self.block_bytes.load(Ordering::Relaxed),
            put_class: self.put_class.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Returns the time of the clock that measures requests.
    pub(super) fn monotonic(&self) -> Duration {
        self.env.monotonic()
    }

    /// Counts a new request and returns whether it is refused.
    pub(super) fn refuses(&self) -> bool {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let percent = self.refused_percent.load(Ordering::Relaxed);
        let is_refused = self.is_over_limit() || self.env.random_below(100) < percent;
        self.refused.fetch_add(u64::from(is_refused), Ordering::Relaxed);
        is_refused
    }

    fn is_over_limit(&self) -> bool {
        let rate = self.requests_per_second.load(Ordering::Relaxed) as f64;
        if rate == 0.0 {
            return false;
        }
        let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = *allowance;
        let now = self.env.monotonic();
        // A burst of a tenth of a second's requests may pass.
        let left = (left + (now - since).as_secs_f64() * rate).min((rate / 10.0).max(1.0));
        let is_over = left < 1.0;
        *allowance = (if is_over { left } else { left - 1.0 }, now);
        is_over
    }

    /// Returns the delay of a request with this method.
    pub(super) fn delay(&self, method: &str) -> Duration {
        match method {
            "GET" => Duration::from_micros(self.get_delay_us.load(Ordering::Relaxed)),
            _ => Duration::ZERO,
        }
    }

    /// Returns the durations of WAL writes since the last call, in microseconds.
    pub fn take_wal_puts_us(&self) -> Vec<u64> {
        std::mem::take(&mut *self.wal_puts_us.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Resets [`Self::round_trips`].
    pub fn begin_round_trips(&self) {
        self.round_trips.store(0, Ordering::Relaxed);
    }

    /// Returns the longest chain of block reads each of which began after the previous one was answered.
    /// It is an upper bound of the round trips that one client waits for, since independent reads may
    /// form a chain too.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Records the start of a request. Returns the length of the longest chain that it ends, or 0 if it
    /// is not a block read.
    pub(super) fn begin(&self, method: &str, path: &str) -> u64 {
        let is_counted = is_read_of_block(method, path);
        if is_counted { self.round_trips.load(Ordering::Relaxed) + 1 } else { 0 }
    }

    /// Records that the request at the end of a chain of this length was answered.
    pub(super) fn end(&self, chain: u64) {
        self.round_trips.fetch_max(chain, Ordering::Relaxed);
    }

    /// Records that a request was answered, with the bytes of the response and the time since the
    /// request arrived.
    pub(super) fn answered(&self, method: &str, path: &str, bytes: u64, took: Duration) {
        let (object, parameters) = path.split_once('?').unwrap_or((path, ""));
        let is_list = method == "GET" && parameters.contains("list-type=");
        if matches!(method, "PUT" | "POST") || is_list {
            self.put_class.fetch_add(1, Ordering::Relaxed);
        }
        if method == "PUT" && object.contains("/wal/") {
            let mut times = self.wal_puts_us.lock().unwrap_or_else(PoisonError::into_inner);
            times.push(took.as_micros() as u64);
        }
        if is_read_of_block(method, object) {
            self.block_gets.fetch_add(1, Ordering::Relaxed);
            self.block_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

fn is_read_of_block(method: &str, path: &str) -> bool {
    let object = path.split_once('?').map_or(path, |(object, _)| object);
    method == "GET" && object.contains("/blocks/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_and_lists_are_in_the_expensive_class() {
        let faults = ProxyFaults::new(Env::simulated(1, 0));
        let took = Duration::from_millis(3);
        for (method, path) in [
            ("PUT", "/logs/a/wal/1"),
            ("PUT", "/logs/a/blocks/1?partNumber=1&uploadId=x"),
            ("POST", "/logs/a/blocks/1?uploads"),
            ("GET", "/logs?list-type=2&prefix=a"),
            ("GET", "/logs/a/wal/1"),
            ("HEAD", "/logs/a/wal/1"),
            ("DELETE", "/logs/a/wal/1"),
        ] {
            faults.answered(method, path, 0, took);
        }
        assert_eq!(faults.counted().put_class, 4);
        assert_eq!((faults.take_wal_puts_us(), faults.take_wal_puts_us()), (vec![3_000], vec![]));
    }

    #[test]
    fn concurrent_reads_are_one_round_trip_and_sequential_ones_a_chain() {
        let faults = ProxyFaults::new(Env::simulated(1, 0));
        let begin = |method| faults.begin(method, "/logs/a/blocks/1?x=1");
        let (first, second) = (begin("GET"), begin("GET"));
        faults.end(first);
        let third = begin("GET");
        faults.end(second);
        faults.end(begin("PUT"));
        assert_eq!((faults.round_trips(), third), (1, 2));
        faults.end(third);
        assert_eq!(faults.round_trips(), 2);
        faults.begin_round_trips();
        assert_eq!(faults.round_trips(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_over_the_limit_and_random_ones_are_refused() {
        let env = Env::simulated(1, 0);
        let faults = ProxyFaults::new(env.clone());
        faults.set_requests_per_second(100);
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!((0..50).filter(|_| faults.refuses()).count(), 40);
        env.sleep(Duration::from_millis(50)).await;
        assert_eq!((0..50).filter(|_| faults.refuses()).count(), 45);
        faults.set_requests_per_second(0);
        faults.set_refused_percent(90);
        let refused = (0..1_000).filter(|_| faults.refuses()).count();
        assert!((850..950).contains(&refused), "{refused}");
        assert_eq!(faults.counted().refused as usize, 85 + refused);
    }
}
