//! The job that runs on the current thread, as code deep inside it sees it: whether to continue, and how
//! much memory it may use.
//!
//! A loop over data reports its work with [`spend`], in units of about one nanosecond or one byte
//! examined. Most calls only subtract a number; once in [`UNITS`] units the job asks its [`Owner`],
//! which checks the deadline and whether the client still waits.
//!
//! **Invariants.** Between two calls of [`spend`] pass at most a few milliseconds, whatever the input
//! is. At most [`UNITS`] bytes are allocated between two questions, because a byte that is allocated on
//! an [`account`](crate::account) counts as a unit too. A stopped job stays stopped: every later call
//! fails immediately, so code that cannot return the failure may return any result, and the caller of
//! the job discards it.
//!
//! Outside of a job, and in a job without an owner, work is never stopped and memory is not limited.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

use crate::budget::{MemoryBudget, OverBudget, Reservation};
use crate::units_left::LEFT;
pub use crate::units_left::UNITS;

/// Decides whether a job continues, and provides its memory.
pub trait Owner: Send + Sync {
    /// Whether the job may continue; the owner remembers the reason if not.
    fn goes_on(&self) -> bool;
    /// The budget of the job.
    fn budget(&self) -> &MemoryBudget;
    /// Remembers that the job ends because its budget refused memory.
    fn refused(&self, refusal: OverBudget);
}

/// An owner that stops its job only when its budget is exhausted.
pub struct Bounded {
    budget: MemoryBudget,
    refusal: Mutex<Option<OverBudget>>,
}

impl Bounded {
    /// The owner of a job that uses `budget`.
    pub fn new(budget: MemoryBudget) -> Arc<Self> {
        Arc::new(Self { budget, refusal: Mutex::default() })
    }

    /// The last refusal of the budget.
    pub fn refusal(&self) -> Option<OverBudget> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Owner for Bounded {
    fn goes_on(&self) -> bool {
        true
    }

    fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    fn refused(&self, refusal: OverBudget) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
    }
}

/// The job must end; its owner knows the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the work was stopped")]
pub struct Stopped;

struct Current {
    stopped: Cell<bool>,
    owner: RefCell<Option<Arc<dyn Owner>>>,
}

thread_local! {
    static CURRENT: Current = const {
        Current { stopped: Cell::new(false), owner: RefCell::new(None) }
    };
}

/// Restores the state of the enclosing job when the inner one ends or panics.
struct Around(Option<Arc<dyn Owner>>, u64, bool);

impl Drop for Around {
    fn drop(&mut self) {
        CURRENT.with(|current| {
            *current.owner.borrow_mut() = self.0.take();
            LEFT.set(self.1);
            current.stopped.set(self.2);
        });
    }
}

/// Runs a job on this thread for `owner`, which is asked before the job begins.
pub fn run<T>(owner: Arc<dyn Owner>, job: impl FnOnce() -> T) -> Result<T, Stopped> {
    let _around = CURRENT.with(|current| {
        let before = current.owner.borrow_mut().replace(owner);
        Around(before, LEFT.replace(UNITS), current.stopped.replace(false))
    });
    look()?;
    let outcome = job();
    if is_stopped() { Err(Stopped) } else { Ok(outcome) }
}

/// Reports work that was done or is about to begin; fails when the job must end.
#[inline]
pub fn spend(units: usize) -> Result<(), Stopped> {
    match LEFT.get().checked_sub(units as u64) {
        Some(rest) => {
            LEFT.set(rest);
            Ok(())
        }
        None => CURRENT.with(ask),
    }
}

/// Asks the owner whether the job may continue, regardless of the work reported.
pub fn look() -> Result<(), Stopped> {
    CURRENT.with(ask)
}

#[cold]
fn ask(current: &Current) -> Result<(), Stopped> {
    // Clones the owner, so that its call runs without the borrow of the job's state.
    let owner = current.owner.borrow().clone();
    if !current.stopped.get() && owner.is_none_or(|owner| owner.goes_on()) {
        LEFT.set(UNITS);
        return Ok(());
    }
    stop();
    Err(Stopped)
}

/// Whether the job was stopped.
pub fn is_stopped() -> bool {
    CURRENT.with(|current| current.stopped.get())
}

/// Makes every later call fail.
fn stop() {
    CURRENT.with(|current| {
        current.stopped.set(true);
        LEFT.set(0);
    });
}

/// The owner of the running job, if it has one. Fails if the job was stopped.
fn owner() -> Result<Option<Arc<dyn Owner>>, Stopped> {
    match is_stopped() {
        true => Err(Stopped),
        false => Ok(CURRENT.with(|current| current.owner.borrow().clone())),
    }
}

/// Reserves `wanted` bytes in the owner's budget, or `least` if there are not that many; `None` without
/// an owner.
fn reserve(wanted: u64, least: u64) -> Result<Option<Reservation>, Stopped> {
    let Some(owner) = owner()? else { return Ok(None) };
    let budget = owner.budget();
    let taken = budget.reserve(wanted).or_else(|_| budget.reserve(least));
    taken.map(Some).map_err(|refusal| {
        owner.refused(refusal);
        stop();
        Stopped
    })
}

/// Reserves `bytes` in the owner's budget; `None` without an owner. Fails, and stops the job, when the
/// budget refuses.
pub fn reserve_exactly(bytes: u64) -> Result<Option<Reservation>, Stopped> {
    reserve(bytes, bytes)
}

/// Memory that grows with the data that one part of a job keeps.
#[derive(Debug, Default)]
pub struct JobMemory {
    bytes: u64,
    parts: Vec<Reservation>,
}

/// Memory without which a job is only slower leaves this fraction of the budget available.
const OPTIONAL_LEAVES_ONE_IN: u64 = 4;
/// The smallest reservation, in bytes.
const STEP_BYTES: u64 = 16 << 10;

