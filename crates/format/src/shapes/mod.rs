//! Line shapes: a codec for the line column of a page that takes lines apart instead of looking for
//! repeated bytes.
//!
//! **What it is.** Lines of one service are written by few statements. A *shape* is the constant text of
//! such lines with *slots* for what varies. A line is then the number of its shape and what its slots
//! hold: timestamps, which mostly equal the row's and cost nothing, and variable *tokens*. Tokens that
//! stand in the same place (after the same JSON key, say) make a *pool*, whatever the shape; a pool is
//! stored as numbers, or as different tokens and where they repeat; the different ones are text or
//! *patterns* of *atoms* (numbers, addresses, UUIDs, hexadecimal strings). All numbers end as columns
//! that are packed by bits or split into a class, compressed with zstd, and low bits.
//!
//! **What it is not.** It knows nothing of JSON or logfmt beyond where values start, and it parses no line
//! completely: whatever it takes apart, putting the pieces together again gives the same bytes. It is no
//! codec for lines without structure; [`encode`] then says so and the caller takes zstd.
//!
//! **Life of a page.** [`encode`]: `clock` learns from a sample which timestamp layouts occur; `split`
//! cuts each line, with the byte classes of `classes` and `window`; `table` finds its shape; `pools` sorts
//! the tokens; `tokens`, `atoms`, `repeats` and `column` store each pool into the streams of `sink`.
//! [`ShapedLines`]: `source` reads the streams, `opened` finds the pools in them, `values` makes the text of
//! tokens in one arena, and `decode` copies constant text and tokens into the lines. A test of lines runs
//! over the pieces instead (`search`, with the sets of states of `image`).
//!
//! **Invariants.** Decoding gives exactly the bytes and line ends that were encoded, given the same
//! timestamps. The same lines give the same bytes on every machine. Every length that is read is checked
//! before memory is taken for it; memory is bounded by a small multiple of the lines' length. The bytes
//! are specified in `docs/formats/line-shapes.md`.

mod atoms;
mod bits;
mod classes;
mod clock;
mod column;
mod decode;
mod encode;
mod image;
mod layout;
mod numbers;
mod opened;
mod pools;
mod repeats;
mod search;
#[cfg(test)]
mod search_tests;
mod sink;
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

/// Lines have a slot per so many bytes at most: it bounds the memory of both sides.
const BYTES_PER_SLOT: usize = 4;

/// Errors name the codec by this.
const PART: &str = "line shapes";

/// Most bytes of a stream that is compressed as a whole. The text stream holds each byte of the lines
/// once at most, and a line feed per token.
fn stream_limit(raw_len: usize) -> usize {
    raw_len + (64 << 10)
}
