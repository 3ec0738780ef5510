//! Admits pushes at the pace at which a flush writes rows.
//!
//! The memory of a head is freed at once, when its blocks are committed. Without a pace, pushes take all
//! free memory at full speed, and then all of them wait for the end of the flush. With it, the memory
//! that pushes may take during a flush grows with the share of the head that is written. All pushes then
//! wait a little instead of a few for long.
//!
//! **Invariants.** While no flush runs, every push is admitted at once. A push waits at most
//! [`WAIT_MAX`] here, even if the flush stands still: only the write budget refuses pushes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::Env;
use tokio::sync::Notify;

/// The longest wait of a push.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// The part of the free memory, a quarter, that pushes may take without a pace before the flush writes the
/// first row, and again after it wrote the last one: while it plans its blocks, and while it commits them.
const UNPACED_PART: u64 = 4;

/// The pace of pushes during a flush.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    pace: Mutex<Option<Pace>>,
    progressed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Raw bytes of the head.
    rows: u64,
    /// Raw bytes of the head that were written to blocks.
    written: u64,
    /// Bytes of memory that were free when the flush began.
    free: u64,
    /// Bytes of memory that pushes took since.
    taken: u64,
}

impl Pace {
    /// Whether a push may take memory now. Its own size does not count, so that large pushes do not wait
    /// longer than small ones.
    fn admits(&self) -> bool {
        if self.written >= self.rows {
            return self.taken < self.free;
        }
        let unpaced = self.free / UNPACED_PART;
        let paced = u128::from(self.free - 2 * unpaced) * u128::from(self.written) / u128::from(self.rows);
        u128::from(self.taken) < u128::from(unpaced) + paced
    }
}

/// A flush that paces pushes until it is dropped.
pub(crate) struct PacingFlush<'a>(&'a Admission);

impl Drop for PacingFlush<'_> {
    fn drop(&mut self) {
        *self.0.pace() = None;
        self.0.progressed.notify_waiters();
    }
}

impl Admission {
    fn pace(&self) -> MutexGuard<'_, Option<Pace>> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to pace pushes: a flush writes a head of `rows` raw bytes, and pushes can take `free` bytes
    /// of memory until it ends.
    pub(crate) fn begin(&self, rows: u64, free: u64) -> PacingFlush<'_> {
        *self.pace() = Some(Pace { rows, written: 0, free, taken: 0 });
        PacingFlush(self)
    }

    /// Notes that the flush has written rows of this many raw bytes.
    pub(crate) fn wrote(&self, bytes: u64) {
        if let Some(pace) = &mut *self.pace() {
            pace.written = pace.written.saturating_add(bytes).min(pace.rows);
        }
        self.progressed.notify_waiters();
    }

    /// Waits until a push may take this many bytes of memory.
    pub(crate) async fn admit(&self, env: &Env, bytes: u64) {
        let until = env.monotonic() + WAIT_MAX;
        loop {
            let progressed = self.progressed.notified();
            let left = until.saturating_sub(env.monotonic());
            if self.take(bytes, left.is_zero()) {
                return;
            }
            let _ = env.timeout(left, progressed).await;
        }
    }

    /// Counts the memory of a push if it is admitted, or if it has waited long enough.
    fn take(&self, bytes: u64, has_waited: bool) -> bool {
        match &mut *self.pace() {
            Some(pace) if !pace.admits() && !has_waited => false,
            Some(pace) => {
                pace.taken = pace.taken.saturating_add(bytes);
                true
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_take_memory_as_rows_are_written() {
        let admission = Admission::default();
        assert!(admission.take(u64::MAX, false), "no flush runs");
        let flush = admission.begin(1_000, 800);
        assert!(admission.take(199, false), "a quarter has no pace");
        assert!(admission.take(41, false), "the size of a push does not count");
        admission.wrote(100);
        assert!(!admission.take(1, false), "240 are 200 and a tenth of 400");
        admission.wrote(100);
        assert!(admission.take(40, false));
        assert!(!admission.take(1, false), "280 are taken");
        assert!(admission.take(310, true), "it has waited");
        admission.wrote(700);
        assert!(!admission.take(1, false), "590 are 200 and nine tenths of 400, and 30 more");
        admission.wrote(u64::MAX);
        assert!(admission.take(210, false), "all rows are written");
        assert!(!admission.take(1, false), "all free memory is taken");
        drop(flush);
        assert!(admission.take(1, false));
        admission.wrote(1);
        let _flush = admission.begin(0, 0);
        assert!(!admission.take(1, false), "nothing was free");
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_waits_for_progress_and_for_a_bounded_time() {
        let (env, admission) = (Env::simulated(1, 0), std::sync::Arc::new(Admission::default()));
        let _flush = admission.begin(1_000, 800);
        admission.admit(&env, 200).await;
        let began = env.monotonic();
        admission.admit(&env, 100).await;
        assert_eq!(env.monotonic() - began, WAIT_MAX, "the flush stands still");
        let (of_env, waiting) = (env.clone(), std::sync::Arc::clone(&admission));
        let push = env.spawn("push", async move {
            waiting.admit(&of_env, 1).await;
            of_env.monotonic()
        });
        env.sleep(WAIT_MAX / 2).await;
        let began = env.monotonic();
        admission.wrote(500);
        assert_eq!(push.join().await.unwrap(), began, "it was admitted at once");
    }
}
