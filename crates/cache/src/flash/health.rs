//! Health of the device: whether it is read and written after failures and slow answers.
//!
//! Three failed writes or syncs in a row, or one that hangs, stop writing until a probe succeeds. A row of
//! reads that fail or hang, or one that hangs while no other read is answered, stops reading too, so that a
//! vanished device costs a caller no time. A device that needs longer than 50 ms for most reads is slow;
//! after five minutes of that it gets no more writes. A failed device is probed with growing pauses and used
//! again after a successful probe. One that fails again soon after that is probed less often.
//!
//! Invariant: only observations of the device change a state.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandur_runtime::{Backoff, Pauses};

use super::options::WRITE_DEADLINES;

/// Failed writes or failed syncs in a row after which writing stops.
const WRITE_FAILURES_MAX: u32 = 3;
/// Failed reads in a row after which reading stops.
const READ_FAILURES_MAX: u32 = 16;
/// Hanging reads in a row after which reading stops.
const LATE_MAX: u32 = 4;
/// A read that takes longer is slow.
const SLOW_READ: Duration = Duration::from_millis(50);
/// The period over which slow and other reads are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// A device that was slow for this long gets no writes.
const SLOW_MAX: Duration = Duration::from_secs(300);
/// Pauses before probes.
const PROBES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// A device that fails again within this time after a successful probe has relapsed.
const RELAPSE: Duration = Duration::from_secs(60);

/// The state of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// It is read and written.
    Ok,
    /// A read exceeded its deadline, or most reads took longer than 50 ms.
    Slow,
    /// It is read but not written: writes failed or hung, or it was slow for five minutes.
    Degraded,
    /// It is neither read nor written: the cache works without it.
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

/// The watchdog's observations of the device.
pub(super) struct Watch {
    state: AtomicU8,
    read_failures: AtomicU32,
    late: AtomicU32,
    /// Whether a read was answered since the last tick.
    answered: AtomicBool,
    /// Ticks in a row without an answer.
    quiet_ticks: AtomicU32,
    /// Number of reads of this period in the lower half, of slow ones in the upper half.
    reads: AtomicU64,
    /// Whether most reads of the last period were slow.
    is_slow: AtomicBool,
    window: Mutex<Window>,
    writes: Mutex<Writes>,
    /// Ticks so far.
    ticks: AtomicU32,
    under_way: Mutex<UnderWay>,
    /// Whether a write has exceeded its deadline and not returned yet.
    is_hanging: AtomicBool,
}

/// Writes and syncs that have not returned yet, oldest first.
#[derive(Default)]
struct UnderWay {
    next: u64,
    /// Their numbers, and the ticks at which they began.
    since: Vec<(u64, u32)>,
}

/// Registers a write or a sync until it is dropped.
pub(super) struct Waited<'a> {
    watch: &'a Watch,
    number: u64,
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        self.watch.lock_under_way().since.retain(|&(number, _)| number != self.number);
    }
}

#[derive(Default)]
struct Window {
    ends_at: Duration,
    slow_since: Option<Duration>,
}

struct Writes {
    failures: u32,
    sync_failures: u32,
    probe_at: Duration,
    /// The pauses before probes, which grow with each failed one.
    pauses: Pauses,
    /// When a probe last succeeded.
    taken_back_at: Option<Duration>,
}

impl Default for Writes {
    fn default() -> Self {
        let (probe_at, pauses, taken_back_at) = (Duration::ZERO, PROBES.pauses(), None);
        Self { failures: 0, sync_failures: 0, probe_at, pauses, taken_back_at }
    }
}

