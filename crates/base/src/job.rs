//! The job that a thread works on, as code deep inside of it sees it: whether it is to go on, and the memory
//! that it may take.
//!
//! Code that loops over data tells with [`spend`] how much work it does, in units of about a nanosecond or a
//! byte that is looked at. Most calls subtract a number; once in [`UNITS`] units the job's [`Owner`] is
//! asked, which looks at the clock and at whether a caller still waits. **Invariants:** between two calls lie
//! at most some milliseconds, whatever the input is, and at most [`UNITS`] bytes that were allocated on an
//! [`account`](crate::account): a byte is a unit, too. A job that is stopped stays stopped: every later call
//! fails at once, so that code that cannot hand the failure on may give any answer, and who runs the job
//! discards it.
//!
//! Outside of a job, and in one without an owner, work goes on to its end and takes the memory it wants.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

use crate::budget::{MemoryBudget, OverBudget, Reservation};

/// Units of work between two questions to the owner: 0.3 ms of scanning.
pub const UNITS: u64 = 1 << 18;

/// Whose work a job does.
pub trait Owner: Send + Sync {
    /// Whether the job is to go on; keeps the reason when not.
    fn goes_on(&self) -> bool;
    /// The memory that the job may take.
    fn budget(&self) -> &MemoryBudget;
    /// Keeps the reason why the job ends: its memory does not suffice.
    fn refused(&self, refusal: OverBudget);
}

/// An owner whose job ends when its budget is exhausted, and for no other reason.
pub struct Bounded {
    budget: MemoryBudget,
    refusal: Mutex<Option<OverBudget>>,
}

impl Bounded {
    /// The owner of a job that may take the memory of this budget.
    pub fn new(budget: MemoryBudget) -> Arc<Self> {
        Arc::new(Self { budget, refusal: Mutex::default() })
    }

    /// The latest refusal of the budget.
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

/// The job is to end; who runs it knows why.
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
    /// Units until the owner is asked again. Without a destructor, so that the allocator may use it at any
    /// time.
    static LEFT: Cell<u64> = const { Cell::new(UNITS) };
}

/// Puts the job around this one back, also when it panics.
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

/// Runs a job on this thread in the name of its owner, who is asked before it begins.
pub fn run<T>(owner: Arc<dyn Owner>, job: impl FnOnce() -> T) -> Result<T, Stopped> {
    let _around = CURRENT.with(|current| {
        let before = current.owner.borrow_mut().replace(owner);
        Around(before, LEFT.replace(UNITS), current.stopped.replace(false))
    });
    look()?;
    let outcome = job();
    if is_stopped() { Err(Stopped) } else { Ok(outcome) }
}

/// Notes work that was done or begins now; fails when the job is to end.
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

/// Notes bytes that the allocator gave to the work of this thread: when they are many, the next [`spend`]
/// asks.
pub(crate) fn allocated(bytes: u64) {
    // A thread that ends has no locals any more.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(bytes)));
}

/// Asks whether the job is to end, whatever was spent.
pub fn look() -> Result<(), Stopped> {
    CURRENT.with(ask)
}

#[cold]
fn ask(current: &Current) -> Result<(), Stopped> {
    // What runs while the owner is asked is not of the job.
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

/// From here on every call fails.
fn stop() {
    CURRENT.with(|current| {
        current.stopped.set(true);
        LEFT.set(0);
    });
}

/// Memory of the job's owner: `wanted` bytes, or `least` when there are no more; `None` when no owner counts
/// it.
fn reserve(wanted: u64, least: u64) -> Result<Option<Reservation>, Stopped> {
    if is_stopped() {
        return Err(Stopped);
    }
    let owner = CURRENT.with(|current| current.owner.borrow().clone());
    let Some(owner) = owner else { return Ok(None) };
    let budget = owner.budget();
    let taken = budget.reserve(wanted).or_else(|_| budget.reserve(least));
    taken.map(Some).map_err(|refusal| {
        owner.refused(refusal);
        stop();
        Stopped
    })
}

/// So many bytes of the job's owner for what the job makes; `None` when no owner counts them. Fails, and ends
/// the job, when they are not to be had.
pub fn reserve_exactly(bytes: u64) -> Result<Option<Reservation>, Stopped> {
    reserve(bytes, bytes)
}

/// Memory that grows with what one part of a job keeps.
#[derive(Debug, Default)]
pub struct Held {
    bytes: u64,
    parts: Vec<Reservation>,
}

/// Less than this is not asked for at a time.
const STEP_BYTES: u64 = 16 << 10;

impl Held {
    /// Makes sure that so many bytes are reserved; fails, and ends the job, when they are not to be had.
    /// What was reserved stays so until the drop.
    #[inline]
    pub fn at_least(&mut self, bytes: u64) -> Result<(), Stopped> {
        if bytes <= self.bytes { Ok(()) } else { self.grow(bytes) }
    }

    #[cold]
    fn grow(&mut self, bytes: u64) -> Result<(), Stopped> {
        let missing = bytes - self.bytes;
        // Half as much again, so that the calls for more are few.
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

    /// Gives back what is held beyond so many bytes.
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

    /// Bytes that are held, whether they are counted or not.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that an owner was charged with.
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
    fn the_owner_is_asked_as_rarely_as_the_units_say_and_a_stopped_job_stays_stopped() {
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
    fn jobs_within_each_other_and_panics_leave_the_outer_one_as_it_was() {
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
    fn memory_is_held_before_it_is_used_and_given_back() {
        let owner = patient(u64::MAX);
        let outcome = run(owner.clone(), || {
            let mut held = Held::default();
            for bytes in (0..90_000).step_by(1_000) {
                held.at_least(bytes).unwrap();
                assert!(owner.budget.used() >= bytes);
            }
            drop(held);
            let exact = reserve_exactly(70_001).unwrap();
            assert_eq!((exact.map(|part| part.bytes()), owner.budget.used()), (Some(70_001), 0));
            let mut held = Held::default();
            assert_eq!(held.at_least(200_000), Err(Stopped));
            assert!(reserve_exactly(1).is_err());
        });
        assert_eq!((outcome, owner.budget.used()), (Err(Stopped), 0));
        let mut unowned = Held::default();
        assert!(unowned.at_least(1 << 40).is_ok(), "nobody counts it");
    }
}
