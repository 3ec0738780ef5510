//! Sound substring filters: does any line of this page hold these bytes? "No" is certain.
//!
//! **Keys.** ASCII letters are folded to lower case. Every [`GRAM`] consecutive bytes are hashed to 32
//! bits; the minimum of every [`WINDOW`] consecutive hashes is a key of the text (a minimizer). Any
//! needle of at least [`NEEDLE_MIN`] bytes has at least one whole window, and the minimum of that
//! window is a key of every text that holds the needle. So all minima of the needle's windows must
//! be among a text's keys, or the text does not hold the needle. Of shorter needles words are tested:
//! every [`WORD_GRAM`] consecutive letters are a key too, see [`word_keys`]. Numbers shorter than that are
//! told apart by the text around them only, see [`text_keys`].
//!
//! **Filters.** The keys of a page go to a Bloom filter of cache-line blocks, cut in [`SLICES`] slices
//! by key, so that the filters of a run of pages (a *segment*) can be stored slice by slice: testing
//! one key reads one slice of each page, and those stand side by side.
//!
//! Invariants: the keys of a text are a pure function of its bytes, the same on every machine; they
//! are on disk. Both sides fold, so one filter serves exact and case-insensitive needles.

mod filter;
mod keys;
mod segment;
#[cfg(test)]
mod tests;

pub use filter::{FilterBuilder, FilterView, PageFilter, SLICES, slice_of};
pub use keys::{GRAM, NEEDLE_MIN, WINDOW, WORD_GRAM, is_word_key, needle_keys, text_keys, word_keys};
pub use segment::{FilterSegment, PAGES_MAX, SegmentBuilder, SegmentView};
