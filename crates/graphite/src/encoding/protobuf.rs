//! Writes and reads fields of protobuf messages. As in version 3, numbers that are 0 and empty texts are
//! omitted.

use crate::error::{Error, Result};

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

fn key(out: &mut Vec<u8>, field: u64, kind: u64) {
    varint(out, field << 3 | kind);
}

/// Writes an integer.
pub(crate) fn integer(out: &mut Vec<u8>, field: u64, value: i64) {
    if value != 0 {
        key(out, field, VARINT);
        varint(out, value as u64);
    }
}

/// Writes a float of four bytes.
pub(crate) fn float(out: &mut Vec<u8>, field: u64, value: f32) {
    if value != 0.0 {
        key(out, field, FIXED32);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Writes a boolean.
pub(crate) fn flag(out: &mut Vec<u8>, field: u64, flag: bool) {
    integer(out, field, flag.into());
}

/// Writes a text.
pub(crate) fn text(out: &mut Vec<u8>, field: u64, text: &str) {
    if !text.is_empty() {
        head(out, field, text.len());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Writes the head of a field whose bytes follow.
pub(crate) fn head(out: &mut Vec<u8>, field: u64, length: usize) {
    key(out, field, BYTES);
    varint(out, length as u64);
}

/// Writes a message in a field.
pub(crate) fn message(
    out: &mut Vec<u8>,
    field: u64,
    write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    // The length comes first, so the content is moved to make room once its length is known.
    key(out, field, BYTES);
    let begin = out.len();
    write(out)?;
    let length = out.len() - begin;
    if i32::try_from(length).is_err() {
        return Err(Error::Limit(format!("a message of {length} bytes is too long for protobuf")));
    }
    let width = varint_len(length as u64);
    out.resize(out.len() + width, 0);
    out.copy_within(begin..begin + length, begin + width);
    let mut written = Vec::with_capacity(width);
    varint(&mut written, length as u64);
    out[begin..begin + width].copy_from_slice(&written);
    Ok(())
}

/// Passes each field of a message with its number to `see`; `None` if the message is malformed or `see`
/// returns `None`.
pub(crate) fn each<'a>(mut bytes: &'a [u8], mut see: impl FnMut(u64, Field<'a>) -> Option<()>) -> Option<()> {
    while !bytes.is_empty() {
        let (key, rest) = read_varint(bytes)?;
        let (field, rest) = match key & 7 {
            VARINT => read_varint(rest).map(|(value, rest)| (Field::Number(value), rest))?,
            BYTES => {
                let (length, rest) = read_varint(rest)?;
                let (content, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Field::Bytes(content), rest)
            }
            FIXED64 => (Field::Other, rest.get(8..)?),
            FIXED32 => (Field::Other, rest.get(4..)?),
            _ => return None,
        };
        see(key >> 3, field)?;
        bytes = rest;
    }
    Some(())
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    /// An integer.
    Number(u64),
    /// A text or a message.
    Bytes(&'a [u8]),
    /// A fixed-size number of four or eight bytes.
    Other,
}

fn read_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place).min(63);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
        let mut fields = Vec::new();
        each(bytes, |number, field| {
            fields.push((number, field));
            Some(())
        })?;
        Some(fields)
    }

    #[test]
    fn written_messages_are_read_and_truncated_ones_are_refused() {
        let mut out = Vec::new();
        let long = "x".repeat(300);
        message(&mut out, 1, |out| {
            text(out, 2, &long);
            integer(out, 3, -1);
            flag(out, 4, false);
            Ok(())
        })
        .unwrap();
        let outer = fields(&out).unwrap();
        let [(1, Field::Bytes(inner))] = outer.as_slice() else { panic!("{outer:?}") };
        let expected = [(2, Field::Bytes(long.as_bytes())), (3, Field::Number(u64::MAX))];
        assert_eq!(fields(inner).unwrap(), expected);
        for end in 1..out.len() {
            assert!(fields(&out[..end]).is_none(), "{end}");
        }
        assert!(fields(&[0xff; 11]).is_none() && fields(&[3]).is_none());
    }
}
