//! Writes values in Python's pickle format, protocol 3, which every Python 3 reads.

use crate::error::{Error, Result};

const PROTOCOL: &[u8] = &[0x80, 3];
const MARK: u8 = b'(';
const EMPTY_LIST: u8 = b']';
const EMPTY_DICTIONARY: u8 = b'}';
const APPEND_ALL: u8 = b'e';
const SET_ALL: u8 = b'u';
const NONE: u8 = b'N';
const FLOAT: u8 = b'G';
const INT: u8 = b'J';
const LONG: &[u8] = &[0x8a, 8];
const TEXT: u8 = b'X';
const STOP: u8 = b'.';
const TRUE: u8 = 0x88;
const FALSE: u8 = 0x89;
const PAIR: u8 = 0x86;

/// Writes the bytes before the value.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(PROTOCOL);
}

/// Writes the bytes after the value.
pub(crate) fn end(out: &mut Vec<u8>) {
    out.push(STOP);
}

/// Begins a list, whose items follow.
pub(crate) fn begin_list(out: &mut Vec<u8>) {
    out.extend_from_slice(&[EMPTY_LIST, MARK]);
}

/// Ends a list.
pub(crate) fn end_list(out: &mut Vec<u8>) {
    out.push(APPEND_ALL);
}

/// Begins a dictionary, whose keys and values follow.
pub(crate) fn begin_dictionary(out: &mut Vec<u8>) {
    out.extend_from_slice(&[EMPTY_DICTIONARY, MARK]);
}

/// Ends a dictionary.
pub(crate) fn end_dictionary(out: &mut Vec<u8>) {
    out.push(SET_ALL);
}

/// Ends a tuple of the last two items.
pub(crate) fn end_pair(out: &mut Vec<u8>) {
    out.push(PAIR);
}

/// Writes a boolean.
pub(crate) fn flag(out: &mut Vec<u8>, flag: bool) {
    out.push(if flag { TRUE } else { FALSE });
}

/// Writes `None`.
pub(crate) fn none(out: &mut Vec<u8>) {
    out.push(NONE);
}

/// Writes a text.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let length = u32::try_from(text.len());
    let length = length.map_err(|_| Error::Limit("a name is too long for pickle".to_owned()))?;
    out.push(TEXT);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes an integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    match i32::try_from(value) {
        Ok(small) => {
            out.push(INT);
            out.extend_from_slice(&small.to_le_bytes());
        }
        Err(_) => {
            out.extend_from_slice(LONG);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Writes a float.
pub(crate) fn float(out: &mut Vec<u8>, value: f64) {
    out.push(FLOAT);
    out.extend_from_slice(&value.to_be_bytes());
}
