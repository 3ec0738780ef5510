//! Substring filters without false negatives: may any line of this page hold these bytes? "No" is
//! certain.
//!
//! **Keys.** ASCII letters are folded to lower case. Every [`GRAM`] consecutive bytes are hashed to 32
//! bits; the minimum of every [`WINDOW`] consecutive hashes is a key of the text (a minimizer). Any
//! needle of at least [`NEEDLE_MIN`] bytes has at least one complete window, and the minimum of that
//! window is a key of every text that holds the needle. So the minima of all windows of the needle must
//! be among a text's keys, or the text does not hold the needle. Shorter needles are tested by their
//! words: every [`WORD_GRAM`] consecutive letters are a key too, see [`word_keys`]. Shorter numbers are
//! distinguished only by the text around them, see [`text_keys`].
//!
//! **Filters.** The keys of a page are stored in a Bloom filter of cache-line blocks, divided into
//! [`SLICES`] slices by key. The filters of a run of pages (a *segment*) are stored slice by slice:
//! testing one key reads one slice of each page, and these slices are adjacent.
//!
//! Invariants: the keys of a text are a pure function of its bytes, the same on every machine; they are
//! on disk. Both sides fold, so one filter serves case-sensitive and case-insensitive needles.

mod filter;
mod keys;
mod segment;
#[cfg(test)]
mod tests;

pub use filter::{FilterBuilder, FilterView, PageFilter, SLICES, slice_of};
pub use keys::{GRAM, NEEDLE_MIN, WINDOW, WORD_GRAM, is_word_key, needle_keys, text_keys, word_keys};
pub use segment::{FilterSegment, PAGES_MAX, SegmentBuilder, SegmentView};
