//! Places in the order of writing: they decide which of two samples with one series and timestamp was
//! written last.
//!
//! A block from a flush has its own place, which follows from where the catalog's log adds it. A merged
//! block takes over the place of its last input, so no two blocks ever have the same one. Places of one
//! incarnation ascend with its sequence numbers, since its floor rises with every flush.

/// Bits for the blocks of one transaction: the 4 MiB of an entry hold fewer than 65,536.
const BLOCK_BITS: u32 = 16;
/// Bits for the transactions of an entry, at most 256.
const TRANSACTION_BITS: u32 = 8;
/// Bits below the number of an entry; the highest of them marks places after all of the entry's own.
const ENTRY_BITS: u32 = BLOCK_BITS + TRANSACTION_BITS + 1;

/// A place in the order of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WritePlace(pub u64);

impl WritePlace {
    /// Returns the place of block `block` of transaction `transaction` of an entry.
    pub fn of(entry: u64, transaction: usize, block: usize) -> Self {
        let transaction = (transaction as u64) << BLOCK_BITS;
        Self(entry << ENTRY_BITS | transaction | block as u64)
    }

    /// Returns a place after all blocks that entry `entry` adds, and before those of all later entries.
    /// Used for a block whose own entry is lost and whose maker had read the log up to `entry`.
    pub fn after(entry: u64) -> Self {
        Self(entry << ENTRY_BITS | 1 << (ENTRY_BITS - 1))
    }
}
