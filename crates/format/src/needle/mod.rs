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
//! [`SLICES`] slices by key. The filters of a run of pages (a *segment*) are stored slice by slice, and
//! the blocks of a slice are ordered so that those of one key are close together for all pages. Testing
//! a key reads about a hundredth of a large segment.
//!
//! Invariants: the keys of a text are a pure function of its bytes, the same on every machine; they are
//! on disk. Both sides fold, so one filter serves case-sensitive and case-insensitive needles.

mod filter;
mod page_set;
mod segment;
mod slice_order;
#[cfg(test)]
mod tests;

pub use filter::{FilterBuilder, FilterView, PageFilter, SLICES};
pub use page_set::{PAGES_MAX, PageSet};
pub use sandur_simd::{
    GRAM, NEEDLE_MIN, WINDOW, WORD_GRAM, is_id_key, is_word_key, needle_keys, text_keys, word_keys,
};
pub(crate) use segment::SegmentForm;
pub use segment::{FilterCopy, FilterSegment, SegmentBuilder, SegmentPieces};
