//! General-purpose compression: zstd for columns and footers, lz4 and snappy for WAL arenas.
//!
//! Contexts are kept per thread, since creating one costs more than compressing a small column.
//! Decompression requires the exact plain length, which the caller has bounded, and fails when it
//! differs.

use std::cell::RefCell;
use std::io::Cursor;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

use crate::error::Error;

/// Codec id of stored (uncompressed) bytes.
pub const STORED: u8 = 0;
/// Codec id of one zstd frame.
pub const ZSTD: u8 = 1;

/// The default level of columns. It looks back 512 KiB with a table of 2^14 entries. Looking back a
/// complete page of 2 MiB with 2^15 entries makes log lines 1.3 % smaller and takes 6 % longer (2^16
/// entries: 1.7 % and 13 %; level 3: 1 % larger and 35 % slower).
const FAST_LEVEL: i32 = 1;
const FAST_WINDOW_LOG: u32 = 21;
const FAST_HASH_LOG: u32 = 15;

thread_local! {
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

fn compressor(level: i32) -> Compressor<'static> {
    let mut made = Compressor::new(level).expect("every zstd level is accepted and clamped");
    if level == FAST_LEVEL {
        for parameter in [CParameter::WindowLog(FAST_WINDOW_LOG), CParameter::HashLog(FAST_HASH_LOG)] {
            made.set_parameter(parameter).expect("both are within the bounds of zstd");
        }
    }
    made
}

/// Appends `plain` to `out` as one zstd frame and returns the frame's length.
pub fn put_zstd(out: &mut Vec<u8>, plain: &[u8], level: i32) -> usize {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some((kept, compressor)) if *kept == level => compressor,
            _ => &mut slot.insert((level, compressor(level))).1,
        };
        let start = out.len();
        out.reserve(zstd::zstd_safe::compress_bound(plain.len()));
        let mut frame = Cursor::new(out);
        frame.set_position(start as u64);
        let length = compressor.compress_to_buffer(plain, &mut frame);
        length.expect("the buffer has the bound of a compressed frame")
    })
}

/// Appends `plain` in the smaller of its two forms and returns the codec. The compressed form must save
/// at least an eighth, since decompression costs time.
pub fn put_smaller(out: &mut Vec<u8>, plain: &[u8], level: i32) -> u8 {
    let start = out.len();
    if plain.len() >= 64 {
        let length = put_zstd(out, plain, level);
        if length < plain.len() - plain.len() / 8 {
            return ZSTD;
        }
        out.truncate(start);
    }
    out.extend_from_slice(plain);
    STORED
}

/// Decompresses a zstd frame; the caller bounds `plain_len`.
pub fn get_zstd(frame: &[u8], plain_len: usize, part: &'static str, offset: u64) -> Result<Vec<u8>, Error> {
    let malformed = |what| Error::Malformed { part, offset, what };
    // A frame with a false length must not make the reader reserve memory for it.
    match zstd::zstd_safe::get_frame_content_size(frame) {
        Ok(Some(length)) if length == plain_len as u64 => {}
        Ok(_) => return Err(malformed("the zstd frame's length differs from the stored one")),
        Err(_) => return Err(malformed("not a zstd frame")),
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(Decompressor::new().expect("a context without a dictionary")),
        };
        let mut plain = Vec::with_capacity(plain_len);
        let read = decompressor.decompress_to_buffer(frame, &mut plain);
        match read {
            Ok(length) if length == plain_len => Ok(plain),
            Ok(_) => Err(malformed("the decompressed length differs from the stored one")),
            Err(_) => Err(malformed("the zstd frame cannot be decompressed")),
        }
    })
}

/// Compresses to a raw lz4 block.
pub fn lz4(plain: &[u8]) -> Vec<u8> {
    lz4_flex::block::compress(plain)
}

/// Decompresses a raw lz4 block; the caller bounds `plain_len`.
pub fn get_lz4(block: &[u8], plain_len: usize, part: &'static str, offset: u64) -> Result<Vec<u8>, Error> {
    let malformed = |what| Error::Malformed { part, offset, what };
    // lz4 expands at most 255 times: a larger length is invalid and reserves no memory.
    if plain_len > block.len().saturating_mul(255) + 64 {
        return Err(malformed("the lz4 block is too short for its length"));
    }
    let mut plain = vec![0; plain_len];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(length) if length == plain_len => Ok(plain),
        Ok(_) => Err(malformed("the decompressed length differs from the stored one")),
        Err(_) => Err(malformed("the lz4 block cannot be decompressed")),
    }
}

/// Decompresses a raw snappy block; the caller bounds `plain_len`.
pub fn get_snappy(block: &[u8], plain_len: usize, part: &'static str, offset: u64) -> Result<Vec<u8>, Error> {
    let malformed = |what| Error::Malformed { part, offset, what };
    // A copy of 64 bytes takes at least two bytes, so snappy expands at most 32 times.
    let possible = plain_len <= block.len().saturating_mul(32) + 64;
    if !possible || snap::raw::decompress_len(block).ok() != Some(plain_len) {
        return Err(malformed("the snappy block's length differs from the stored one"));
    }
    let mut plain = vec![0; plain_len];
    match snap::raw::Decoder::new().decompress(block, &mut plain) {
        Ok(length) if length == plain_len => Ok(plain),
        _ => Err(malformed("the snappy block cannot be decompressed")),
    }
}
