//! Places in the order of writing: of two samples of one series and instant, which came last.
//!
//! A block from a flush has a place of its own, which follows from where the catalog's log adds it; what is
//! merged takes over the place of the last of its inputs, so no two blocks ever have the same one. Places of
//! one incarnation rise with its sequence numbers, since its floor moves from flush to flush.

/// Bits for the blocks of one transaction: in the 4 MiB of an entry are fewer than 65,536.
const BLOCK_BITS: u32 = 16;
/// Bits for the transactions of an entry, at most 256.
const TRANSACTION_BITS: u32 = 8;
/// Bits below the number of an entry; the first of them tells places behind all of the entry's own.
const ENTRY_BITS: u32 = BLOCK_BITS + TRANSACTION_BITS + 1;

/// A place in the order of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WritePlace(pub u64);

impl WritePlace {
    /// That of block `block` of transaction `transaction` of an entry.
    pub fn of(entry: u64, transaction: usize, block: usize) -> Self {
        let transaction = (transaction as u64) << BLOCK_BITS;
        Self(entry << ENTRY_BITS | transaction | block as u64)
    }

    /// A place behind all that entry `entry` adds, and before those of all later ones: of a block whose own
    /// entry is lost and whose maker had read up to this one.
    pub fn after(entry: u64) -> Self {
        Self(entry << ENTRY_BITS | 1 << (ENTRY_BITS - 1))
    }
}
