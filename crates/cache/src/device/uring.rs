//! A reader over io_uring. The caller submits a batch of reads with one system call, and one thread per
//! ring answers them. A thread with a poller may have its own ring instead: it answers its own reads,
//! and a read wakes no other thread.
//!
//! Invariants: a buffer stays in the table of reads in flight until the kernel has completed its read.
//! So the kernel never writes to memory that is in use elsewhere, even if the caller is gone, the read
//! was given up or the device is being closed. At most [`IN_FLIGHT_MAX`] reads are in flight on a ring;
//! its completion queue has room for them.
#![allow(unsafe_code)] // the submission and completion queues are memory shared with the kernel

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;

use super::buffer::AlignedBuffer;
use super::completion::{Completer, Patience, ReadError};
use super::pread_pool::FileRead;

/// Entries of the submission queue: a larger batch needs several system calls.
const SUBMISSIONS: u32 = 256;

/// Most reads in flight on a ring: a fiftieth of a second at 100,000 reads per second.
const IN_FLIGHT_MAX: usize = 2048;

/// Marks the wake-up when the ring is closed; no read has this number.
const WAKE_UP: u64 = u64::MAX;

/// A number of rings. Each thread uses one of them, or its own.
pub(super) struct UringReader {
    rings: Vec<(Arc<Ring>, Option<JoinHandle<()>>)>,
    /// The rings of threads that answer their own reads.
    own: Mutex<Vec<Arc<Ring>>>,
}

thread_local! {
    /// The calling thread's own ring, if any.
    static OWN: RefCell<Option<Arc<Ring>>> = const { RefCell::new(None) };
}

struct Ring {
    uring: IoUring,
    /// The number of the reader.
    reader: usize,
    /// Whether a thread of the reader waits for completions, rather than the thread that submits.
    has_reaper: bool,
    /// Whether the thread has queued reads that were not submitted to the kernel yet.
    has_queued: AtomicBool,
    /// Reads in flight. Holding the lock is the right to submit.
    reads: Mutex<Reads>,
    closed: AtomicBool,
}

#[derive(Default)]
struct Reads {
    places: Vec<Option<InFlight>>,
    free: Vec<usize>,
    tick: u32,
}

struct InFlight {
    /// Kept open until the kernel has completed the read.
    _file: Arc<File>,
    buffer: AlignedBuffer,
    completer: Completer,
    since: u32,
    patience: Option<Patience>,
}

impl UringReader {
    /// Starts the given number of rings, or returns the kernel's reason for not creating them.
    pub fn start(rings: usize) -> io::Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut reader = Self { rings: Vec::new(), own: Mutex::default() };
        for number in 0..rings.max(1) {
            let ring = Arc::new(Ring::new(IoUring::builder(), id, true)?);
            let reaper = Arc::clone(&ring);
            let builder = std::thread::Builder::new().name(format!("flash-ring-{number}"));
            let thread = builder.spawn(move || reaper.reap())?;
            reader.rings.push((ring, Some(thread)));
        }
        Ok(reader)
    }

    pub fn submit(&self, batch: impl Iterator<Item = FileRead>) {
        let (shared, _) = &self.rings[thread_number() % self.rings.len()];
        OWN.with_borrow(|own| {
            let own = own.as_ref().filter(|own| own.reader == shared.reader);
            own.unwrap_or(shared).submit(batch);
        });
    }

    /// A ring for the calling thread; `None` where the kernel refuses one.
    pub fn own_reads(&self) -> Option<OwnReads> {
        let mut builder = IoUring::builder();
        // The kernel completes a read when this thread next enters it, and does not interrupt the thread.
        builder.setup_single_issuer().setup_coop_taskrun();
        let ring = Arc::new(Ring::new(builder, self.rings[0].0.reader, false).ok()?);
        let mut all = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|ring| !ring.is_over());
        all.push(Arc::clone(&ring));
        OWN.set(Some(Arc::clone(&ring)));
        Some(OwnReads(ring))
    }

    /// See [`super::Device::expire`].
    pub fn expire(&self, patience: u32) -> usize {
        let shared: usize = self.rings.iter().map(|(ring, _)| ring.expire(patience)).sum();
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        shared + own.iter().map(|ring| ring.expire(patience)).sum::<usize>()
    }
}

