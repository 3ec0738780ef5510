//! Line shapes: a codec for the line column of a page that splits lines by their structure instead of
//! searching for repeated bytes.
//!
//! **What it is.** Few logging statements write the lines of a service. A *shape* is the constant text of
//! such lines, with *slots* for the variable parts. A line is then the number of its shape and the
//! contents of its slots: timestamps, which mostly equal the row's and take no space, and variable
//! *tokens*. Tokens at the same place (after the same JSON key, for example) form a *pool* across all
//! shapes. A pool is stored as numbers, or as distinct tokens and their repetitions. The distinct tokens
//! are text or *patterns* of *atoms* (numbers, addresses, UUIDs, hexadecimal strings). All numbers are
//! stored as columns that are bit packed, or split into a class, compressed with zstd, and low bits.
//!
//! **What it is not.** It knows only where values start in JSON and logfmt, and it parses no line
//! completely: assembling the pieces always returns the same bytes. It is not suited for lines without
//! structure; [`encode`] then returns false and the caller uses zstd.
//!
//! **Life of a page.** [`encode`]: `clock` learns from a sample which timestamp layouts occur; `split`
//! splits each line, with the byte classes of `classes` and `window`; `table` finds its shape; `pools`
//! sorts the tokens; `tokens`, `atoms`, `repeats` and `column` store each pool into the streams of
//! `sink`. [`ShapedLines`]: `source` reads the streams, `opened` finds the pools in them, `values` writes
//! the text of tokens into one arena, and `decode` copies constant text and tokens into the lines. A test
//! of lines runs over the pieces instead (`search`, with the state sets of `image`), and a query of some
//! fields assembles only the parts that have them (`reduce`).
//!
//! **Invariants.** Decoding returns exactly the encoded bytes and line ends, given the same timestamps.
//! The same lines give the same bytes on every machine. Every length that is read is checked before
//! memory is reserved for it; memory is bounded by a small multiple of the lines' length.
//! `docs/formats/line-shapes.md` specifies the bytes.

mod atoms;
mod bits;
mod classed;
mod clock;
mod column;
mod decode;
mod encode;
mod image;
mod layout;
mod numbers;
mod opened;
mod pools;
mod reduce;
#[cfg(test)]
mod reduce_tests;
mod repeats;
mod search;
#[cfg(test)]
mod search_tests;
mod sink;
mod slot_order;
mod source;
mod split;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod values;
mod window;
mod words;

pub use decode::decode;
pub use encode::{ShapeScratch, encode};
pub use opened::ShapedLines;

/// Version of the format, its first byte.
const VERSION: u8 = 1;

/// Most bytes of lines with their separators: lengths within a line have 24 bits.
const MAX_TEXT: usize = (1 << 24) - 1;

/// Lines have at most one slot per this many bytes, which bounds the memory of encoder and decoder.
const BYTES_PER_SLOT: usize = 4;

/// Name of the codec in errors.
const PART: &str = "line shapes";

/// Returns the most bytes of a stream that is compressed as a whole. The text stream holds each byte of
/// the lines at most once, and a line feed per token.
fn stream_limit(raw_len: usize) -> usize {
    raw_len + (64 << 10)
}
