//! Buffers at addresses that direct I/O accepts, kept for reuse.
//!
//! Invariants: the bytes of all buffers that are out never exceed the pool's limit, since they are
//! counted before they are allocated; a buffer comes back when its last user drops it. Reused
//! buffers hold old bytes: whoever takes one overwrites or checks all of what it uses.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::BLOCK;

/// A bounded supply of [`AlignedBuffer`]s. Cheap to clone: a handle.
#[derive(Clone)]
pub struct BufferPool(Arc<Shared>);

struct Shared {
    limit: u64,
    out: AtomicU64,
    /// Bytes of idle storage that are kept for reuse instead of being freed.
    retain: u64,
    idle: Mutex<Idle>,
    /// Who waits for a buffer, those who came first in front.
    waiting: Mutex<VecDeque<Waker>>,
}

#[derive(Default)]
struct Idle {
    bytes: u64,
    /// One stack for each size class.
    stacks: Vec<Vec<Vec<u8>>>,
}

/// Bytes that begin at a multiple of 4 KiB in memory. Goes back to its pool when dropped.
pub struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    length: usize,
    class: usize,
    pool: BufferPool,
}

impl BufferPool {
    /// A pool of at most `limit` bytes, of which up to `retain` are kept when idle.
    pub fn new(limit: u64, retain: u64) -> Self {
        let idle = Mutex::new(Idle::default());
        Self(Arc::new(Shared { limit, out: AtomicU64::new(0), retain, idle, waiting: Mutex::default() }))
    }

    /// A buffer of `length` bytes, or `None` when that would exceed the limit.
    pub fn take(&self, length: usize) -> Option<AlignedBuffer> {
        let class = class_of(length);
        let footprint = class_bytes(class) as u64;
        let grow = |out: u64| (out + footprint <= self.0.limit).then_some(out + footprint);
        self.0.out.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grow).ok()?;
        let storage = self.reuse(class).unwrap_or_else(|| vec![0; class_bytes(class) + BLOCK as usize]);
        let start = storage.as_ptr().align_offset(BLOCK as usize);
        Some(AlignedBuffer { storage, start, length, class, pool: self.clone() })
    }

    /// Whether a buffer of `length` bytes can ever be had.
    pub fn holds(&self, length: usize) -> bool {
        class_bytes(class_of(length)) as u64 <= self.0.limit
    }

    /// A buffer, or the promise to wake `context` when one comes back.
    pub fn poll_take(&self, length: usize, context: &mut Context<'_>) -> Poll<AlignedBuffer> {
        if let Some(buffer) = self.take(length) {
            return Poll::Ready(buffer);
        }
        self.lock_waiting().push_back(context.waker().clone());
        // What came back in between has woken nobody.
        self.take(length).map_or(Poll::Pending, Poll::Ready)
    }

    /// Wakes everyone who waits, to look at the clock.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.lock_waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock_waiting(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all buffers that are out.
    pub fn bytes_out(&self) -> u64 {
        self.0.out.load(Ordering::Relaxed)
    }

    fn reuse(&self, class: usize) -> Option<Vec<u8>> {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = idle.stacks.get_mut(class)?.pop()?;
        idle.bytes -= storage.len() as u64;
        Some(storage)
    }

    fn give_back(&self, class: usize, storage: Vec<u8>) {
        self.keep(class, storage);
        let footprint = class_bytes(class) as u64;
        let out = self.0.out.fetch_sub(footprint, Ordering::AcqRel) - footprint;
        let first = self.lock_waiting().pop_front();
        if let Some(waker) = first {
            waker.wake();
            // Who was woken may not want it any more: with so much left nobody shall wait for the next.
            if out < self.0.limit / 2 {
                self.wake_all();
            }
        }
    }

    fn keep(&self, class: usize, storage: Vec<u8>) {
        let mut idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.bytes + storage.len() as u64;
        if kept > self.0.retain {
            return;
        }
        idle.bytes = kept;
        if idle.stacks.len() <= class {
            idle.stacks.resize_with(class + 1, Vec::new);
        }
        idle.stacks[class].push(storage);
    }
}

impl AlignedBuffer {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes, to be written to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        self.pool.give_back(self.class, std::mem::take(&mut self.storage));
    }
}

/// Size classes have four steps per doubling, so that at most a fifth of a buffer is unused.
fn class_of(length: usize) -> usize {
    let blocks = length.div_ceil(BLOCK as usize).max(1);
    if blocks <= 4 {
        return blocks - 1;
    }
    let doubling = (blocks - 1).ilog2() as usize;
    let step = (blocks - 1 - (1 << doubling)) >> (doubling - 2);
    4 * (doubling - 1) + step
}

fn class_bytes(class: usize) -> usize {
    let blocks = if class < 4 { class + 1 } else { (class % 4 + 5) << (class / 4 - 1) };
    blocks * BLOCK as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise_and_waste_at_most_a_fifth() {
        for length in (1..3_000_000).step_by(997) {
            let bytes = class_bytes(class_of(length));
            assert!(bytes >= length, "{length} does not fit {bytes}");
            let rounded = length.div_ceil(4096) * 4096;
            assert!(bytes <= rounded + rounded / 4, "{length} takes {bytes}");
        }
    }

    #[test]
    fn a_pool_is_bounded_and_takes_buffers_back() {
        let pool = BufferPool::new(64 << 10, 1 << 20);
        let first = pool.take(40_000).unwrap();
        assert_eq!(first.as_ref().as_ptr() as usize % 4096, 0);
        assert!(pool.take(40_000).is_none());
        let address = first.as_ref().as_ptr();
        drop(first);
        assert_eq!(pool.bytes_out(), 0);
        assert_eq!(pool.take(40_000).unwrap().as_ref().as_ptr(), address);
    }

    #[test]
    fn who_waits_is_woken_by_a_buffer_that_comes_back() {
        struct Count(AtomicU64);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let pool = BufferPool::new(64 << 10, 1 << 20);
        assert!(pool.holds(64 << 10) && !pool.holds((64 << 10) + 1));
        let woken = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let first = pool.take(40_000).unwrap();
        let second = pool.take(20_000).unwrap();
        for _ in 0..3 {
            assert!(pool.poll_take(40_000, &mut context).is_pending());
        }
        let third = pool.take(8192);
        assert!(third.is_none(), "all is out");
        drop(second);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "a little came back, one of those who wait looks");
        drop(first);
        assert_eq!(woken.0.load(Ordering::Relaxed), 3, "all came back, everyone looks");
        assert!(pool.poll_take(40_000, &mut context).is_ready());
    }
}
