//! A reader of threads that call `pread`, for kernels and containers without io_uring.
//!
//! Invariants: at most [`QUEUE_MAX`] reads are queued; further ones are answered [`ReadError::Overloaded`] at
//! once. A thread that hangs in the kernel holds only the buffer of its own read.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::buffer::AlignedBuffer;
use super::completion::{Completer, Patience, ReadError};

/// Most queued reads: a tenth of a second at 40,000 reads per second.
const QUEUE_MAX: usize = 4096;

/// A read whose file is known.
pub(super) struct FileRead {
    pub file: Arc<File>,
    pub offset: u64,
    pub buffer: AlignedBuffer,
    pub completer: Completer,
}

pub(super) struct PreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

struct Queue {
    waiting: VecDeque<(u32, FileRead)>,
    /// The read that each thread executes: the tick of its submission and its handle.
    running: Vec<Option<(u32, Patience)>>,
    /// Whether each thread executes a read, also one that was given up.
    busy: Vec<bool>,
    tick: u32,
    idle: usize,
    closed: bool,
}

impl PreadPool {
    pub fn start(threads: usize) -> io::Result<Self> {
        let running = (0..threads).map(|_| None).collect();
        let queue = Queue {
            waiting: VecDeque::new(),
            running,
            busy: vec![false; threads],
            tick: 0,
            idle: 0,
            closed: false,
        };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), wake: Condvar::new() });
        let mut pool = Self { shared, threads: Vec::new() };
        for place in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = std::thread::Builder::new().name(format!("flash-read-{place}"));
            pool.threads.push(builder.spawn(move || shared.work(place))?);
        }
        Ok(pool)
    }

    pub fn submit(&self, batch: impl Iterator<Item = FileRead>) {
        let mut refused = Vec::new();
        let mut queue = self.shared.lock();
        let tick = queue.tick;
        let before = queue.waiting.len();
        for read in batch {
            if queue.waiting.len() < QUEUE_MAX && !queue.closed {
                queue.waiting.push_back((tick, read));
            } else {
                refused.push(read.completer);
            }
        }
        let wakes = (queue.waiting.len() - before).min(queue.idle);
        drop(queue);
        for _ in 0..wakes {
            self.shared.wake.notify_one();
        }
        for completer in refused {
            completer.complete(Err(ReadError::Overloaded));
        }
    }

    /// See [`super::Device::expire`].
    pub fn expire(&self, patience: u32) -> usize {
        let mut queue = self.shared.lock();
        queue.tick = queue.tick.wrapping_add(1);
        let tick = queue.tick;
        let is_late = |since: u32| tick.wrapping_sub(since) >= patience;
        let mut late = Vec::new();
        while queue.waiting.front().is_some_and(|(since, _)| is_late(*since)) {
            late.extend(queue.waiting.pop_front().and_then(|(_, read)| read.completer.patience()));
        }
        for running in queue.running.iter_mut().filter(|r| r.as_ref().is_some_and(|r| is_late(r.0))) {
            late.extend(running.take().map(|(_, patience)| patience));
        }
        drop(queue);
        late.into_iter().filter(Patience::give_up).count()
    }
}

impl Drop for PreadPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.wake.notify_all();
        let busy = self.shared.lock().busy.clone();
        for (thread, busy) in self.threads.drain(..).zip(busy) {
            // A thread in the kernel may never return. If it does, it ends without being joined.
            if !busy {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, place: usize) {
        while let Some(FileRead { file, offset, mut buffer, completer }) = self.next(place) {
            let result = file.read_exact_at(buffer.bytes_mut(), offset);
            completer.complete(result.map(|()| buffer).map_err(ReadError::Device));
        }
    }

    fn next(&self, place: usize) -> Option<FileRead> {
        let mut queue = self.lock();
        queue.running[place] = None;
        queue.busy[place] = false;
        loop {
            if queue.closed {
                return None;
            }
            if let Some((since, read)) = queue.waiting.pop_front() {
                queue.running[place] = read.completer.patience().map(|patience| (since, patience));
                queue.busy[place] = true;
                return Some(read);
            }
            queue.idle += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}
