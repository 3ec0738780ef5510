//! Text literals of pickle protocol 0.

/// Appends the bytes of a `STRING`, which is quoted and escaped as by Python's `repr`.
pub(crate) fn quoted(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let quote = *text.first().filter(|byte| matches!(byte, b'\'' | b'"'))?;
    let mut rest = text[1..].strip_suffix(&[quote])?;
    while let Some(byte) = rest.split_off_first() {
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        match rest.split_off_first()? {
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'x' => out.push(hex(&mut rest, 2)? as u8),
            known @ (b'\\' | b'\'' | b'"') => out.push(*known),
            other => out.extend([b'\\', *other]),
        }
    }
    Some(())
}

/// Appends the text of a `UNICODE`: each byte is the character with that code, except `\uXXXX` and
/// `\UXXXXXXXX`.
pub(crate) fn raw_unicode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    let mut utf8 = [0; 4];
    while let Some(byte) = rest.split_off_first() {
        let digits = match (byte, rest.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.extend_from_slice(char::from(*byte).encode_utf8(&mut utf8).as_bytes());
                continue;
            }
        };
        rest.split_off_first()?;
        let character = char::from_u32(hex(&mut rest, digits)?)?;
        out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
    }
    Some(())
}

fn hex(bytes: &mut &[u8], digits: usize) -> Option<u32> {
    let digits = bytes.split_off(..digits)?;
    digits.iter().try_fold(0u32, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_texts_are_decoded() {
        let of = |read: fn(&[u8], &mut Vec<u8>) -> Option<()>, text: &[u8]| {
            let mut out = Vec::new();
            read(text, &mut out).map(|()| out)
        };
        assert_eq!(of(quoted, br"'a\'b\x41\\\n\q'").unwrap(), b"a'bA\\\n\\q");
        for broken in [&b"'x"[..], b"x", b"", b"'", br"'\'", br"'\x4'"] {
            assert_eq!(of(quoted, broken), None, "{broken:?}");
        }
        assert_eq!(of(raw_unicode, b"na\xefve\\u00e9\\n").unwrap(), "na\u{ef}ve\u{e9}\\n".as_bytes());
        for broken in [&b"\\u00"[..], b"\\Uffffffff", b"\\ud800"] {
            assert_eq!(of(raw_unicode, broken), None, "{broken:?}");
        }
    }
}
