//! `Env`: clock, randomness, tasks and CPU threads of a component, as one cloneable handle.
//!
//! There are two kinds: `system` (real clock, random numbers of the operating system, CPU threads) and
//! `simulated` (time of a paused tokio runtime, a seeded generator, CPU jobs inline). Code cannot tell
//! under which kind it runs. A simulated `Env` is deterministic only on a current-thread runtime that
//! was started with paused time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandur_base::Id;

use crate::cpu::{CpuPool, Lane};
use crate::task::Task;

/// Clock, randomness, tasks and CPU of one process or one simulated node. Cheap to clone.
#[derive(Clone)]
pub struct Env(Arc<Inner>);

struct Inner {
    wall: WallClock,
    /// Nanoseconds added to the wall clock.
    skew_ns: AtomicI64,
    origin: tokio::time::Instant,
    random: Mutex<Generator>,
    cpu: CpuPool,
}

enum WallClock {
    System,
    /// Nanoseconds since the epoch at `origin`.
    Simulated {
        start_ns: i64,
    },
}

impl Env {
    /// The real clock and random source, with `cpu_threads` threads for computation.
    pub fn system(cpu_threads: usize) -> Self {
        // RandomState is seeded by the operating system: enough for ids and jitter.
        let seed = RandomState::new().build_hasher().finish();
        Self::build(WallClock::System, seed, CpuPool::start(cpu_threads))
    }

    /// A simulated environment: time starts at `start_ns` (nanoseconds since the epoch) and follows the
    /// paused clock of the runtime; random numbers come from `seed`; CPU jobs run inline.
    pub fn simulated(seed: u64, start_ns: i64) -> Self {
        let wall = WallClock::Simulated { start_ns };
        Self::build(wall, seed, CpuPool::inline())
    }

    #[allow(clippy::disallowed_methods)] // this module wraps the banned functions
    fn build(wall: WallClock, seed: u64, cpu: CpuPool) -> Self {
        let random = Mutex::new(Generator::new(seed));
        let skew_ns = AtomicI64::new(0);
        Self(Arc::new(Inner { wall, skew_ns, origin: tokio::time::Instant::now(), random, cpu }))
    }

    /// Wall-clock time in nanoseconds since the epoch. May jump; use [`Env::monotonic`] to measure time.
    #[allow(clippy::disallowed_methods)] // this module wraps the banned functions
    pub fn now_ns(&self) -> i64 {
        let right = match &self.0.wall {
            WallClock::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                since.map_or(0, |d| d.as_nanos() as i64)
            }
            WallClock::Simulated { start_ns } => start_ns + self.monotonic().as_nanos() as i64,
        };
        right + self.0.skew_ns.load(Ordering::Relaxed)
    }

    /// Time since this `Env` was made; never goes back.
    #[allow(clippy::disallowed_methods)] // this module wraps the banned functions
    pub fn monotonic(&self) -> Duration {
        tokio::time::Instant::now() - self.0.origin
    }

    /// Makes the wall clock of this `Env` and its clones wrong by `skew`: for tests.
    pub fn set_clock_skew(&self, skew: Duration, ahead: bool) {
        let ns = skew.as_nanos() as i64;
        self.0.skew_ns.store(if ahead { ns } else { -ns }, Ordering::Relaxed);
    }

    /// Waits for `duration`.
    #[allow(clippy::disallowed_methods)] // this module wraps the banned functions
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits for `future` at most `duration`; `None` when the time has passed.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Option<F::Output> {
        tokio::time::timeout(duration, future).await.ok()
    }

    /// Starts a task; the returned [`Task`] owns it.
    #[allow(clippy::disallowed_methods)] // this module wraps the banned functions
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        // Boxing makes all tasks with one result type a single type to the runtime, which keeps its code
        // small.
        let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
        Task::new(name, tokio::spawn(future))
    }

    /// Runs computation on the CPU pool.
    pub async fn run_cpu<T: Send + 'static>(
        &self,
        lane: Lane,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.cpu.run(lane, job).await
    }

    /// Runs a call that blocks on a device (fsync, a large read) off the I/O threads.
    /// Inline under simulation.
    #[allow(clippy::disallowed_methods)] // this module wraps the banned functions
    pub async fn run_blocking<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        if matches!(self.0.wall, WallClock::Simulated { .. }) {
            return job();
        }
        match tokio::task::spawn_blocking(job).await {
            Ok(value) => value,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// The CPU pool.
    pub fn cpu(&self) -> &CpuPool {
        &self.0.cpu
    }

    /// A random number, uniform over all values; not for secrets.
    pub fn random_u64(&self) -> u64 {
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// A random number in `0..bound`; `bound` is at least 1. Not for secrets.
    pub fn random_below(&self, bound: u64) -> u64 {
        // The bias of the multiplication is below 2^-32 for every bound in use.
        ((u128::from(self.random_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Cryptographically random bytes of the operating system; bytes of the seed under simulation.
    pub fn secret<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        match &self.0.wall {
            WallClock::System => fill_with_secrets(&mut bytes),
            WallClock::Simulated { .. } => {
                let chunks = bytes.chunks_mut(8);
                chunks.for_each(|c| c.copy_from_slice(&self.random_u64().to_le_bytes()[..c.len()]));
            }
        }
        bytes
    }

    /// A new id: the milliseconds of the wall clock and 80 random bits.
    pub fn new_id(&self) -> Id {
        let ms = (self.now_ns() / 1_000_000).max(0) as u64;
        let random = (u128::from(self.random_u64()) << 64) | u128::from(self.random_u64());
        Id::from_parts(ms, random)
    }
}

fn fill_with_secrets(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the operating system returns no random bytes: {error}"),
        }
    }
}

/// xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64. Not for secrets.
struct Generator([u64; 4]);

impl Generator {
    fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
    }

    #[test]
    fn a_simulated_env_repeats_for_the_same_seed() {
        let trace = |seed| {
            paused().block_on(async {
                let env = Env::simulated(seed, 1_000_000_000);
                env.sleep(Duration::from_millis(env.random_below(500))).await;
                (env.now_ns(), env.new_id(), env.random_u64())
            })
        };
        assert_eq!(trace(7), trace(7));
        assert_ne!(trace(7), trace(8));
    }

    #[test]
    fn secrets_come_from_the_system_or_from_the_seed_under_simulation() {
        let secret = |seed| paused().block_on(async { Env::simulated(seed, 0).secret::<19>() });
        assert_eq!(secret(7), secret(7));
        assert_ne!(secret(7), secret(8));
        let env = paused().block_on(async { Env::system(1) });
        let (one, two) = (env.secret::<1_000>(), env.secret::<1_000>());
        assert!(one != two && one[990..].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn skew_moves_the_wall_clock_only() {
        paused().block_on(async {
            let env = Env::simulated(1, 0);
            env.set_clock_skew(Duration::from_secs(5), true);
            env.sleep(Duration::from_secs(1)).await;
            assert_eq!(env.now_ns(), 6_000_000_000);
            assert_eq!(env.monotonic(), Duration::from_secs(1));
        });
    }

    #[test]
    fn dropping_a_task_ends_it() {
        paused().block_on(async {
            let env = Env::simulated(1, 0);
            let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
            let task = env.spawn("holder", async move {
                let _held = sender;
                std::future::pending::<()>().await;
            });
            drop(task);
            assert!(receiver.await.is_err());
        });
    }
}