impl JobMemory {
    /// Ensures that at least `bytes` are reserved; fails, and stops the job, when the budget refuses.
    /// Reservations last until [`JobMemory::shrink_to`] or the drop.
    #[inline]
    pub fn at_least(&mut self, bytes: u64) -> Result<(), Stopped> {
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes) }
    }

    /// Reserves at least `bytes` if a quarter of the budget stays available, and returns whether it did:
    /// for memory without which the job is only slower. Fails if the job was stopped.
    pub fn has_room_for(&mut self, bytes: u64) -> Result<bool, Stopped> {
        let missing = bytes.saturating_sub(self.bytes);
        if missing == 0 {
            return Ok(true);
        }
        if let Some(owner) = owner()? {
            let budget = owner.budget();
            let rest = budget.available().checked_sub(missing);
            if rest.is_none_or(|rest| rest < budget.capacity() / OPTIONAL_LEAVES_ONE_IN) {
                return Ok(false);
            }
            let Ok(part) = budget.reserve(missing) else { return Ok(false) };
            self.parts.push(part);
        }
        self.bytes += missing;
        Ok(true)
    }

    #[cold]
    fn grow(&mut self, bytes: u64) -> Result<(), Stopped> {
        let missing = bytes - self.bytes;
        // Grows by at least half, so that reservations are rare.
        let wanted = missing.max(self.bytes / 2).max(STEP_BYTES);
        match reserve(wanted, missing)? {
            Some(part) => {
                self.bytes += part.bytes();
                self.parts.push(part);
            }
            None => self.bytes += wanted,
        }
        Ok(())
    }

    /// Releases what is held beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        while self.bytes > bytes
            && let Some(last) = self.parts.last_mut()
        {
            let less = last.bytes().min(self.bytes - bytes);
            last.shrink(less);
            self.bytes -= less;
            self.parts.pop_if(|last| last.bytes() == 0);
        }
        self.bytes = self.bytes.min(bytes);
    }

    /// Bytes held, including bytes that no owner was charged for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes charged to an owner.
    pub fn reserved_bytes(&self) -> u64 {
        self.parts.iter().map(Reservation::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Patient {
        questions: AtomicU64,
        most: u64,
        budget: MemoryBudget,
    }

    impl Owner for Patient {
        fn goes_on(&self) -> bool {
            self.questions.fetch_add(1, Ordering::Relaxed) < self.most
        }
        fn budget(&self) -> &MemoryBudget {
            &self.budget
        }
        fn refused(&self, refusal: OverBudget) {
            assert!(refusal.to_string().contains("'q'"));
        }
    }

    fn patient(most: u64) -> Arc<Patient> {
        Arc::new(Patient { questions: AtomicU64::new(0), most, budget: MemoryBudget::root("q", 100_000) })
    }

    #[test]
    fn memory_that_only_helps_leaves_a_quarter_of_the_budget() {
        let outcome = run(patient(1_000), || {
            let mut memory = JobMemory::default();
            assert_eq!(memory.has_room_for(75_000), Ok(true));
            assert_eq!(memory.has_room_for(75_001), Ok(false));
            assert_eq!((memory.bytes(), memory.reserved_bytes()), (75_000, 75_000));
            memory.at_least(90_000)
        });
        assert_eq!(outcome, Ok(Ok(())), "a refusal does not stop the job");
        let mut memory = JobMemory::default();
        assert_eq!((memory.has_room_for(1 << 40), memory.bytes()), (Ok(true), 1 << 40), "without an owner");
    }

    #[test]
    fn the_owner_is_asked_once_in_units_and_a_stopped_job_stays_stopped() {
        let owner = patient(11);
        let mut spent = 0;
        let outcome = run(owner.clone(), || {
            while spend(100).is_ok() {
                spent += 100;
            }
            assert!(is_stopped() && spend(1).is_err() && reserve(1, 1).is_err());
        });
        assert_eq!((outcome, owner.questions.load(Ordering::Relaxed)), (Err(Stopped), 12));
        assert!(spent <= 12 * UNITS && spent > 10 * UNITS, "{spent}");
        assert!(!is_stopped() && spend(usize::MAX).is_ok(), "outside of the job");
        assert_eq!(run(patient(0), || panic!("it does not begin")), Err(Stopped));
    }

    #[test]
    fn nested_jobs_and_panics_leave_the_outer_job_unchanged() {
        let outer = patient(1);
        let outcome = run(outer, || {
            assert_eq!(run(patient(0), || ()), Err(Stopped));
            let caught = std::panic::catch_unwind(|| run(patient(1), || panic!("boom")));
            assert!(caught.is_err());
            assert!(!is_stopped() && spend(1).is_ok());
        });
        assert_eq!(outcome, Ok(()));
    }

    #[test]
    fn memory_is_reserved_before_use_and_released() {
        let owner = patient(u64::MAX);
        let outcome = run(owner.clone(), || {
            let mut held = JobMemory::default();
            for bytes in (0..90_000).step_by(1_000) {
                held.at_least(bytes).unwrap();
                assert!(owner.budget.used() >= bytes);
            }
            drop(held);
            let exact = reserve_exactly(70_001).unwrap();
            assert_eq!((exact.map(|part| part.bytes()), owner.budget.used()), (Some(70_001), 0));
            let mut held = JobMemory::default();
            assert_eq!(held.at_least(200_000), Err(Stopped));
            assert!(reserve_exactly(1).is_err());
        });
        assert_eq!((outcome, owner.budget.used()), (Err(Stopped), 0));
        let mut unowned = JobMemory::default();
        assert!(unowned.at_least(1 << 40).is_ok(), "no owner limits it");
    }
}
