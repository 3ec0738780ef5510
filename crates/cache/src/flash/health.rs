//! How well the device does, and what is asked of it meanwhile.
//!
//! Three failed writes in a row end writing until a probe succeeds; reads that fail or hang in a row
//! end reading too, so that a vanished device costs a caller nothing. A failed device is probed with
//! growing pauses and taken back by itself.
//!
//! Invariant: a state only changes through an observation of the device.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Failed writes in a row until writing ends.
const WRITE_FAILURES_MAX: u32 = 3;
/// Failed reads in a row until reading ends.
const READ_FAILURES_MAX: u32 = 16;
/// Reads in a row without an answer until reading ends.
const LATE_MAX: u32 = 4;
/// The pause before the first probe; later ones double.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(30);

/// The state of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It reads and writes.
    Ok,
    /// It let a read wait for longer than the deadline.
    Slow,
    /// It reads, but writes failed.
    Degraded,
    /// Neither: the cache works without it.
    Failed,
}

impl Health {
    /// The name that statistics use.
    pub fn name(self) -> &'static str {
        match self {
            Health::Ok => "ok",
            Health::Slow => "slow",
            Health::Degraded => "degraded",
            Health::Failed => "failed",
        }
    }
}

/// What was seen of the device lately.
pub(super) struct Watch {
    state: AtomicU8,
    read_failures: AtomicU32,
    late: AtomicU32,
    writes: Mutex<Writes>,
}

#[derive(Default)]
struct Writes {
    failures: u32,
    probe_at: Duration,
    pause: Duration,
}

impl Watch {
    pub fn new() -> Self {
        let (read_failures, late) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { state: AtomicU8::new(0), read_failures, late, writes: Mutex::default() }
    }

    pub fn health(&self) -> Health {
        match self.state.load(Ordering::Relaxed) {
            0 => Health::Ok,
            1 => Health::Slow,
            2 => Health::Degraded,
            _ => Health::Failed,
        }
    }

    pub fn may_read(&self) -> bool {
        self.health() != Health::Failed
    }

    pub fn may_write(&self) -> bool {
        self.health() <= Health::Slow
    }

    pub fn read_succeeded(&self) {
        // Two loads of lines that nobody writes to while all is well.
        if self.read_failures.load(Ordering::Relaxed) + self.late.load(Ordering::Relaxed) > 0 {
            self.read_failures.store(0, Ordering::Relaxed);
            self.late.store(0, Ordering::Relaxed);
            let _ = self.state.compare_exchange(1, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    pub fn read_failed(&self, now: Duration) {
        if self.read_failures.fetch_add(1, Ordering::Relaxed) + 1 >= READ_FAILURES_MAX {
            self.worsen(Health::Failed, now);
        }
    }

    pub fn reads_late(&self, count: u32, now: Duration) {
        let so_far = self.late.fetch_add(count, Ordering::Relaxed) + count;
        self.worsen(if so_far >= LATE_MAX { Health::Failed } else { Health::Slow }, now);
    }

    pub fn write_succeeded(&self) {
        self.lock().failures = 0;
    }

    pub fn write_failed(&self, now: Duration) {
        let mut writes = self.lock();
        writes.failures += 1;
        let is_bad = writes.failures >= WRITE_FAILURES_MAX;
        drop(writes);
        if is_bad {
            self.worsen(Health::Degraded, now);
        }
    }

    fn worsen(&self, to: Health, now: Duration) {
        let before = self.state.fetch_max(to as u8, Ordering::Relaxed);
        if before < to as u8 {
            tracing::warn!(state = to.name(), "the flash device changed its state");
        }
        if before < Health::Degraded as u8 && to >= Health::Degraded {
            let mut writes = self.lock();
            (writes.pause, writes.probe_at) = (PROBE_PAUSE, now + PROBE_PAUSE);
        }
    }

    /// Whether it is time to see whether the device is back.
    pub fn wants_probe(&self, now: Duration) -> bool {
        self.health() >= Health::Degraded && now >= self.lock().probe_at
    }

    /// What the probe showed. Whether the device is taken back.
    pub fn probed(&self, succeeded: bool, now: Duration) -> bool {
        let mut writes = self.lock();
        if !succeeded {
            writes.pause = (writes.pause * 2).min(PROBE_PAUSE_MAX);
            writes.probe_at = now + writes.pause;
            return false;
        }
        writes.failures = 0;
        drop(writes);
        self.read_failures.store(0, Ordering::Relaxed);
        self.late.store(0, Ordering::Relaxed);
        self.state.store(Health::Ok as u8, Ordering::Relaxed);
        tracing::info!("the flash device is in use again");
        true
    }

    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn writes_end_after_three_failures_and_return_after_a_probe() {
        let watch = Watch::new();
        watch.write_failed(SECOND);
        watch.write_failed(SECOND);
        watch.write_succeeded();
        watch.write_failed(SECOND);
        assert_eq!(watch.health(), Health::Ok);
        watch.write_failed(SECOND);
        watch.write_failed(SECOND);
        assert!(!watch.may_write() && watch.may_read());
        assert!(!watch.wants_probe(SECOND) && watch.wants_probe(SECOND * 2));
        assert!(!watch.probed(false, SECOND * 2));
        assert!(!watch.wants_probe(SECOND * 3) && watch.wants_probe(SECOND * 4));
        assert!(watch.probed(true, SECOND * 4));
        assert_eq!(watch.health(), Health::Ok);
    }

    #[test]
    fn a_device_that_does_not_answer_is_left_alone() {
        let watch = Watch::new();
        watch.reads_late(1, SECOND);
        assert_eq!(watch.health(), Health::Slow);
        watch.read_succeeded();
        assert_eq!(watch.health(), Health::Ok);
        watch.reads_late(4, SECOND);
        assert!(!watch.may_read());
        watch.read_succeeded();
        assert!(!watch.may_read(), "only a probe brings it back");
    }
}
