//! Converts keys of parsed lines to label names: every character outside `[a-zA-Z0-9_]` becomes `_`, and a
//! leading digit gets a `_` in front.

use crate::names::NameId;
use crate::row::{Row, Wanted};

/// Whether a key is a valid label name without conversion.
fn is_plain(key: &[u8]) -> bool {
    key.first().is_some_and(|b| !b.is_ascii_digit()) && key.iter().all(|b| PLAIN[usize::from(*b)])
}

/// Bytes that are valid in a label name.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

/// Appends the label name of a key; nothing if the key is white space. A digit gets a `_` in front only at
/// the start of the name.
pub fn append_sanitized(to: &mut Vec<u8>, key: &[u8]) {
    let text = String::from_utf8_lossy(key);
    let text = text.trim();
    if to.is_empty() && text.starts_with(|c: char| c.is_ascii_digit()) {
        to.push(b'_');
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c as u8 } else { b'_' };
    to.extend(text.chars().map(plain));
}

/// The number of the label name of a key; `None` if the key is empty or the label is not wanted.
#[inline]
pub fn key_name(row: &mut Row<'_>, key: &[u8]) -> Option<NameId> {
    if is_plain(key) {
        return known_name(row, key);
    }
    if let (Wanted::Only(wanted), Some((first, length))) = (row.wanted(), ascii_shape(key))
        && !wanted.may_be_shape(first, length)
    {
        return None;
    }
    let mut name = std::mem::take(&mut row.scratch.spare);
    name.clear();
    append_sanitized(&mut name, key);
    let found = if name.is_empty() { None } else { known_name(row, &name) };
    row.scratch.spare = name;
    found
}

/// The first byte and the length of the label name of a key, if they are known without converting it.
fn ascii_shape(key: &[u8]) -> Option<(u8, usize)> {
    let (first, last) = (*key.first()?, *key.last()?);
    if first.is_ascii_whitespace() || last.is_ascii_whitespace() || !key.is_ascii() {
        return None;
    }
    match first {
        b'0'..=b'9' => Some((b'_', key.len() + 1)),
        b if b.is_ascii_alphabetic() => Some((b, key.len())),
        _ => Some((b'_', key.len())),
    }
}

/// The number of a valid label name. Unknown names are added only if all labels are wanted.
#[inline]
pub fn known_name(row: &mut Row<'_>, name: &[u8]) -> Option<NameId> {
    match row.wanted() {
        Wanted::All => row.scratch.name_id(std::str::from_utf8(name).ok()?),
        // Most names are not wanted, so this is tested first.
        Wanted::Only(wanted) if !wanted.may_be(name) => None,
        Wanted::Only(_) => row.scratch.names.find(std::str::from_utf8(name).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_label_names() {
        for (key, name) in [
            ("status", "status"),
            ("a-b.c", "a_b_c"),
            ("9x", "_9x"),
            (" pad ", "pad"),
            ("é", "_"),
            ("   ", ""),
        ] {
            let mut out = Vec::new();
            append_sanitized(&mut out, key.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), name, "{key}");
        }
        for key in ["a-b", "9x", "[w]", "a b", "-", "_9-"] {
            let mut out = Vec::new();
            append_sanitized(&mut out, key.as_bytes());
            assert_eq!(ascii_shape(key.as_bytes()), Some((out[0], out.len())), "{key}");
        }
        assert_eq!((ascii_shape(b" a"), ascii_shape("é".as_bytes())), (None, None));
        assert!(is_plain(b"a_1") && !is_plain(b"1a") && !is_plain(b"") && !is_plain(b"a-b"));
    }
}
