//! How far away the bucket is, what it refuses, and what was asked of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sandur_base::Env;

/// What the proxy does to requests; changed while it runs.
pub struct Weather {
    env: Env,
    get_delay_us: AtomicU64,
    refused_percent: AtomicU64,
    requests_per_second: AtomicU64,
    /// Requests that may still pass, and as of when.
    allowance: Mutex<(f64, Duration)>,
    block_gets: AtomicU64,
    block_bytes: AtomicU64,
    put_class: AtomicU64,
    wal_puts_us: Mutex<Vec<u64>>,
    requests: AtomicU64,
    refused: AtomicU64,
    /// Of the reads of blocks that were answered, the most that waited for each other in turn.
    round_trips: AtomicU64,
}

/// What was asked of the bucket so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Reads of blocks.
    pub block_gets: u64,
    /// Bytes of blocks that were read.
    pub block_bytes: u64,
    /// Requests of the dear class: every PUT, POST (parts of an upload have both) and list.
    pub put_class: u64,
    /// All requests.
    pub requests: u64,
    /// Requests that were answered with 503.
    pub refused: u64,
}

impl Counted {
    /// What came since.
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

impl Weather {
    /// Near and calm.
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

    /// Delays every read by so much.
    pub fn set_get_delay(&self, delay: Duration) {
        self.get_delay_us.store(delay.as_micros() as u64, Ordering::Relaxed);
    }

    /// Refuses this share of all requests at random.
    pub fn set_refused_percent(&self, percent: u64) {
        self.refused_percent.store(percent, Ordering::Relaxed);
    }

    /// Answers so many requests per second and refuses the rest; 0: answers all.
    pub fn set_requests_per_second(&self, requests: u64) {
        self.requests_per_second.store(requests, Ordering::Relaxed);
    }

    /// What was asked so far.
    pub fn counted(&self) -> Counted {
        Counted {
            block_gets: self.block_gets.load(Ordering::Relaxed),
            block_bytes: self.block_bytes.load(Ordering::Relaxed),
            put_class: self.put_class.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// The clock by which requests are timed.
    pub(super) fn monotonic(&self) -> Duration {
        self.env.monotonic()
    }

    /// A request comes: whether it is refused.
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
        // A tenth of a second's worth may come at once.
        let left = (left + (now - since).as_secs_f64() * rate).min((rate / 10.0).max(1.0));
        let is_over = left < 1.0;
        *allowance = (if is_over { left } else { left - 1.0 }, now);
        is_over
    }

    /// How long a request of this method waits.
    pub(super) fn delay(&self, method: &str) -> Duration {
        match method {
            "GET" => Duration::from_micros(self.get_delay_us.load(Ordering::Relaxed)),
            _ => Duration::ZERO,
        }
    }

    /// Times of the writes of the WAL since this was last asked, in microseconds.
    pub fn take_wal_puts_us(&self) -> Vec<u64> {
        std::mem::take(&mut *self.wal_puts_us.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets the reads of blocks that were answered, for [`Self::round_trips`].
    pub fn begin_round_trips(&self) {
        self.round_trips.store(0, Ordering::Relaxed);
    }

    /// The longest chain of reads of blocks of which each began after the one before was answered: what one
    /// client waits for, at most, since reads that do not need each other may form a chain, too.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// A request begins: the length of the longest chain that it ends, if it is a read of a block.
    pub(super) fn begin(&self, method: &str, path: &str) -> u64 {
        let is_counted = is_read_of_block(method, path);
        if is_counted { self.round_trips.load(Ordering::Relaxed) + 1 } else { 0 }
    }

    /// A request that ends a chain of this length was answered.
    pub(super) fn end(&self, chain: u64) {
        self.round_trips.fetch_max(chain, Ordering::Relaxed);
    }

    /// A request was answered with so many bytes, so long after it began to come.
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
    fn writes_and_lists_are_of_the_dear_class() {
        let weather = Weather::new(Env::simulated(1, 0));
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
            weather.answered(method, path, 0, took);
        }
        assert_eq!(weather.counted().put_class, 4);
        assert_eq!((weather.take_wal_puts_us(), weather.take_wal_puts_us()), (vec![3_000], vec![]));
    }

    #[test]
    fn reads_at_once_are_one_round_trip_and_others_a_chain() {
        let weather = Weather::new(Env::simulated(1, 0));
        let begin = |method| weather.begin(method, "/logs/a/blocks/1?x=1");
        let (first, second) = (begin("GET"), begin("GET"));
        weather.end(first);
        let third = begin("GET");
        weather.end(second);
        weather.end(begin("PUT"));
        assert_eq!((weather.round_trips(), third), (1, 2));
        weather.end(third);
        assert_eq!(weather.round_trips(), 2);
        weather.begin_round_trips();
        assert_eq!(weather.round_trips(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_over_the_limit_and_the_unlucky_are_refused() {
        let env = Env::simulated(1, 0);
        let weather = Weather::new(env.clone());
        weather.set_requests_per_second(100);
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!((0..50).filter(|_| weather.refuses()).count(), 40);
        env.sleep(Duration::from_millis(50)).await;
        assert_eq!((0..50).filter(|_| weather.refuses()).count(), 45);
        weather.set_requests_per_second(0);
        weather.set_refused_percent(90);
        let refused = (0..1_000).filter(|_| weather.refuses()).count();
        assert!((850..950).contains(&refused), "{refused}");
        assert_eq!(weather.counted().refused as usize, 85 + refused);
    }
}
