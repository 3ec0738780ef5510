//! Base 64 (RFC 4648, with padding) of the binary keys of meta commands.
//!
//! Invariant: what decodes encodes to the same text again; anything else does not decode.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the text of `bytes`.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let byte = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for sextet in 0..4 {
            let present = sextet <= group.len();
            let digit = ALPHABET[(bits >> (18 - 6 * sextet)) as usize & 63];
            out.push(if present { digit } else { b'=' });
        }
    }
}

/// Appends the bytes that `text` stands for and says whether it was valid and not empty.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> bool {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return false;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return false;
    }
    let last = text.len() - 4;
    for (start, group) in text.chunks(4).enumerate().map(|(n, group)| (n * 4, group)) {
        let digits = if start == last { 4 - padding } else { 4 };
        let Some(bits) = group[..digits].iter().try_fold(0u32, |bits, byte| Some(bits << 6 | value(*byte)?))
        else {
            return false;
        };
        let bits = bits << (6 * (4 - digits));
        let kept = digits - 1;
        if bits & ((1 << (8 * (3 - kept))) - 1) != 0 {
            return false; // bits beyond the last byte: it would not encode to the same text
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..1 + kept]);
    }
    true
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in [("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(bytes.as_bytes(), &mut encoded);
            assert_eq!(encoded, text.as_bytes());
            assert!(decode(text.as_bytes(), &mut decoded));
            assert_eq!(decoded, bytes.as_bytes());
        }
    }

    #[test]
    fn anything_else_does_not_decode() {
        for text in ["", "Zg", "Zg=", "Zh==", "Z===", "====", "Zm9v!A==", "Zg==Zg==", "Zm9 "] {
            assert!(!decode(text.as_bytes(), &mut Vec::new()), "{text}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 1..bytes.len() {
            let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
            encode(&bytes[..length], &mut encoded);
            assert!(decode(&encoded, &mut decoded));
            assert_eq!(decoded, &bytes[..length]);
        }
    }
}
