//! The interface between the flash tier and a device.
//!
//! Invariant: a read is answered exactly once.

use std::io;

use super::buffer::AlignedBuffer;
use super::completion::Completer;
use super::uring::OwnReads;

/// One read of a batch: fills `buffer` completely from `offset`.
pub struct ReadRequest {
    /// Position on the device in bytes, a multiple of the device's read alignment.
    pub offset: u64,
    /// Receives the bytes; its length is the length of the read.
    pub buffer: AlignedBuffer,
    /// Receives the answer.
    pub completer: Completer,
}

/// A flat range of bytes that survives the process.
pub trait Device: Send + Sync + 'static {
    /// Size in bytes, a multiple of [`BLOCK`](super::BLOCK).
    fn size(&self) -> u64;

    /// The alignment of offsets and lengths of reads: a power of two, at most [`BLOCK`](super::BLOCK).
    fn read_alignment(&self) -> u64;

    /// Lets the calling thread complete its own reads, without another thread, if the device supports
    /// that. `None` if it does not.
    fn own_reads(&self) -> Option<OwnReads> {
        None
    }

    /// Starts all reads of `batch` at once and returns without waiting for any.
    fn submit(&self, batch: Vec<ReadRequest>);

    /// Reads `into.len()` bytes. Blocks.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data`, in order. Blocks until the device has accepted it.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Blocks until everything written before survives a loss of power.
    fn sync(&self) -> io::Result<()>;

    /// Tells the device that these bytes are not needed any more. Reads of them return undefined bytes.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Advances the clock of the watchdog by a tick. Answers the reads that have been in flight for
    /// `patience` ticks with [`ReadError::Late`](super::ReadError::Late) and returns their number. Their
    /// buffers stay reserved until the device has finished with them.
    fn expire(&self, patience: u32) -> usize;
}
