//! Files and block devices as one flat [`Device`].
//!
//! Invariants: a file is fully allocated before it is used. A size that would not leave the file system its
//! reserve is refused with the numbers. A file is locked, so that two processes never share it. Direct I/O is
//! used where the file system supports it, so that the page cache does not hold the data a second time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use sandur_base::units::ByteSize;

use super::block::BLOCK;
use super::buffer::BufferPool;
use super::interface::{Device, ReadRequest};
use super::pread_pool::{FileRead, PreadPool};
use super::uring::{OwnReads, UringReader};

/// Parts of a device of several files are multiples of this, so that no segment lies in two files.
const PART_STEP: u64 = 64 << 20;

/// Bytes that stay free on a file system: a hundredth of it, at most this.
const RESERVE_MAX: u64 = 1 << 30;

/// Buffers for reads into and writes from memory that is not aligned: a few footers.
const BOUNCE_BYTES: u64 = 64 << 20;

/// Bytes of these buffers that are kept when idle.
const BOUNCE_RETAINED: u64 = 2 << 20;

/// Most io_uring rings: each needs a thread.
const RINGS_MAX: usize = 4;

/// Attempts to lock a file: two seconds in total.
const LOCK_TRIES: usize = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A file or block device, and the number of its bytes to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// A regular file, which is created if it is missing, or a block device.
    pub path: PathBuf,
    /// Bytes to use. 0 means all of a block device.
    pub bytes: u64,
}

/// Why a device cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No part was named, or one is too small.
    #[error("'{path}': {bytes} bytes are too few for a cache; give at least {least}")]
    TooSmall {
        /// The part.
        path: String,
        /// The requested bytes.
        bytes: u64,
        /// The smallest usable size in bytes.
        least: u64,
    },
    /// The file system has no room for the file.
    #[error(
        "'{path}': {} requested, but the file system has {} left after its reserve of {}; \
         request less or free space",
        ByteSize(*.asked), ByteSize(*.free), ByteSize(*.reserve)
    )]
    NoRoom {
        /// The file.
        path: String,
        /// The requested bytes.
        asked: u64,
        /// Bytes that are available.
        free: u64,
        /// Bytes that stay free for other files.
        reserve: u64,
    },
    /// Another process uses the file.
    #[error("'{path}' is in use by another process; stop that process or name another file")]
    Locked {
        /// The file.
        path: String,
    },
    /// A system call failed.
    #[error("cannot {action} '{path}': {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The file.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// How batches of reads are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readers {
    /// Whether to use io_uring where it is available.
    pub uring: bool,
    /// Number of reading threads where it is not.
    pub threads: usize,
}

impl Default for Readers {
    fn default() -> Self {
        Self { uring: true, threads: 16 }
    }
}

/// Files and block devices, concatenated.
pub struct FileDevice {
    parts: Vec<Part>,
    size: u64,
    read_alignment: u64,
    discards: bool,
    /// Buffers for callers whose memory is not aligned: superblocks, footers.
    bounce: BufferPool,
    reader: Reader,
}

/// Executes batches of reads.
enum Reader {
    Uring(UringReader),
    Threads(PreadPool),
}

struct Part {
    file: Arc<File>,
    start: u64,
    bytes: u64,
}

impl FileDevice {
    /// Opens, locks and allocates all parts.
    pub fn open(parts: &[FilePart], readers: Readers) -> Result<Self, DeviceError> {
        let mut opened = Vec::with_capacity(parts.len());
        let (mut size, mut read_alignment, mut discards, mut is_direct) = (0, 512, true, true);
        for part in parts {
            let (file, bytes, is_block_device) = open_part(part, parts.len() > 1)?;
            is_direct &= is_opened_direct(&file);
            read_alignment = read_alignment.max(probe_alignment(&file));
            discards &= is_block_device;
            opened.push(Part { file: Arc::new(file), start: size, bytes });
            size += bytes;
        }
        if opened.is_empty() {
            return Err(DeviceError::TooSmall { path: String::new(), bytes: 0, least: BLOCK });
        }
        let started = Reader::start(is_direct, readers);
        let reader = started.map_err(|source| DeviceError::Io {
            action: "start readers of",
            path: parts[0].path.display().to_string(),
            source,
        })?;
        let bounce = BufferPool::new(BOUNCE_BYTES, BOUNCE_RETAINED);
        Ok(Self { parts: opened, size, read_alignment, discards, bounce, reader })
    }

    /// The part that holds `offset`, the position in its file, and the number of bytes from there to the
    /// end of the part.
    fn place(&self, offset: u64) -> io::Result<(&Part, u64, u64)> {
        let after = self.parts.partition_point(|part| part.start <= offset);
        let part = &self.parts[after.saturating_sub(1)];
        let within = offset - part.start;
        if within >= part.bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        Ok((part, within, part.bytes - within))
    }

