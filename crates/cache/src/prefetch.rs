//! Prefetches memory into the caches of the processor.
//!
//! A lookup of many keys touches memory that is in no cache: a cell of a table, the entry that it names,
//! and the item. Loads that are requested together overlap; requested one after the other, each waits
//! for the previous one.
//!
//! Invariant: a prefetch is only a hint. It reads no byte, so a wrong address costs only time.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the first `bytes` bytes of the target of `from`, at least one cache line.
#[inline(always)]
pub(crate) fn prefetch<T: ?Sized>(from: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..bytes.max(1)).step_by(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction reads nothing and never faults, whatever the address.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(offset));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, bytes, LINE);
}
