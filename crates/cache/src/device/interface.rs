//! What a device is to the flash tier.
//!
//! Invariant: a read is answered exactly once.

use std::io;

use super::buffer::AlignedBuffer;
use super::completion::Completer;
use super::uring::OwnReads;

/// One read of a batch: fills the whole of `buffer` from `offset`.
pub struct ReadRequest {
    /// Position on the device in bytes, a multiple of the device's read alignment.
    pub offset: u64,
    /// Where the bytes go; its length is the length of the read.
    pub buffer: AlignedBuffer,
    /// Who is told.
    pub completer: Completer,
}

/// A flat range of bytes that survives the process.
pub trait Device: Send + Sync + 'static {
    /// Size in bytes, a multiple of [`BLOCK`](super::BLOCK).
    fn size(&self) -> u64;

    /// What offsets and lengths of reads must be multiples of: a power of two of at most
    /// [`BLOCK`](super::BLOCK).
    fn read_alignment(&self) -> u64;

    /// Makes the calling thread the one that hands out what its own reads bring, if the device can do that:
    /// it needs no other thread then. Nothing where reads are carried out in another way.
    fn own_reads(&self) -> Option<OwnReads> {
        None
    }

    /// Starts all reads of `batch` at once and returns without waiting for any.
    fn submit(&self, batch: Vec<ReadRequest>);

    /// Reads `into.len()` bytes and waits for them.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data`, in order, and waits until the device has taken it.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Waits until everything written before survives a loss of power.
    fn sync(&self) -> io::Result<()>;

    /// Tells the device that these bytes are not needed any more; reading them gives anything.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// One tick of the watch. Reads that have been in flight for `patience` ticks are answered
    /// with [`ReadError::Late`](super::ReadError::Late); how many there were. Their buffers are kept
    /// until the device lets go.
    fn expire(&self, patience: u32) -> usize;
}
