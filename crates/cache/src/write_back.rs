//! The write-back queue: values that wait for room in the write buffers of flash.
//!
//! When values arrive faster than the device writes them, or one is larger than the buffers, they wait
//! in this queue instead of being dropped at once. The queue is bounded in bytes, and a value waits no
//! longer than a write of the device may take. Lookups find the values meanwhile. A thread writes them
//! one after the other as buffers become free, and large values piece by piece; no caller ever blocks
//! here. From half of the bound on, a caller that can slow down, such as a server for its clients, gets
//! [`Backpressure`].
//!
//! Invariants: a queued value is the newest version of its key, and the index of flash has no other one.
//! A caller that changes a key first removes it from the queue, under the lock of the key's shard. The
//! last step of a write, after which flash finds the value, and the removal from the queue are atomic
//! for all other threads.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sandur_memory::{MemoryBudget, Reservation};
use sandur_runtime::Env;

use crate::flash::{Class, Dropped, Flash, LargeAppend, NewRecord};
use crate::ram::record::Record;

/// How long to wait for a write buffer before the next attempt.
pub(crate) const BUFFER_PAUSE: Duration = Duration::from_millis(2);
/// How long the thread sleeps while nothing is queued.
const IDLE: Duration = Duration::from_secs(1);

/// Longest wait of a caller that backpressure slows down.
const SLOWEST: Duration = Duration::from_millis(50);

pub(crate) struct WriteBackQueue {
    env: Env,
    /// A value that has found no room for this long is dropped and counted.
    patience: Duration,
    waiting: Mutex<Waiting>,
    slowed: Mutex<Slowed>,
    arrived: Condvar,
    /// Number of queued values. It is mostly 0, which a lookup sees without a lock.
    count: AtomicUsize,
    bytes: AtomicU64,
    memory: MemoryBudget,
}

#[derive(Debug)]
struct Waiting {
    queued: HashMap<u64, Queued>,
    /// Hashes and numbers of queued values, oldest first; also of values that were removed since.
    order: VecDeque<(u64, u64)>,
    next_number: u64,
    /// The memory of the queued values.
    reserved: Reservation,
    closed: bool,
}

#[derive(Clone, Debug)]
struct Queued {
    number: u64,
    record: Record,
    class: Class,
    since: Duration,
}

impl Waiting {
    fn holds(&self, hash: u64, number: u64) -> bool {
        !self.closed && self.queued.get(&hash).is_some_and(|entry| entry.number == number)
    }
}

/// Callers that wait until the queue is less than half full, by the time at which their wait ends at the
/// latest.
#[derive(Debug, Default)]
struct Slowed {
    wakers: BTreeMap<(Duration, u64), Waker>,
    next_number: u64,
}

/// Ends when the write-back queue is less than half full, or after [`SLOWEST`].
#[derive(Debug)]
pub struct Backpressure {
    write_back: Arc<WriteBackQueue>,
    /// The time at which it ends at the latest, and a number that makes the pair unique.
    until: (Duration, u64),
}