/// Reads of one thread, which answers them itself. Before it waits it calls [`OwnReads::hand_over`]. It
/// waits until [`AsFd::as_fd`] is readable, or for anything else, and then calls [`OwnReads::hand_out`].
/// Belongs to the thread that created it; all reads that this thread submits from then on use its ring.
pub struct OwnReads(Arc<Ring>);

impl OwnReads {
    /// Answers the reads that the kernel has completed.
    pub fn hand_out(&self) {
        self.0.hand_out();
    }

    /// Submits the queued reads of this thread to the kernel with one system call.
    pub fn hand_over(&self) {
        let ring = &*self.0;
        if ring.has_queued.load(Ordering::Relaxed) {
            let _reads = ring.lock();
            // Reads that the kernel does not accept now are submitted with the next ones.
            ring.has_queued.store(ring.flush().is_err(), Ordering::Relaxed);
        }
    }
}

impl AsFd for OwnReads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring is open for as long as this value is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.0.uring.as_raw_fd()) }
    }
}

impl Drop for OwnReads {
    fn drop(&mut self) {
        OWN.with_borrow_mut(|own| own.take_if(|own| Arc::ptr_eq(own, &self.0)));
        self.0.closed.store(true, Ordering::Release);
        self.0.hand_out();
        self.0.expire(0);
        if !self.0.is_over() {
            // The kernel may still write to these buffers, so they are never freed.
            std::mem::forget(Arc::clone(&self.0));
        }
    }
}

impl Drop for UringReader {
    fn drop(&mut self) {
        for (ring, thread) in &mut self.rings {
            ring.closed.store(true, Ordering::Release);
            let is_quiet = ring.lock().places.iter().all(Option::is_none);
            ring.wake_reaper();
            // Hanging reads keep their ring and their buffers until they end; then the thread ends.
            if let Some(thread) = thread.take().filter(|_| is_quiet) {
                let _ = thread.join();
            }
        }
    }
}

