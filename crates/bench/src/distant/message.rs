//! HTTP/1.1 messages as a proxy handles them: it parses the head and forwards the body.

use std::io::{self, BufRead, Read, Write};

/// The largest head in bytes.
const HEAD_MAX: u64 = 64 << 10;
/// Bytes that are forwarded at once.
const PIECE: usize = 64 << 10;

/// The head of a request or a response.
#[derive(Debug, Default)]
pub struct Head {
    /// All bytes up to and including the empty line.
    pub bytes: Vec<u8>,
    /// `GET /path HTTP/1.1` or `HTTP/1.1 200 OK`.
    first_line: String,
    length: Option<u64>,
    is_chunked: bool,
    /// Whether the connection ends after this message.
    pub closes: bool,
}

impl Head {
    /// Reads a head. Returns `None` if the connection ended before it.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Self::default();
        loop {
            let mut line = Vec::new();
            from.take(HEAD_MAX).read_until(b'\n', &mut line)?;
            if line.is_empty() && head.bytes.is_empty() {
                return Ok(None);
            }
            if line.last() != Some(&b'\n') || head.bytes.len() as u64 > HEAD_MAX {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            head.bytes.extend_from_slice(&line);
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if text.is_empty() {
                return Ok(Some(head));
            }
            head.note(text)?;
        }
    }

    fn note(&mut self, line: String) -> io::Result<()> {
        if self.first_line.is_empty() {
            self.first_line = line;
            return Ok(());
        }
        let Some((name, value)) = line.split_once(':') else { return Ok(()) };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => self.length = Some(value.parse().map_err(io::Error::other)?),
            "transfer-encoding" => self.is_chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => self.closes = value.eq_ignore_ascii_case("close"),
            _ => {}
        }
        Ok(())
    }

    /// Returns a word of the first line: method and path of a request are words 0 and 1, the status of a
    /// response is word 1.
    pub fn word(&self, at: usize) -> &str {
        self.first_line.split(' ').nth(at).unwrap_or_default()
    }

    /// Returns whether a response to `method` has a body.
    pub fn answers_with_body(&self, method: &str) -> bool {
        method != "HEAD" && !matches!(self.word(1), "204" | "304") && !self.word(1).starts_with('1')
    }

    /// Forwards the body and returns its size in bytes.
    pub fn relay(&self, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<u64> {
        if !self.is_chunked {
            return relay_exactly(from, to, self.length.unwrap_or(0));
        }
        let mut bytes = 0;
        loop {
            let mut line = Vec::new();
            from.take(HEAD_MAX).read_until(b'\n', &mut line)?;
            to.write_all(&line)?;
            let text = String::from_utf8_lossy(&line);
            let size = text.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
            bytes += relay_exactly(from, to, size)?;
            // Forwards the line end after a chunk; S3 does not use trailers.
            relay_exactly(from, to, 2)?;
            if size == 0 {
                return Ok(bytes);
            }
        }
    }
}

fn relay_exactly(from: &mut impl Read, to: &mut impl Write, bytes: u64) -> io::Result<u64> {
    let mut piece = vec![0; PIECE.min(bytes as usize)];
    let mut left = bytes;
    while left > 0 {
        let part = &mut piece[..PIECE.min(left as usize)];
        from.read_exact(part)?;
        to.write_all(part)?;
        left -= part.len() as u64;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(text: &str) -> (Head, u64, String, String) {
        let mut from = text.as_bytes();
        let head = Head::read(&mut from).unwrap().unwrap();
        let mut to = Vec::new();
        let bytes = head.relay(&mut from, &mut to).unwrap();
        (head, bytes, String::from_utf8(to).unwrap(), String::from_utf8(from.to_vec()).unwrap())
    }

    #[test]
    fn bodies_with_every_form_of_length_are_forwarded() {
        let (head, bytes, body, rest) = relayed("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET");
        assert_eq!((head.word(0), head.word(1), bytes), ("PUT", "/a", 3));
        assert_eq!((body.as_str(), rest.as_str()), ("abc", "GET"));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\nrest";
        let (head, bytes, body, rest) = relayed(chunked);
        assert_eq!((bytes, body.as_str(), rest.as_str()), (3, "2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n", "rest"));
        assert!(head.answers_with_body("GET") && !head.answers_with_body("HEAD") && !head.closes);
        let (head, ..) = relayed("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert!(head.closes && !head.answers_with_body("GET"));
        assert!(Head::read(&mut "".as_bytes()).unwrap().is_none());
        assert!(Head::read(&mut "GET / HTTP/1.1\r\nA: b".as_bytes()).is_err());
    }
}
