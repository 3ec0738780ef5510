//! The codecs that all formats are made of: one file each, all synchronous, all bounded.
//!
//! Writers append to a `Vec<u8>`; readers take from a [`Reader`], which knows where in the object
//! it is, so that every error can say so. No reader allocates more than a bound that it was given.

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