/// A number for each thread that reads.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl Ring {
    fn new(mut builder: io_uring::Builder, reader: usize, has_reaper: bool) -> io::Result<Self> {
        let uring = builder.setup_cqsize(2 * IN_FLIGHT_MAX as u32).build(SUBMISSIONS)?;
        let (has_queued, closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { uring, reader, has_reaper, has_queued, reads: Mutex::default(), closed })
    }

    /// Whether the ring is closed and has no reads in flight.
    fn is_over(&self) -> bool {
        self.closed.load(Ordering::Acquire) && self.lock().in_flight() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, batch: impl Iterator<Item = FileRead>) {
        let mut refused = Vec::new();
        let mut reads = self.lock();
        for read in batch {
            if reads.in_flight() >= IN_FLIGHT_MAX || self.closed.load(Ordering::Acquire) {
                refused.push(read.completer);
                continue;
            }
            let entry = reads.enter(read);
            // A full queue is submitted to the kernel, which empties it.
            if self.push(&entry).is_err() && (self.flush().is_err() || self.push(&entry).is_err()) {
                let place = entry.get_user_data() as usize;
                refused.extend(reads.leave(place).map(|read| read.completer));
            }
        }
        if self.has_reaper {
            // Reads that the kernel does not accept now stay queued; the watchdog submits them again.
            let _ = self.flush();
        } else {
            self.has_queued.store(true, Ordering::Relaxed);
        }
        drop(reads);
        for completer in refused {
            completer.complete(Err(ReadError::Overloaded));
        }
    }

    /// The caller holds the lock of `reads`.
    fn push(&self, entry: &io_uring::squeue::Entry) -> Result<(), io_uring::squeue::PushError> {
        // SAFETY: the lock of `reads` is held, so this is the only use of the submission queue; the
        // entry's buffer is in the table of reads and stays there until its completion was reaped.
        unsafe { self.uring.submission_shared().push(entry) }
    }

    fn flush(&self) -> io::Result<usize> {
        loop {
            match self.uring.submit() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn expire(&self, patience: u32) -> usize {
        let mut reads = self.lock();
        if self.has_reaper {
            let _ = self.flush();
        }
        reads.tick = reads.tick.wrapping_add(1);
        let tick = reads.tick;
        let in_flight = reads.places.iter_mut().flatten();
        let late = in_flight.filter(|read| tick.wrapping_sub(read.since) >= patience);
        let late: Vec<_> = late.filter_map(|read| read.patience.take()).collect();
        drop(reads);
        late.into_iter().filter(Patience::give_up).count()
    }

    fn wake_reaper(&self) {
        let _reads = self.lock();
        let entry = opcode::Nop::new().build().user_data(WAKE_UP);
        // A full queue wakes the reaper too.
        let _ = self.push(&entry);
        let _ = self.flush();
    }

    /// Answers completed reads until the ring is closed and nothing is in flight.
    fn reap(&self) {
        while !self.is_over() {
            self.wait();
            self.hand_out();
        }
    }

    /// Answers completed reads. Called only by the thread that owns the completion queue.
    fn hand_out(&self) {
        // SAFETY: the completion queue is used by this thread alone.
        let answers = unsafe { self.uring.completion_shared() };
        if answers.is_empty() {
            return;
        }
        let mut reads = self.lock();
        let found = answers.filter(|entry| entry.user_data() != WAKE_UP);
        let leave =
            |entry: io_uring::cqueue::Entry| Some((reads.leave(entry.user_data() as usize)?, entry.result()));
        let done: Vec<_> = found.filter_map(leave).collect();
        drop(reads);
        for (read, result) in done {
            let InFlight { buffer, completer, .. } = read;
            completer.complete(outcome(buffer, result));
        }
    }

    fn wait(&self) {
        let get_events = 1; // IORING_ENTER_GETEVENTS
        // SAFETY: no argument is passed, and nothing is submitted here.
        let result = unsafe { self.uring.submitter().enter::<()>(0, 1, get_events, None) };
        if let Err(error) = result
            && error.kind() != io::ErrorKind::Interrupted
        {
            tracing::warn!(%error, "waiting for completions of io_uring failed");
        }
    }
}

/// Converts the kernel's result of a read.
fn outcome(buffer: AlignedBuffer, result: i32) -> Result<AlignedBuffer, ReadError> {
    if result < 0 {
        let is_passing =
            [Errno::AGAIN, Errno::INTR, Errno::CANCELED].iter().any(|errno| errno.raw_os_error() == -result);
        let error = io::Error::from_raw_os_error(-result);
        return Err(if is_passing { ReadError::Overloaded } else { ReadError::Device(error) });
    }
    if result as usize == buffer.len() {
        return Ok(buffer);
    }
    Err(ReadError::Device(io::ErrorKind::UnexpectedEof.into()))
}

impl Reads {
    fn in_flight(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Adds the read to the table and creates its submission entry.
    fn enter(&mut self, read: FileRead) -> io_uring::squeue::Entry {
        let FileRead { file, offset, mut buffer, completer } = read;
        let bytes = buffer.bytes_mut();
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let descriptor = types::Fd(file.as_raw_fd());
        let order = opcode::Read::new(descriptor, bytes.as_mut_ptr(), bytes.len() as u32);
        let order = order.offset(offset).build().user_data(place as u64);
        let (since, patience) = (self.tick, completer.patience());
        // Moving the buffer does not move its bytes, which are on the heap.
        self.places[place] = Some(InFlight { _file: file, buffer, completer, since, patience });
        order
    }

    fn leave(&mut self, place: usize) -> Option<InFlight> {
        let read = self.places.get_mut(place)?.take();
        if read.is_some() {
            self.free.push(place);
        }
        read
    }
}