    /// Calls `visit` for each part of a range, with the file, the position in it and the range of the buffer.
    fn pieces(
        &self,
        offset: u64,
        length: usize,
        mut visit: impl FnMut(&File, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            let (part, within, left) = self.place(offset + done as u64)?;
            let end = length.min(done + usize::try_from(left).unwrap_or(usize::MAX));
            visit(&part.file, within, done..end)?;
            done = end;
        }
        Ok(())
    }
}

impl Device for FileDevice {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_alignment(&self) -> u64 {
        self.read_alignment
    }

    fn own_reads(&self) -> Option<OwnReads> {
        match &self.reader {
            Reader::Uring(reader) => reader.own_reads(),
            Reader::Threads(_) => None,
        }
    }

    fn submit(&self, batch: Vec<ReadRequest>) {
        let reads = batch.into_iter().filter_map(|read| {
            let ReadRequest { offset, buffer, completer } = read;
            match self.place(offset) {
                Ok((part, offset, _)) => {
                    Some(FileRead { file: Arc::clone(&part.file), offset, buffer, completer })
                }
                Err(error) => {
                    completer.complete(Err(error.into()));
                    None
                }
            }
        });
        match &self.reader {
            Reader::Uring(reader) => reader.submit(reads),
            Reader::Threads(reader) => reader.submit(reads),
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if !is_aligned(into) {
            let mut buffer = self.bounce.take(into.len()).ok_or(io::ErrorKind::OutOfMemory)?;
            self.read_at(offset, buffer.bytes_mut())?;
            into.copy_from_slice(buffer.as_ref());
            return Ok(());
        }
        self.pieces(offset, into.len(), |file, at, range| file.read_exact_at(&mut into[range], at))
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !is_aligned(data) {
            let mut buffer = self.bounce.take(data.len()).ok_or(io::ErrorKind::OutOfMemory)?;
            buffer.bytes_mut().copy_from_slice(data);
            return self.write_at(offset, buffer.as_ref());
        }
        self.pieces(offset, data.len(), |file, at, range| file.write_all_at(&data[range], at))
    }

    fn sync(&self) -> io::Result<()> {
        for part in &self.parts {
            rustix::fs::fdatasync(&*part.file)?;
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        // Punching a hole in a file would return its space to the file system, where other files could
        // take it.
        if !self.discards {
            return Ok(());
        }
        let (part, within, left) = self.place(offset)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&*part.file, flags, within, length.min(left)) {
            Err(error) if error != rustix::io::Errno::OPNOTSUPP => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn expire(&self, patience: u32) -> usize {
        match &self.reader {
            Reader::Uring(reader) => reader.expire(patience),
            Reader::Threads(reader) => reader.expire(patience),
        }
    }
}

impl Reader {
    /// Uses io_uring for direct files where the kernel allows it. For cached files threads are as good.
    fn start(is_direct: bool, readers: Readers) -> io::Result<Self> {
        let Readers { uring, threads } = readers;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if is_direct && uring {
            match UringReader::start(cpus.min(RINGS_MAX)) {
                Ok(reader) => return Ok(Self::Uring(reader)),
                Err(error) => tracing::info!(%error, threads, "no io_uring available: threads read flash"),
            }
        }
        PreadPool::start(threads.max(1)).map(Self::Threads)
    }
}

/// Whether direct I/O accepts this memory.
fn is_aligned(bytes: &[u8]) -> bool {
    (bytes.as_ptr() as usize).is_multiple_of(BLOCK as usize)
}

fn open_part(part: &FilePart, one_of_several: bool) -> Result<(File, u64, bool), DeviceError> {
    let path = part.path.display().to_string();
    let failed = |action| {
        let path = path.clone();
        move |source: io::Error| DeviceError::Io { action, path, source }
    };
    let file = open_direct(&part.path).map_err(failed("open"))?;
    if !lock_in_time(&file).map_err(failed("lock"))? {
        return Err(DeviceError::Locked { path });
    }
    let is_block_device = file.metadata().map_err(failed("stat"))?.file_type().is_block_device();
    let mut bytes = part.bytes;
    if is_block_device {
        let whole = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(io::Error::from);
        let whole = whole.map_err(failed("measure"))?;
        bytes = if bytes == 0 { whole } else { bytes.min(whole) };
    }
    let step = if one_of_several { PART_STEP } else { BLOCK };
    let rounded = bytes / step * step;
    if rounded == 0 {
        return Err(DeviceError::TooSmall { path, bytes, least: step });
    }
    if !is_block_device {
        let was = file.metadata().map_err(failed("stat"))?.len();
        if was > 0 && was < rounded {
            let (was, is) = (ByteSize(was), ByteSize(rounded));
            tracing::warn!(
                path,
                %was,
                %is,
                "the file of the cache is shorter than the given size: it was cut, or the size was raised. \
                 What was in the missing part is lost"
            );
        }
        allocate(&file, &part.path, rounded)?;
    }
    Ok((file, rounded, is_block_device))
}

/// Locks a file. Returns `false` if another process holds the lock. A process that was just killed still
/// holds its lock for a moment, until the kernel has closed its rings.
#[allow(clippy::disallowed_methods)] // it waits for the kernel, in real time
fn lock_in_time(file: &File) -> io::Result<bool> {
    for _ in 0..LOCK_TRIES {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(LOCK_PAUSE),
            other => return other.map(|()| true).map_err(io::Error::from),
        }
    }
    Ok(false)
}

/// Opens with direct I/O where the file system supports it, otherwise through the page cache without
/// read-ahead.
fn open_direct(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or_default();
    match options.clone().custom_flags(direct).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            let file = options.open(path)?;
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random); // a failed advice changes no result
            Ok(file)
        }
        other => other,
    }
}

