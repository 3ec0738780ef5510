//! A small HTTP/1.1 client over blocking sockets, for commands that talk to servers on this machine.
//!
//! Invariants: each request has its own connection; connecting, each read and each write have a time
//! limit; an answer is at most [`LONGEST_ANSWER`] bytes and is complete, or it is an error.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// Far more than any answer that a command reads.
const LONGEST_ANSWER: u64 = 64 << 20;

/// An answer.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON. Fails with the body if the status is not 200.
    pub fn json(&self) -> Result<serde_json::Value> {
        if self.status != 200 {
            bail!("status {}: {}", self.status, self.text().trim());
        }
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", self.text()))
    }
}

/// Sends a GET.
pub fn get(address: SocketAddr, path: &str, patience: Duration) -> Result<Answer> {
    get_with(address, path, &[], patience)
}

/// Sends a GET with headers.
pub fn get_with(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    patience: Duration,
) -> Result<Answer> {
    request(address, &format!("GET {path} HTTP/1.1\r\n{}", lines(headers)), b"", patience)
}

/// Sends a POST with a body of a content type.
pub fn post(address: SocketAddr, path: &str, body: (&str, &[u8]), patience: Duration) -> Result<Answer> {
    post_with(address, path, &[], body, patience)
}

/// Sends a POST with headers and a body of a content type.
pub fn post_with(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    (kind, body): (&str, &[u8]),
    patience: Duration,
) -> Result<Answer> {
    let mut headers = lines(headers);
    headers += &format!("Content-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
    request(address, &format!("POST {path} HTTP/1.1\r\n{headers}"), body, patience)
}

fn lines(headers: &[(&str, &str)]) -> String {
    headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

/// Sends a request, whose head ends with complete lines.
fn request(address: SocketAddr, head: &str, body: &[u8], patience: Duration) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("{head}Host: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    parse(&answer).context("the connection was closed within the answer")
}

/// Parses a complete answer; `None` if it was cut off.
fn parse(answer: &[u8]) -> Option<Answer> {
    let split = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..split]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[split + 4..];
    let header = |name: &str| {
        let mut pairs = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Some(Answer { status, body: join_chunks(body)? });
    }
    let length: usize = match header("content-length") {
        Some(length) => length.parse().ok()?,
        None => 0,
    };
    Some(Answer { status, body: body.get(..length)?.to_vec() })
}

/// Joins the chunks of a body; `None` without the last chunk, which is empty.
fn join_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        let chunk = end + 2;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(chunk..chunk.checked_add(size)?)?);
        rest = rest.get(chunk + size + 2..)?;
    }
}

/// Percent-encodes a parameter of a URL.
pub fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_answers_are_parsed() {
        let body = |answer: &str| parse(answer.as_bytes()).map(|answer| answer.text());
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").as_deref(), Some("ok"));
        assert_eq!(body("HTTP/1.1 204 No Content\r\n\r\n").as_deref(), Some(""));
        let chunked =
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n";
        assert_eq!(body(chunked).as_deref(), Some("abc"));
        for end in 1..chunked.len() - 4 {
            assert!(body(&chunked[..end]).is_none(), "{end}");
        }
        assert!(body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok").is_none());
        assert!(body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx").is_none());
    }

    #[test]
    fn parameters_are_encoded() {
        assert_eq!(encode("sum({a=\"b\"})"), "sum%28%7Ba%3D%22b%22%7D%29");
    }
}
