//! Converts datagrams to lines in the form that connections have.

use crate::plaintext::is_line_end;

/// Appends the lines of a datagram, each followed by a line feed. The last line may have no line end,
/// and lines may end wherever Python's `splitlines` ends them. Appends at most twice the bytes of the
/// datagram plus one.
pub fn append_datagram(datagram: &[u8], out: &mut Vec<u8>) {
    let is_simple = |byte: &u8| matches!(byte, b'\n' | b' '..=b'~');
    match std::str::from_utf8(datagram) {
        Ok(text) if !datagram.iter().all(is_simple) => {
            for line in text.split(is_line_end).filter(|line| !line.is_empty()) {
                out.extend_from_slice(line.as_bytes());
                out.push(b'\n');
            }
        }
        _ => {
            out.extend_from_slice(datagram);
            if !datagram.is_empty() && !datagram.ends_with(b"\n") {
                out.push(b'\n');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_datagrams_get_line_feeds() {
        for (sent, expected) in [
            (&b""[..], &b""[..]),
            (b"a 1 1", b"a 1 1\n"),
            (b"a 1 1\nb 1 1\n", b"a 1 1\nb 1 1\n"),
            (b"a 1 1\rb 1 1\r\n", b"a 1 1\nb 1 1\n"),
            (b"\xff 1 1\na 1 1", b"\xff 1 1\na 1 1\n"),
        ] {
            let mut out = b"x\n".to_vec();
            append_datagram(sent, &mut out);
            assert_eq!(out[2..], *expected, "{sent:?}");
            assert!(out.len() - 2 <= 2 * sent.len() + 1);
        }
    }
}