fn is_opened_direct(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

fn allocate(file: &File, path: &Path, bytes: u64) -> Result<(), DeviceError> {
    let name = || path.display().to_string();
    let failed = |action, source| DeviceError::Io { action, path: name(), source };
    let metadata = file.metadata().map_err(|e| failed("stat", e))?;
    let held = metadata.blocks() * 512;
    let system = rustix::fs::fstatvfs(file).map_err(|e| failed("read the free space of", e.into()))?;
    let reserve = (system.f_blocks * system.f_frsize / 100).min(RESERVE_MAX);
    let free = (system.f_bavail * system.f_frsize + held).saturating_sub(reserve);
    // An allocated file needs no more space, however full the disk is now.
    if bytes > free.max(held) {
        return Err(DeviceError::NoRoom { path: name(), asked: bytes, free, reserve });
    }
    if metadata.len() > bytes {
        file.set_len(bytes).map_err(|e| failed("shorten", e))?;
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
        // Some file systems cannot reserve space. There a full disk appears as a failed write.
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes).map_err(|e| failed("lengthen", e)),
        Err(rustix::io::Errno::NOSPC) => {
            Err(DeviceError::NoRoom { path: name(), asked: bytes, free, reserve })
        }
        other => other.map_err(|e| failed("allocate", e.into())),
    }
}

/// The smallest read that the file accepts: 512 bytes or a block.
fn probe_alignment(file: &File) -> u64 {
    let pool = BufferPool::new(BLOCK, 0);
    let Some(mut buffer) = pool.take(512) else { return BLOCK };
    match file.read_at(buffer.bytes_mut(), 512) {
        Ok(_) => 512,
        Err(_) => BLOCK,
    }
}

#[cfg(test)]
mod tests {
    use super::super::completion;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn writes_are_read_back_across_files() {
        for uring in [true, false] {
            write_and_read_back(Readers { uring, threads: 2 });
        }
    }