impl Future for Backpressure {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.write_back.wake_later(self.until, context.waker()) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

impl Drop for Backpressure {
    fn drop(&mut self) {
        self.write_back.lock_slowed().wakers.remove(&self.until);
    }
}

/// What happened to the oldest entry.
enum Step {
    /// The queue is empty.
    Empty,
    /// The entry was written or dropped, or another thread has removed it.
    Gone,
    /// There is no room for the entry yet.
    NoRoom,
}

impl WriteBackQueue {
    /// The queue holds at most an eighth of all memory, or a single value of up to a quarter.
    pub fn new(env: &Env, patience: Duration, memory: MemoryBudget) -> Self {
        let waiting = Waiting {
            queued: HashMap::new(),
            order: VecDeque::new(),
            next_number: 0,
            reserved: memory.empty(),
            closed: false,
        };
        Self {
            env: env.clone(),
            patience,
            waiting: Mutex::new(waiting),
            slowed: Mutex::default(),
            arrived: Condvar::new(),
            count: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            memory,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn bytes_max(&self) -> u64 {
        self.memory.limit() / 8
    }

    /// Whether a value of this size fits into the queue with the queued ones.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        self.is_empty() || self.bytes() + bytes <= self.bytes_max()
    }

    /// Whether the queue holds more than half of its bound.
    pub fn is_half_full(&self) -> bool {
        self.bytes() > self.bytes_max() / 2
    }

    /// The future that a caller awaits before it stores more; `None` up to half of the bound.
    pub fn backpressure(self: &Arc<Self>) -> Option<Backpressure> {
        if !self.is_half_full() {
            return None;
        }
        let mut slowed = self.lock_slowed();
        slowed.next_number += 1;
        let until = (self.env.monotonic() + SLOWEST, slowed.next_number);
        Some(Backpressure { write_back: Arc::clone(self), until })
    }

    /// Registers `waker`, which is woken at `until` or when the queue is no longer half full. Returns
    /// `false` if that holds already.
    fn wake_later(&self, until: (Duration, u64), waker: &Waker) -> bool {
        let mut slowed = self.lock_slowed();
        // Checked under this lock: a thread that empties the queue takes it afterwards.
        if self.env.monotonic() >= until.0 || !self.is_half_full() || self.lock().closed {
            return false;
        }
        slowed.wakers.insert(until, waker.clone());
        true
    }

    /// Wakes the callers whose wait is over.
    fn wake_slowed(&self) {
        let mut slowed = self.lock_slowed();
        if slowed.wakers.is_empty() {
            return;
        }
        let is_over = !self.is_half_full() || self.lock().closed;
        let now = if is_over { Duration::MAX } else { self.env.monotonic() };
        let later = slowed.wakers.split_off(&(now, u64::MAX));
        let woken = std::mem::replace(&mut slowed.wakers, later);
        drop(slowed);
        woken.into_values().for_each(Waker::wake);
    }

    fn lock_slowed(&self) -> MutexGuard<'_, Slowed> {
        self.slowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of queued values.
    pub fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire) as u64
    }

    /// Bytes of the queued values.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds a value whose key must not be queued. Returns whether there was room.
    pub fn add(&self, hash: u64, record: &Record, class: Class) -> bool {
        let weight = record.weight();
        let mut waiting = self.lock();
        let limit = if waiting.queued.is_empty() { self.memory.limit() / 4 } else { 0 };
        if waiting.closed || self.bytes() + weight > self.bytes_max().max(limit) {
            return false;
        }
        waiting.next_number += 1;
        let number = waiting.next_number;
        let entry = Queued { number, record: record.clone(), class, since: self.env.monotonic() };
        self.remove_from(&mut waiting, hash);
        waiting.queued.insert(hash, entry);
        waiting.order.push_back((hash, number));
        self.count_bytes(&mut waiting, self.bytes() + weight);
        self.count.store(waiting.queued.len(), Ordering::Release);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// The queued value of a hash.
    pub fn get(&self, hash: u64) -> Option<Record> {
        if self.is_empty() {
            return None;
        }
        self.lock().queued.get(&hash).map(|entry| entry.record.clone())
    }

    /// Changes the expiry of a queued value. Returns whether it is queued.
    pub fn touch(&self, hash: u64, expires_at: u32) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut waiting = self.lock();
        let Waiting { queued, order, next_number, .. } = &mut *waiting;
        let Some(entry) = queued.get_mut(&hash) else { return false };
        // The new number invalidates a write of the entry that is under way.
        *next_number += 1;
        (entry.number, entry.record.expires_at) = (*next_number, expires_at);
        order.push_back((hash, *next_number));
        true
    }

    /// Removes a value. Returns whether it was queued.
    pub fn remove(&self, hash: u64) -> bool {
        !self.is_empty() && self.remove_from(&mut self.lock(), hash)
    }

    /// Removes all values.
    pub fn clear(&self) {
        let mut waiting = self.lock();
        let hashes: Vec<u64> = waiting.queued.keys().copied().collect();
        for hash in hashes {
            self.remove_from(&mut waiting, hash);
        }
        waiting.order.clear();
    }

