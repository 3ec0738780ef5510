//! The alignment of reads and writes.

/// Block size in bytes: offsets, lengths and memory addresses of writes are multiples of it. Those of reads
/// are multiples of [`Device::read_alignment`](super::Device::read_alignment), which is not larger.
pub const BLOCK: u64 = 4096;
