//! The codecs of all formats: one file each, all synchronous, all bounded.
//!
//! Writers append to a `Vec<u8>`. Readers use a [`Reader`], which tracks its offset in the object, so
//! that every error contains the offset. No reader allocates more than a bound that it was given.

pub mod bitpack;
pub mod checksum;
pub mod compress;
pub(crate) mod labels;
pub mod number_page;
pub mod numbers;
pub mod reader;
pub mod timestamps;
pub mod varint;

pub use checksum::{Piece, crc32c};
pub use reader::Reader;