    /// Ends [`WriteBackQueue::work`].
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
        self.wake_slowed();
    }

    /// Writes queued values until the queue is closed.
    pub fn work(&self, flash: &Flash, wrote: &dyn Fn(&Record)) {
        loop {
            let pause = match self.write_oldest(flash, wrote) {
                Step::Gone => Duration::ZERO,
                Step::NoRoom => BUFFER_PAUSE,
                Step::Empty => IDLE,
            };
            if !self.pause(pause) {
                return;
            }
        }
    }

    /// Waits for a value or the end of `pause`; returns `false` when the queue is closed.
    fn pause(&self, pause: Duration) -> bool {
        self.wake_slowed();
        let waiting = self.lock();
        if waiting.closed || pause.is_zero() || pause == IDLE && !waiting.queued.is_empty() {
            return !waiting.closed;
        }
        let waited = self.arrived.wait_timeout(waiting, pause);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn write_oldest(&self, flash: &Flash, wrote: &dyn Fn(&Record)) -> Step {
        let mut waiting = self.lock();
        let Some((hash, number)) = waiting.order.pop_front() else { return Step::Empty };
        let entry = waiting.queued.get(&hash).filter(|entry| entry.number == number).cloned();
        drop(waiting);
        let Some(entry) = entry else { return Step::Gone };
        let value = entry.record.value();
        let record = entry.record.as_new_record(hash, &value, entry.class);
        let is_late = || self.env.monotonic().saturating_sub(entry.since) > self.patience;
        let large = match flash.is_large(&record) {
            true => match self.write_pieces(flash, &record, number, &is_late) {
                Some(Ok(large)) => Some(large),
                Some(Err(reason)) => return self.give_up(flash, &record, number, reason),
                None => return Step::Gone,
            },
            false => None,
        };
        // The lock prevents changes of the key between the last step of the write and the removal from
        // the queue.
        let mut waiting = self.lock();
        if !waiting.holds(hash, number) {
            large.iter().for_each(|large| flash.abandon_large(&record, large));
            return Step::Gone;
        }
        let written = match &large {
            Some(large) => flash.append_head(&record, large),
            None => flash.try_append(&record),
        };
        match written {
            Ok(()) => {
                self.remove_from(&mut waiting, hash);
                drop(waiting);
                wrote(&entry.record);
                Step::Gone
            }
            Err(reason) if is_passing(reason) && large.is_none() && !is_late() => {
                waiting.order.push_front((hash, number));
                Step::NoRoom
            }
            Err(reason) => {
                drop(waiting);
                large.iter().for_each(|large| flash.abandon_large(&record, large));
                self.give_up(flash, &record, number, reason)
            }
        }
    }

    /// Writes the pieces of a large value as buffers become free; `None` if another thread removed the
    /// value.
    fn write_pieces(
        &self,
        flash: &Flash,
        record: &NewRecord<'_>,
        number: u64,
        is_late: &dyn Fn() -> bool,
    ) -> Option<Result<LargeAppend, Dropped>> {
        let mut large = match flash.begin_large(record) {
            Ok(large) => large,
            Err(reason) => return Some(Err(reason)),
        };
        while !large.has_all() {
            let is_wanted = self.lock().holds(record.hash, number);
            let written = if is_wanted { flash.append_piece(record, &mut large) } else { Ok(()) };
            match written {
                Ok(()) if is_wanted => {}
                Err(reason) if is_passing(reason) && !is_late() && self.pause(BUFFER_PAUSE) => {}
                outcome => {
                    flash.abandon_large(record, &large);
                    return outcome.err().map(Err);
                }
            }
        }
        Some(Ok(large))
    }

    /// Drops an entry, unless another thread has removed or replaced it.
    fn give_up(&self, flash: &Flash, record: &NewRecord<'_>, number: u64, reason: Dropped) -> Step {
        let mut waiting = self.lock();
        if waiting.holds(record.hash, number) {
            self.remove_from(&mut waiting, record.hash);
            drop(waiting);
            flash.refuse(record, reason);
        }
        Step::Gone
    }

    fn count_bytes(&self, waiting: &mut Waiting, bytes: u64) {
        waiting.reserved.resize_anyway(bytes);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    fn remove_from(&self, waiting: &mut Waiting, hash: u64) -> bool {
        let Some(entry) = waiting.queued.remove(&hash) else { return false };
        let weight = entry.record.weight();
        self.count_bytes(waiting, self.bytes() - weight);
        self.count.store(waiting.queued.len(), Ordering::Release);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for WriteBackQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteBackQueue").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Whether a later attempt may find room.
pub(crate) fn is_passing(reason: Dropped) -> bool {
    matches!(reason, Dropped::BuffersFull | Dropped::NoFreeSegment)
}
