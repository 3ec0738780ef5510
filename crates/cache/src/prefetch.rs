//! Asks the processor for memory that will be needed soon.
//!
//! A lookup of many keys touches memory that is in no cache: a cell of a table, the entry that it names, the
//! item. Asked for together, the loads of all keys overlap; one after the other, each waits for the last.
//!
//! Invariant: only ever a hint. No byte is read, so a wrong address costs nothing but time.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the first `bytes` bytes of what `from` points to, and for its line in any case.
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