    fn write_and_read_back(readers: Readers) {
        let folder = tempfile::tempdir().unwrap();
        let part = |name| FilePart { path: folder.path().join(name), bytes: PART_STEP + 5 };
        let device = FileDevice::open(&[part("a"), part("b")], readers).unwrap();
        assert_eq!(device.size(), 2 * PART_STEP);
        let pool = BufferPool::new(1 << 20, 0);
        let mut data = pool.take(3 * BLOCK as usize).unwrap();
        data.bytes_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 512) as u8 + 1);
        device.write_at(PART_STEP - BLOCK, data.as_ref()).unwrap();
        device.sync().unwrap();
        let mut waiting = Vec::new();
        let batch = (0..3).map(|block| {
            let (completer, completion) = completion();
            waiting.push(completion);
            let buffer = pool.take(BLOCK as usize).unwrap();
            ReadRequest { offset: PART_STEP - BLOCK + block * BLOCK, buffer, completer }
        });
        device.submit(batch.collect());
        for (block, completion) in waiting.into_iter().enumerate() {
            let read = block_on(completion).unwrap();
            assert_eq!(read.as_ref(), &data.as_ref()[block * 4096..][..4096]);
        }
        let mut back = pool.take(3 * BLOCK as usize).unwrap();
        device.read_at(PART_STEP - BLOCK, back.bytes_mut()).unwrap();
        assert_eq!(back.as_ref(), data.as_ref());
    }

    /// Method: a thread waits only for its own ring and no other thread hands out its answers.
    #[test]
    fn a_thread_with_its_own_ring_answers_its_own_reads() {
        let folder = tempfile::tempdir().unwrap();
        let part = FilePart { path: folder.path().join("one"), bytes: 16 << 20 };
        let device = FileDevice::open(&[part], Readers { uring: true, threads: 1 }).unwrap();
        let pool = BufferPool::new(8 << 20, 0);
        let mut bytes = pool.take(64 * 4096).unwrap();
        bytes.bytes_mut().iter_mut().enumerate().for_each(|(n, byte)| *byte = (n / 4096) as u8);
        device.write_at(0, bytes.as_ref()).unwrap();
        let Some(own) = device.own_reads() else {
            eprintln!("skipped: io_uring is not available");
            return;
        };
        for round in 0..50 {
            let (mut batch, mut waiting) = (Vec::new(), Vec::new());
            for block in 0..=round {
                let (completer, completion) = completion();
                waiting.push((block, completion));
                batch.push(ReadRequest {
                    offset: block * BLOCK,
                    buffer: pool.take(4096).unwrap(),
                    completer,
                });
            }
            device.submit(batch);
            own.hand_over();
            for (block, mut completion) in waiting {
                let mut context = Context::from_waker(Waker::noop());
                let read = loop {
                    if let Poll::Ready(read) = Pin::new(&mut completion).poll(&mut context) {
                        break read.unwrap();
                    }
                    let mut wait = [rustix::event::PollFd::new(&own, rustix::event::PollFlags::IN)];
                    match rustix::event::poll(&mut wait, None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => own.hand_out(),
                        Err(error) => panic!("{error}"),
                    }
                };
                assert!(read.as_ref().iter().all(|byte| u64::from(*byte) == block));
            }
        }
        drop(own);
        assert_eq!(pool.bytes_out(), bytes.as_ref().len() as u64);
    }

    #[test]
    fn a_thousand_reads_at_once_from_many_threads_are_all_answered() {
        for uring in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let part = FilePart { path: folder.path().join("one"), bytes: 16 << 20 };
            let device = FileDevice::open(&[part], Readers { uring, threads: 4 }).unwrap();
            let pool = BufferPool::new(64 << 20, 1 << 20);
            for block in 0..4096 {
                let mut bytes = pool.take(4096).unwrap();
                bytes.bytes_mut().fill((block % 251) as u8);
                device.write_at(block * BLOCK, bytes.as_ref()).unwrap();
            }
            std::thread::scope(|scope| {
                for worker in 0..4_u64 {
                    let (device, pool) = (&device, &pool);
                    scope.spawn(move || read_thousand(device, pool, worker));
                }
            });
        }
    }

    fn read_thousand(device: &FileDevice, pool: &BufferPool, worker: u64) {
        for round in 0..4 {
            let blocks = (0..250).map(|n| (n * 16 + worker * 4 + round) * 7919 % 4096);
            let (mut batch, mut waiting) = (Vec::new(), Vec::new());
            for block in blocks {
                let (completer, completion) = completion();
                waiting.push((block, completion));
                let buffer = pool.take(4096).unwrap();
                batch.push(ReadRequest { offset: block * BLOCK, buffer, completer });
            }
            device.submit(batch);
            for (block, completion) in waiting {
                let read = block_on(completion).unwrap();
                assert!(read.as_ref().iter().all(|&byte| byte == (block % 251) as u8), "block {block}");
            }
        }
    }

    #[test]
    fn a_device_is_closed_with_reads_in_flight() {
        let folder = tempfile::tempdir().unwrap();
        let part = FilePart { path: folder.path().join("one"), bytes: 16 << 20 };
        let device = FileDevice::open(&[part], Readers::default()).unwrap();
        let pool = BufferPool::new(64 << 20, 0);
        let (mut batch, mut waiting) = (Vec::new(), Vec::new());
        for block in 0..500 {
            let (completer, completion) = completion();
            waiting.push(completion);
            batch.push(ReadRequest { offset: block * BLOCK, buffer: pool.take(4096).unwrap(), completer });
        }
        device.submit(batch);
        drop(device);
        // Each read is answered, with bytes or an error.
        let answered = waiting.into_iter().map(block_on).filter(Result::is_ok).count();
        assert!(answered <= 500);
        assert_eq!(pool.bytes_out(), 0);
    }

    #[test]
    fn a_size_that_does_not_fit_is_refused_with_the_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let part = FilePart { path: folder.path().join("huge"), bytes: 1 << 60 };
        let refusal = FileDevice::open(&[part], Readers::default()).err().unwrap();
        assert!(matches!(refusal, DeviceError::NoRoom { asked, .. } if asked == 1 << 60), "{refusal}");
        assert!(refusal.to_string().contains("request less or free space"));
    }

    #[test]
    fn a_file_in_use_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let part = FilePart { path: folder.path().join("one"), bytes: 1 << 20 };
        let _first = FileDevice::open(std::slice::from_ref(&part), Readers::default()).unwrap();
        let refusal = FileDevice::open(&[part], Readers::default()).err().unwrap();
        assert!(matches!(refusal, DeviceError::Locked { .. }), "{refusal}");
    }
}
