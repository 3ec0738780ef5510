//! Writes values in msgpack.

use crate::error::{Error, Result};

/// Writes the head of a list.
pub(crate) fn list(out: &mut Vec<u8>, count: usize) -> Result<()> {
    head(out, count, 0x90, 0xdc)
}

/// Writes the head of a map.
pub(crate) fn map(out: &mut Vec<u8>, count: usize) -> Result<()> {
    head(out, count, 0x80, 0xde)
}

/// Writes a boolean.
pub(crate) fn flag(out: &mut Vec<u8>, flag: bool) {
    out.push(if flag { 0xc3 } else { 0xc2 });
}

/// Writes nil.
pub(crate) fn none(out: &mut Vec<u8>) {
    out.push(0xc0);
}

/// Writes the head of a list or map: up to 15 parts, or with a length of two or four bytes.
fn head(out: &mut Vec<u8>, count: usize, short: u8, long: u8) -> Result<()> {
    match (u16::try_from(count), u32::try_from(count)) {
        (Ok(few @ ..16), _) => out.push(short | few as u8),
        (Ok(many), _) => {
            out.push(long);
            out.extend_from_slice(&many.to_be_bytes());
        }
        (_, Ok(many)) => {
            out.push(long + 1);
            out.extend_from_slice(&many.to_be_bytes());
        }
        _ => return Err(Error::Limit(format!("{count} parts are too many for msgpack"))),
    }
    Ok(())
}

/// Writes a text.
pub(crate) fn text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    match (u8::try_from(text.len()), u16::try_from(text.len()), u32::try_from(text.len())) {
        (Ok(short @ ..32), _, _) => out.push(0xa0 | short),
        (Ok(short), _, _) => out.extend_from_slice(&[0xd9, short]),
        (_, Ok(long), _) => {
            out.push(0xda);
            out.extend_from_slice(&long.to_be_bytes());
        }
        (_, _, Ok(long)) => {
            out.push(0xdb);
            out.extend_from_slice(&long.to_be_bytes());
        }
        _ => return Err(Error::Limit("a name is too long for msgpack".to_owned())),
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Writes an integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    match (u8::try_from(value), u16::try_from(value), u32::try_from(value)) {
        (Ok(small @ ..128), _, _) => out.push(small),
        (Ok(small), _, _) => out.extend_from_slice(&[0xcc, small]),
        (_, Ok(middle), _) => {
            out.push(0xcd);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        (_, _, Ok(large)) => {
            out.push(0xce);
            out.extend_from_slice(&large.to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Writes a float.
pub(crate) fn float(out: &mut Vec<u8>, value: f64) {
    out.push(0xcb);
    out.extend_from_slice(&value.to_be_bytes());
}
