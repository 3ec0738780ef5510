//! One stretch of memory in huge pages, where the system has them.
//!
//! A device takes a read into memory in one piece for each stretch that is physically in a row: a read of
//! 1 MiB into pages of 4 KiB is 256 pieces, which is more than some devices take at once, into huge pages
//! one or two. The memory is taken when it is first touched and all of it zero then.
//!
//! Invariants: the stretch stays mapped as long as this value lives; the bytes of a block are only touched
//! by whom it is lent to.
#![allow(unsafe_code)] // parts of one stretch are lent to several at a time

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::block::BLOCK;
use super::runs::Run;

/// Of x86-64, and of 64-bit Arm with pages of 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// A stretch of blocks of [`BLOCK`] bytes.
pub(super) struct HugePages {
    /// The first block: at a multiple of [`HUGE_PAGE`].
    first: NonNull<u8>,
    blocks: usize,
    /// Nothing where there are no blocks.
    mapped: Option<(NonNull<c_void>, usize)>,
}

// SAFETY: the stretch belongs to the process and not to a thread; who may touch which bytes when is up to
// the callers of the unsafe functions.
unsafe impl Send for HugePages {}
// SAFETY: as above.
unsafe impl Sync for HugePages {}

impl HugePages {
    /// A stretch of `blocks`, or of none where the system has no room left for so many addresses.
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
        // SAFETY: the mapping is a huge page longer than the blocks, so they fit behind any alignment.
        let first = unsafe { start.cast::<u8>().add(start.cast::<u8>().align_offset(HUGE_PAGE)) };
        let pages = Self { first, blocks, mapped: Some((start, bytes)) };
        // A system without huge pages gives small ones.
        let _ = pages.advise(0..blocks, Advice::LinuxHugepage);
        Some(pages)
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// The bytes of a run.
    ///
    /// # Safety
    /// The run lies in the stretch, and nobody writes to it while the slice lives.
    pub unsafe fn bytes(&self, run: Run) -> &[u8] {
        // SAFETY: initialised, since the system fills new pages with zeros; the rest the caller promises.
        unsafe { std::slice::from_raw_parts(self.at(run.start), run.blocks * BLOCK as usize) }
    }

    /// The bytes of a run, to be written to.
    ///
    /// # Safety
    /// The run lies in the stretch, and nobody else touches it while the slice lives.
    #[allow(clippy::mut_from_ref)] // the caller promises that there is one slice of a run
    pub unsafe fn bytes_mut(&self, run: Run) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at(run.start), run.blocks * BLOCK as usize) }
    }

    /// Gives memory back to the system: the huge pages that lie wholly behind `block`.
    ///
    /// # Safety
    /// None of the blocks from `block` on is lent.
    pub unsafe fn forget_from(&self, block: usize) {
        let kept = (block * BLOCK as usize).next_multiple_of(HUGE_PAGE) / BLOCK as usize;
        if kept < self.blocks {
            // What cannot be given back stays.
            let _ = self.advise(kept..self.blocks, Advice::LinuxDontNeed);
        }
    }

    fn at(&self, block: usize) -> *mut u8 {
        // SAFETY: callers give blocks of the stretch, or its end.
        unsafe { self.first.as_ptr().add(block * BLOCK as usize) }
    }

    fn advise(&self, blocks: std::ops::Range<usize>, advice: Advice) -> rustix::io::Result<()> {
        let bytes = blocks.len() * BLOCK as usize;
        // SAFETY: the range lies within the mapping; advice that drops contents is only given for blocks
        // that nobody has.
        unsafe { madvise(self.at(blocks.start).cast(), bytes, advice) }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let Some((start, bytes)) = self.mapped else { return };
        // SAFETY: this is the mapping, and all that was lent of it has come back.
        let _ = unsafe { munmap(start.as_ptr(), bytes) };
    }
}
