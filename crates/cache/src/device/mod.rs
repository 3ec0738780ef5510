//! Devices: files, block devices, and one in memory that injects faults.
//!
//! A [`Device`] is a flat range of bytes. Reads are submitted in batches. All reads of a batch are in flight
//! at once, and each is answered through its own [`Completion`]. Writes, syncs and the reads of recovery and
//! reclaim block their caller, which is a thread of the flash tier and never a caller of the cache.
//!
//! Invariants: a read is answered exactly once, also when the device stalls, vanishes or closes. A
//! buffer that the kernel may still write to is never reused.

mod block;
mod buffer;
mod completion;
mod faulty;
mod file;
mod huge_pages;
mod interface;
mod pread_pool;
mod runs;
mod uring;

pub use block::BLOCK;
pub use buffer::{AlignedBuffer, BufferPool};
pub use completion::{Completer, Completion, ReadError, completion};
pub use faulty::{Fault, Faults, FaultyDevice};
pub use file::{DeviceError, FileDevice, FilePart, Readers};
pub use interface::{Device, ReadRequest};
pub use uring::OwnReads;
