//! The chain of entries: each entry holds the checksum of the entry before it.
//!
//! The author of entry `n` has verified entry `n - 1` before it creates `n`, and an entry above the
//! boundary is never rewritten. So if an entry that a verified reader reads does not hold the checksum of
//! the one before it, one of the two was lost, swapped, edited, or restored from another time. That is
//! damage and not a rejection: no later entry can be trusted.
//!
//! A snapshot keeps the checksums of its last entries, so that it can be compared (`position.rs`) with
//! witnesses (`witness.rs`) and with the footers of blocks: these must have seen the same log, and no more
//! of it than exists.

use std::sync::Arc;

use sandur_format::catalog_entry::{CHAIN_LENGTH_MAX, LogChain};

/// The end of the chain at a snapshot's number. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain(Arc<LogChain>);

impl Chain {
    pub fn new(chain: LogChain) -> Self {
        Self(Arc::new(chain))
    }

    pub fn get(&self) -> &LogChain {
        &self.0
    }

    /// Returns the checksum of the last entry; 0 when it is not known or there is no entry.
    pub fn last(&self) -> u64 {
        self.0.checksums.back().copied().unwrap_or(0)
    }

    /// Appends the entry with the checksum `checksum`, which holds `before` as the checksum of the entry
    /// before it. Returns false, and changes nothing, if that does not match. `number` is the number of
    /// the entry before.
    pub fn follow(&mut self, number: u64, before: Option<u64>, checksum: u64) -> bool {
        let known = self.last();
        let is_next = match before {
            // Two kinds of authors cannot know the entry before: programs from before the chain, and
            // processes that had loaded only a checkpoint.
            None | Some(0) => !self.0.linked,
            Some(found) => found == known || (known == 0 && number > 0),
        };
        if is_next {
            let chain = Arc::make_mut(&mut self.0);
            chain.linked |= before.is_some();
            if chain.checksums.len() == CHAIN_LENGTH_MAX {
                chain.checksums.pop_front();
            }
            chain.checksums.push_back(checksum);
        }
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_begins_after_old_entries_and_has_no_gap() {
        let mut chain = Chain::default();
        assert!(chain.follow(0, None, 11), "an entry of version 1");
        assert!(chain.follow(1, None, 12));
        assert!(!chain.clone().follow(2, Some(99), 13), "it names another one");
        assert!(chain.clone().follow(2, Some(0), 13), "its author knew only a checkpoint");
        assert!(chain.follow(2, Some(12), 13));
        for (before, what) in [(None, "version 1 again"), (Some(0), "no name"), (Some(11), "a swapped one")] {
            assert!(!chain.clone().follow(3, before, 14), "{what}");
        }
        assert!(chain.follow(3, Some(13), 14));
        // From a checkpoint older than the chain, which does not hold the last checksum.
        assert!(Chain::default().follow(500, Some(77), 78));
        assert!(!Chain::default().follow(0, Some(77), 78), "nothing is before the first entry");
    }
}
