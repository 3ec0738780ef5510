//! Buffers at addresses that direct I/O accepts, kept for reuse: parts of one mapping of huge pages.
//!
//! Invariants: the bytes of all buffers in use never exceed the pool's limit, because a buffer is
//! counted before it is allocated. A buffer returns to the pool when its last user drops it. A reused
//! buffer holds old bytes: its user overwrites or checks all of the bytes that it uses.
#![allow(unsafe_code)] // a buffer is part of a mapping that holds other buffers too

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::block::BLOCK;
use super::huge_pages::HugePages;
use super::runs::{FreeRuns, Run};

/// Bytes of the pool's mapping, at most. Buffers beyond it are allocated separately, which keeps the
/// list of free runs short.
const STRETCH_MAX: u64 = 1 << 30;

/// A bounded pool of [`AlignedBuffer`]s. Cheap to clone: a handle.
#[derive(Clone)]
pub struct BufferPool(Arc<Shared>);

struct Shared {
    limit: u64,
    out: AtomicU64,
    /// Bytes that are kept for reuse instead of being returned to the system.
    retain: u64,
    pages: HugePages,
    free: Mutex<Free>,
    /// Tasks that wait for a buffer, oldest first.
    waiting: Mutex<VecDeque<Waker>>,
}

/// The free part of the mapping.
struct Free {
    runs: FreeRuns,
    /// Blocks from this one on have no physical memory.
    touched: usize,
}

/// Bytes at an address that is a multiple of 4 KiB. Returned to the pool on drop.
pub struct AlignedBuffer {
    place: Place,
    length: usize,
    pool: BufferPool,
}

enum Place {
    /// Blocks of the pool's mapping.
    Lent(Run),
    /// A separate allocation, in which the buffer begins at `start`.
    Own { storage: Vec<u8>, start: usize },
}

impl BufferPool {
    /// A pool of at most `limit` bytes, which keeps up to `retain` bytes of memory when idle.
    pub fn new(limit: u64, retain: u64) -> Self {
        let pages = HugePages::map((limit.min(STRETCH_MAX) / BLOCK) as usize);
        let free = Mutex::new(Free { runs: FreeRuns::new(pages.blocks()), touched: 0 });
        let (out, waiting) = (AtomicU64::new(0), Mutex::default());
        Self(Arc::new(Shared { limit, out, retain, pages, free, waiting }))
    }

    /// A buffer of `length` bytes, or `None` if it would exceed the limit.
    pub fn take(&self, length: usize) -> Option<AlignedBuffer> {
        let footprint = footprint(length);
        let grow = |out: u64| (out + footprint <= self.0.limit).then_some(out + footprint);
        self.0.out.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grow).ok()?;
        let place = self.lend((footprint / BLOCK) as usize).unwrap_or_else(|| Place::own(footprint as usize));
        Some(AlignedBuffer { place, length, pool: self.clone() })
    }

    /// Whether a buffer of `length` bytes fits into the pool at all.
    pub fn holds(&self, length: usize) -> bool {
        footprint(length) <= self.0.limit
    }

    /// A buffer, or `Pending` after registering `context` to be woken when one returns.
    pub fn poll_take(&self, length: usize, context: &mut Context<'_>) -> Poll<AlignedBuffer> {
        if let Some(buffer) = self.take(length) {
            return Poll::Ready(buffer);
        }
        self.lock_waiting().push_back(context.waker().clone());
        // A buffer that returned before the registration has woken no task.
        self.take(length).map_or(Poll::Pending, Poll::Ready)
    }

    /// Wakes all waiting tasks, so that they check their deadlines.
    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.lock_waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock_waiting(&self) -> MutexGuard<'_, VecDeque<Waker>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all buffers in use.
    pub fn bytes_out(&self) -> u64 {
        self.0.out.load(Ordering::Relaxed)
    }

    fn lock_free(&self) -> MutexGuard<'_, Free> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self, blocks: usize) -> Option<Place> {
        let mut free = self.lock_free();
        let run = free.runs.lend(blocks)?;
        free.touched = free.touched.max(run.end());
        Some(Place::Lent(run))
    }

    fn give_back(&self, place: &Place, length: usize) {
        if let Place::Lent(run) = place {
            self.put_away(*run);
        }
        let footprint = footprint(length);
        let out = self.0.out.fetch_sub(footprint, Ordering::AcqRel) - footprint;
        let first = self.lock_waiting().pop_front();
        if let Some(waker) = first {
            waker.wake();
            // The woken task may not need the buffer any more. With this much free, wake all, so that no
            // task depends on it.
            if out < self.0.limit / 2 {
                self.wake_all();
            }
        }
    }

    fn put_away(&self, run: Run) {
        let (pages, mut free) = (&self.0.pages, self.lock_free());
        free.runs.give_back(run);
        let lent_to = free.runs.lent_to(pages.blocks());
        if free.touched.saturating_sub(lent_to) as u64 * BLOCK > self.0.retain {
            // SAFETY: no block from that one on is lent, and the lock prevents that one is.
            unsafe { pages.forget_from(lent_to) };
            free.touched = lent_to;
        }
    }
}