impl Watch {
    pub fn new() -> Self {
        Self {
            state: AtomicU8::new(0),
            read_failures: AtomicU32::new(0),
            late: AtomicU32::new(0),
            answered: AtomicBool::new(false),
            quiet_ticks: AtomicU32::new(0),
            reads: AtomicU64::new(0),
            is_slow: AtomicBool::new(false),
            window: Mutex::default(),
            writes: Mutex::default(),
            ticks: AtomicU32::new(0),
            under_way: Mutex::default(),
            is_hanging: AtomicBool::new(false),
        }
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

    /// A read was answered after `took`.
    pub fn read_succeeded(&self, took: Duration) {
        self.reads.fetch_add(if took > SLOW_READ { 1 << 32 | 1 } else { 1 }, Ordering::Relaxed);
        if !self.answered.load(Ordering::Relaxed) {
            self.answered.store(true, Ordering::Relaxed);
        }
        if self.read_failures.load(Ordering::Relaxed) + self.late.load(Ordering::Relaxed) > 0 {
            self.read_failures.store(0, Ordering::Relaxed);
            self.late.store(0, Ordering::Relaxed);
            self.end_slow();
        }
    }

    fn end_slow(&self) {
        if !self.is_slow.load(Ordering::Relaxed) {
            let _ = self.state.compare_exchange(1, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// A write or a sync begins. It ends when the returned guard is dropped.
    pub fn write_begins(&self) -> Waited<'_> {
        let mut under_way = self.lock_under_way();
        let number = under_way.next;
        under_way.next += 1;
        under_way.since.push((number, self.ticks.load(Ordering::Relaxed)));
        Waited { watch: self, number }
    }

    /// One tick of the watchdog. The deadline of reads is `patience` ticks.
    pub fn tick(&self, patience: u32, now: Duration) {
        self.look_at_writes(patience, now);
        self.look_at_reads(now);
    }

    fn look_at_writes(&self, patience: u32, now: Duration) {
        let tick = self.ticks.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let oldest = self.lock_under_way().since.first().map_or(0, |(_, since)| tick.wrapping_sub(*since));
        let is_hanging = oldest >= patience.saturating_mul(WRITE_DEADLINES);
        self.is_hanging.store(is_hanging, Ordering::Relaxed);
        if is_hanging {
            self.worsen(Health::Degraded, now);
        }
    }

    fn look_at_reads(&self, now: Duration) {
        if self.answered.swap(false, Ordering::Relaxed) {
            self.quiet_ticks.store(0, Ordering::Relaxed);
        } else {
            self.quiet_ticks.fetch_add(1, Ordering::Relaxed);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now < window.ends_at {
            return;
        }
        let reads = self.reads.swap(0, Ordering::Relaxed);
        let (slow, all) = (reads >> 32, reads & u64::from(u32::MAX));
        let is_slow = slow * 2 > all;
        let began = window.ends_at.saturating_sub(WINDOW);
        window.ends_at = now + WINDOW;
        window.slow_since = if is_slow { window.slow_since.or(Some(began)) } else { None };
        let is_long = window.slow_since.is_some_and(|since| now - since >= SLOW_MAX);
        drop(window);
        self.is_slow.store(is_slow, Ordering::Relaxed);
        if is_slow {
            self.worsen(if is_long { Health::Degraded } else { Health::Slow }, now);
        } else {
            self.end_slow();
        }
    }

    pub fn read_failed(&self, now: Duration) {
        if self.read_failures.fetch_add(1, Ordering::Relaxed) + 1 >= READ_FAILURES_MAX {
            self.worsen(Health::Failed, now);
        }
    }

    /// `count` reads have not been answered for `patience` ticks, the last of which is this one.
    pub fn reads_late(&self, count: u32, patience: u32, now: Duration) {
        let so_far = self.late.fetch_add(count, Ordering::Relaxed) + count;
        // The tick in which the reads started does not count: another read may have been answered
        // earlier in it.
        let is_silent = self.quiet_ticks.load(Ordering::Relaxed) + 1 >= patience;
        self.worsen(if is_silent || so_far >= LATE_MAX { Health::Failed } else { Health::Slow }, now);
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

    pub fn sync_succeeded(&self) {
        self.lock().sync_failures = 0;
    }

    /// Counted separately from writes: a device may accept every write and store none.
    pub fn sync_failed(&self, now: Duration) {
        let mut writes = self.lock();
        writes.sync_failures += 1;
        let is_bad = writes.sync_failures >= WRITE_FAILURES_MAX;
        drop(writes);
        if is_bad {
            self.worsen(Health::Degraded, now);
        }
    }

    fn worsen(&self, to: Health, now: Duration) {
        let before = self.state.fetch_max(to as u8, Ordering::Relaxed);
        if before < to as u8 {
            tracing::warn!(state = to.name(), "the health of the flash device has become worse");
        }
        if before < Health::Degraded as u8 && to >= Health::Degraded {
            let mut writes = self.lock();
            let is_relapse = writes.taken_back_at.is_some_and(|at| now.saturating_sub(at) < RELAPSE);
            if !is_relapse {
                writes.pauses.reset();
            }
            writes.probe_at = now + writes.pauses.after_failure();
        }
    }

    /// Whether a probe is due.
    pub fn wants_probe(&self, now: Duration) -> bool {
        let is_busy = self.is_slow.load(Ordering::Relaxed) || self.is_hanging.load(Ordering::Relaxed);
        !is_busy && self.health() >= Health::Degraded && now >= self.lock().probe_at
    }

    /// Whether a write or a sync has not returned yet.
    pub fn is_under_way(&self) -> bool {
        !self.lock_under_way().since.is_empty()
    }

    /// Notes the result of a probe. Returns whether the device is used again.
    pub fn probed(&self, succeeded: bool, now: Duration) -> bool {
        let mut writes = self.lock();
        if !succeeded {
            writes.probe_at = now + writes.pauses.after_failure();
            return false;
        }
        (writes.failures, writes.sync_failures) = (0, 0);
        writes.taken_back_at = Some(now);
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

    fn lock_under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_device_that_does_not_answer_is_not_read() {
        let watch = Watch::new();
        let short = Duration::from_millis(1);
        watch.reads_late(1, 10, SECOND);
        assert_eq!(watch.health(), Health::Slow);
        watch.read_succeeded(short);
        assert_eq!(watch.health(), Health::Ok);
        watch.reads_late(4, 10, SECOND);
        assert!(!watch.may_read());
        watch.read_succeeded(short);
        assert!(!watch.may_read(), "only a probe ends the state");
    }

    #[test]
    fn one_hanging_read_fails_a_device_that_answers_no_other_read() {
        let watch = Watch::new();
        let ticks = |count: u32| (0..count).for_each(|_| watch.tick(10, SECOND));
        ticks(9);
        watch.read_succeeded(Duration::from_millis(1));
        ticks(2);
        watch.reads_late(1, 10, SECOND);
        assert_eq!(watch.health(), Health::Slow, "another read was answered meanwhile");
        ticks(10);
        watch.reads_late(1, 10, SECOND);
        assert_eq!(watch.health(), Health::Failed);
    }

    #[test]
    fn an_answer_in_the_first_tick_of_a_read_does_not_extend_its_deadline() {
        let watch = Watch::new();
        watch.read_succeeded(Duration::from_millis(1));
        // The read starts in the tick in which another one was answered, and has ten ticks.
        (0..10).for_each(|_| watch.tick(10, SECOND));
        watch.reads_late(1, 10, SECOND);
        assert_eq!(watch.health(), Health::Failed);
    }

    #[test]
    fn a_hanging_write_stops_writing_and_no_probe_is_made_before_it_returns() {
        let watch = Watch::new();
        let ticks = |count: u32| (0..count).for_each(|_| watch.tick(10, SECOND));
        let (hanging, other) = (watch.write_begins(), watch.write_begins());
        ticks(40);
        drop(other);
        let later = watch.write_begins();
        ticks(9);
        assert_eq!(watch.health(), Health::Ok);
        ticks(1);
        assert!(!watch.may_write() && watch.may_read());
        assert!(!watch.wants_probe(SECOND * 100));
        drop(hanging);
        ticks(1);
        assert!(watch.wants_probe(SECOND * 100), "the write under way began ten ticks ago");
        drop(later);
    }

    #[test]
    fn successful_writes_do_not_reset_the_count_of_failed_syncs() {
        let watch = Watch::new();
        for _ in 0..3 {
            assert!(watch.may_write());
            watch.write_succeeded();
            watch.sync_failed(SECOND);
        }
        assert!(!watch.may_write());
    }

    #[test]
    fn a_relapsing_device_is_probed_less_often_until_it_stays_healthy() {
        let watch = Watch::new();
        let fail = |at| (0..3).for_each(|_| watch.write_failed(at));
        let mut at = SECOND;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            fail(at);
            assert!(!watch.wants_probe(at + SECOND * (pause - 1)), "{pause} s");
            at += SECOND * pause;
            assert!(watch.wants_probe(at) && watch.probed(true, at), "{pause} s");
        }
        at += SECOND * 60;
        fail(at);
        assert!(watch.wants_probe(at + SECOND));
    }
}
