//! One mapping of huge pages, where the system has them.
//!
//! A device transfers a read as one segment for each physically contiguous range of memory. A read of 1
//! MiB into pages of 4 KiB has 256 segments, which is more than some devices accept at once; into huge
//! pages it has one or two. Physical memory is allocated at the first touch and is zero then.
//!
//! Invariants: the mapping lives as long as this value. Only the borrower of a block touches its bytes.
#![allow(unsafe_code)] // parts of one mapping are lent to several users at a time

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::block::BLOCK;
use super::runs::Run;

/// Size of a huge page on x86-64, and on 64-bit Arm with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping of blocks of [`BLOCK`] bytes.
pub(super) struct HugePages {
    /// The first block, at a multiple of [`HUGE_PAGE`].
    first: NonNull<u8>,
    blocks: usize,
    /// Start and length in bytes; `None` if there are no blocks.
    mapped: Option<(NonNull<c_void>, usize)>,
}

// SAFETY: the mapping belongs to the process and not to a thread. Callers of the unsafe functions ensure
// that accesses do not conflict.
unsafe impl Send for HugePages {}
// SAFETY: as above.
unsafe impl Sync for HugePages {}

impl HugePages {
    /// Maps `blocks` blocks, or none if the address space has no room for them.
    pub fn map(blocks: usize) -> Self {
        Self::try_map(blocks).unwrap_or(Self { first: NonNull::dangling(), blocks: 0, mapped: None })
    }

    fn try_map(blocks: usize) -> Option<Self> {
        let bytes = blocks * BLOCK as usize + HUGE_PAGE;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        };
        let start = NonNull::new(start.ok()?)?;
        // SAFETY: the mapping is a huge page longer than the blocks, so they fit after any alignment.
        let first = unsafe { start.cast::<u8>().add(start.cast::<u8>().align_offset(HUGE_PAGE)) };
        let pages = Self { first, blocks, mapped: Some((start, bytes)) };
        // A system without huge pages uses small ones.
        let _ = pages.advise(0..blocks, Advice::LinuxHugepage);
        Some(pages)
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The bytes of a run.
    ///
    /// # Safety
    /// The run lies in the mapping, and no other code writes to it while the slice lives.
    pub unsafe fn bytes(&self, run: Run) -> &[u8] {
        // SAFETY: initialised, since the system fills new pages with zeros; the caller ensures the rest.
        unsafe { std::slice::from_raw_parts(self.at(run.start), run.blocks * BLOCK as usize) }
    }

    /// The bytes of a run, for writing.
    ///
    /// # Safety
    /// The run lies in the mapping, and no other code accesses it while the slice lives.
    #[allow(clippy::mut_from_ref)] // the caller ensures that there is one slice of a run
    pub unsafe fn bytes_mut(&self, run: Run) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at(run.start), run.blocks * BLOCK as usize) }
    }

    /// Returns to the system the memory of the huge pages that lie completely after `block`.
    ///
    /// # Safety
    /// None of the blocks from `block` on is lent.
    pub unsafe fn forget_from(&self, block: usize) {
        let kept = (block * BLOCK as usize).next_multiple_of(HUGE_PAGE) / BLOCK as usize;
        if kept < self.blocks {
            // If the call fails, the memory stays allocated.
            let _ = self.advise(kept..self.blocks, Advice::LinuxDontNeed);
        }
    }

    fn at(&self, block: usize) -> *mut u8 {
        // SAFETY: callers pass a block of the mapping, or its end.
        unsafe { self.first.as_ptr().add(block * BLOCK as usize) }
    }

    fn advise(&self, blocks: std::ops::Range<usize>, advice: Advice) -> rustix::io::Result<()> {
        let bytes = blocks.len() * BLOCK as usize;
        // SAFETY: the range lies within the mapping. Advice that drops contents is given only for blocks
        // that are not lent.
        unsafe { madvise(self.at(blocks.start).cast(), bytes, advice) }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let Some((start, bytes)) = self.mapped else { return };
        // SAFETY: this is the mapping, and no block of it is lent any more.
        let _ = unsafe { munmap(start.as_ptr(), bytes) };
    }
}