impl Place {
    fn own(bytes: usize) -> Self {
        let storage = vec![0; bytes + BLOCK as usize];
        let start = storage.as_ptr().align_offset(BLOCK as usize);
        Self::Own { storage, start }
    }
}

impl AlignedBuffer {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.place {
            // SAFETY: the run is lent to this buffer until it is dropped, and `self` is borrowed mutably.
            Place::Lent(run) => unsafe { &mut self.pool.0.pages.bytes_mut(*run)[..self.length] },
            Place::Own { storage, start } => &mut storage[*start..*start + self.length],
        }
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        match &self.place {
            // SAFETY: the run is lent to this buffer only, and a writer borrows the buffer mutably.
            Place::Lent(run) => unsafe { &self.pool.0.pages.bytes(*run)[..self.length] },
            Place::Own { storage, start } => &storage[*start..*start + self.length],
        }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        self.pool.give_back(&self.place, self.length);
    }
}

/// Bytes that a buffer of `length` bytes occupies.
fn footprint(length: usize) -> u64 {
    (length as u64).next_multiple_of(BLOCK).max(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes between the two addresses that have physical memory, by this process's page map.
    fn resident(from: *const u8, bytes: usize) -> usize {
        let pages = bytes.div_ceil(4096);
        let map = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut entries = vec![0; pages * 8];
        std::os::unix::fs::FileExt::read_exact_at(&map, &mut entries, from as u64 / 4096 * 8).unwrap();
        // The highest bit of an entry: the page is present (Documentation/admin-guide/mm/pagemap.rst).
        4096 * entries.chunks(8).filter(|entry| entry[7] & 0x80 != 0).count()
    }

    #[test]
    fn idle_memory_above_the_retained_bytes_returns_to_the_system() {
        let pool = BufferPool::new(64 << 20, 8 << 20);
        let mut buffers: Vec<_> = (0..16).map(|_| pool.take(4 << 20).unwrap()).collect();
        for buffer in &mut buffers {
            buffer.bytes_mut().fill(7);
        }
        let start = buffers[0].as_ref().as_ptr();
        assert_eq!(resident(start, 64 << 20), 64 << 20);
        // A buffer in the middle keeps the memory before it.
        let held = buffers.remove(8);
        drop(buffers);
        let left = resident(start, 64 << 20);
        assert!((36 << 20..=46 << 20).contains(&left), "{left} bytes");
        assert!(held.as_ref().iter().all(|byte| *byte == 7));
        drop(held);
        assert!(resident(start, 64 << 20) <= 8 << 20);
        assert_eq!(pool.take(100).unwrap().as_ref().as_ptr(), start, "the lowest free run is lent first");
    }

    #[test]
    fn buffers_do_not_share_bytes() {
        let pool = BufferPool::new(1 << 20, 1 << 20);
        let lengths = [1, 4096, 4097, 100_000, 9];
        let mut buffers: Vec<_> = lengths.iter().map(|length| pool.take(*length).unwrap()).collect();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            buffer.bytes_mut().fill(number as u8);
        }
        for (number, buffer) in buffers.iter().enumerate() {
            assert_eq!(buffer.as_ref(), vec![number as u8; lengths[number]]);
        }
    }

    #[test]
    fn a_buffer_is_allocated_separately_if_no_free_run_is_long_enough() {
        let pool = BufferPool::new(64 << 10, 0);
        let mut small: Vec<_> = (0..16).map(|_| pool.take(4096).unwrap()).collect();
        let mut number = 0;
        small.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        let mut long = pool.take(32 << 10).unwrap();
        assert!(matches!(long.place, Place::Own { .. }));
        assert_eq!(long.as_ref().as_ptr() as usize % 4096, 0);
        long.bytes_mut().fill(1);
        assert!(pool.take(1).is_none(), "all buffers are in use");
    }

    #[test]
    fn a_pool_is_bounded_and_reuses_returned_buffers() {
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
    fn a_returned_buffer_wakes_a_waiter() {
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
        assert!(third.is_none(), "all buffers are in use");
        drop(second);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1, "one small buffer returned: one waiter is woken");
        drop(first);
        assert_eq!(woken.0.load(Ordering::Relaxed), 3, "all buffers returned: every waiter is woken");
        assert!(pool.poll_take(40_000, &mut context).is_ready());
    }
}
