//! The unit of all reads and writes.

/// Offsets, lengths and addresses of all reads and writes are multiples of this many bytes, or of
/// [`Device::read_alignment`](super::Device::read_alignment) for reads. Flash pages are no smaller.
pub const BLOCK: u64 = 4096;
