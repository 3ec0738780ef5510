//! Admits pushes at the pace at which a flush writes rows.
//!
//! The memory of a head is freed at once, when its blocks are committed. Without a pace, pushes take all
//! free memory at full speed, and then all of them wait for the end of the flush. With it, the memory
//! that pushes may take during a flush grows with the share of the head that is written. All pushes then
//! wait a little instead of a few for long.
//!
//! **Invariants.** While no flush runs, every push is admitted at once. A push waits at most
//! [`WAIT_MAX`] here, even if the flush stands still: only the write budget refuses pushes. Pushes are
//! admitted in the order of their arrival.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;
use tokio::sync::Semaphore;

/// The longest wait of a push.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// The part of the free memory, a quarter, that pushes may take without a pace before the flush writes the
/// first row, and again after it wrote the last one: while it plans its blocks, and while it commits them.
const UNPACED_PART: u64 = 4;
/// Bytes of memory that a permit stands for.
const PERMIT_BYTES: u64 = 1 << 10;

/// The pace of pushes during a flush.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<Option<Pace>>);

#[derive(Debug)]
struct Pace {
    /// Raw bytes of the head.
    rows: u64,
    /// Raw bytes of the head that were written to blocks.
    written: u64,
    /// Bytes of memory that were free when the flush began.
    free: u64,
    /// Permits that were issued so far.
    issued: u64,
    /// Permits for memory, which pushes take in the order of their arrival.
    permits: Arc<Semaphore>,
}

impl Pace {
    /// Bytes of memory that pushes may have taken by now.
    fn allowed(&self) -> u64 {
        if self.written >= self.rows {
            return self.free;
        }
        let unpaced = self.free / UNPACED_PART;
        let paced = u128::from(self.free - 2 * unpaced) * u128::from(self.written) / u128::from(self.rows);
        unpaced + paced as u64
    }

    fn issue(&mut self) {
        let allowed = self.allowed() / PERMIT_BYTES;
        self.permits.add_permits(allowed.saturating_sub(self.issued) as usize);
        self.issued = self.issued.max(allowed);
    }
}

/// A flush that paces pushes until it is dropped.
pub(crate) struct PacingFlush<'a>(&'a Admission);

impl Drop for PacingFlush<'_> {
    fn drop(&mut self) {
        if let Some(pace) = self.0.pace().take() {
            // Those that wait are admitted.
            pace.permits.close();
        }
    }
}

impl Admission {
    fn pace(&self) -> MutexGuard<'_, Option<Pace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to pace pushes: a flush writes a head of `rows` raw bytes, and pushes can take `free` bytes
    /// of memory until it ends.
    pub(crate) fn begin(&self, rows: u64, free: u64) -> PacingFlush<'_> {
        let free = free.min(Semaphore::MAX_PERMITS as u64);
        let mut pace = Pace { rows, written: 0, free, issued: 0, permits: Arc::new(Semaphore::new(0)) };
        pace.issue();
        *self.pace() = Some(pace);
        PacingFlush(self)
    }

    /// Notes that the flush has written rows of this many raw bytes.
    pub(crate) fn wrote(&self, bytes: u64) {
        if let Some(pace) = &mut *self.pace() {
            pace.written = pace.written.saturating_add(bytes).min(pace.rows);
            pace.issue();
        }
    }

    /// Waits until a push may take this many bytes of memory.
    pub(crate) async fn admit(&self, env: &Env, bytes: u64) {
        let Some(permits) = self.pace().as_ref().map(|pace| Arc::clone(&pace.permits)) else { return };
        let wanted = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        if let Some(Ok(taken)) = env.timeout(WAIT_MAX, permits.acquire_many(wanted)).await {
            taken.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_runtime::Task;

    use super::*;

    const KIB: u64 = 1 << 10;

    /// A push of this size, and the time at which it is admitted.
    fn push(env: &Env, admission: &Arc<Admission>, bytes: u64) -> Task<Duration> {
        let (of_env, admission) = (env.clone(), Arc::clone(admission));
        env.spawn("push", async move {
            admission.admit(&of_env, bytes).await;
            of_env.monotonic()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn pushes_take_memory_as_rows_are_written() {
        let (env, admission) = (Env::simulated(1, 0), Arc::new(Admission::default()));
        let began = env.monotonic();
        let step = WAIT_MAX / 20;
        assert_eq!(push(&env, &admission, u64::MAX).join().await.unwrap(), began, "no flush runs");
        let flush = admission.begin(1_000, 800 * KIB);
        let pushes = [200, 40, 1, 359, 200, 1].map(|kib| push(&env, &admission, kib * KIB));
        env.sleep(step).await;
        admission.wrote(99);
        env.sleep(step).await;
        admission.wrote(2);
        env.sleep(step).await;
        admission.wrote(800);
        env.sleep(step).await;
        admission.wrote(u64::MAX);
        env.sleep(step).await;
        drop(flush);
        let mut waited = Vec::new();
        for push in pushes {
            waited.push((push.join().await.unwrap() - began).as_millis() / step.as_millis());
        }
        // A quarter has no pace; 40 of the paced 400 need a tenth of the rows; the next push waits for its
        // turn; the last quarter is free when all rows are written, and the end of the flush admits all.
        assert_eq!(waited, [0, 2, 3, 4, 4, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_waits_for_a_bounded_time_while_a_flush_stands_still() {
        let (env, admission) = (Env::simulated(1, 0), Arc::new(Admission::default()));
        let began = env.monotonic();
        let _flush = admission.begin(1_000, 0);
        let pushes = [push(&env, &admission, 1), push(&env, &admission, u64::MAX)];
        for push in pushes {
            assert_eq!(push.join().await.unwrap() - began, WAIT_MAX);
        }
    }
}
