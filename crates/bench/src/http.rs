//! A minimal HTTP/1.1 client for measurements: one persistent connection, one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::bail;

/// The longest time to wait for a part of a response.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The largest response in bytes.
const ANSWER_MAX: u64 = 1 << 30;

/// A connection to a server. It is opened when needed, and again after it was closed.
pub struct Connection {
    address: String,
    timeout: Duration,
    stream: Option<BufReader<TcpStream>>,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from chunks.
    pub body: Vec<u8>,
}

impl Answer {
    /// A response without headers.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// Returns the start of the body as text, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).trim().to_owned()
    }
}

impl Connection {
    /// A connection to `host:port` or `http://host:port`, which is not opened yet.
    pub fn new(address: &str) -> Self {
        let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        Self { address: address.to_owned(), timeout: ANSWER_TIMEOUT, stream: None }
    }

    /// Sets the longest time to wait for a part of a response; the default is two minutes.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sends a GET request.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, &[], &[])
    }

    /// Sends a GET request with headers (`Name: value`).
    pub fn get_with(&mut self, path: &str, headers: &[&str]) -> io::Result<Answer> {
        self.request("GET", path, headers, &[])
    }

    /// Sends a POST request with headers (`Name: value`).
    pub fn post(&mut self, path: &str, headers: &[&str], body: &[u8]) -> io::Result<Answer> {
        self.request("POST", path, headers, body)
    }

    fn request(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> io::Result<Answer> {
        let kept = self.stream.is_some();
        match self.exchange(method, path, headers, body) {
            // the server may just have closed the persistent connection, so the request is repeated on a
            // new one; a server that does not answer in time would not answer the repetition either
            Err(error) if kept && !is_timeout(&error) => {
                self.stream = None;
                self.exchange(method, path, headers, body)
            }
            result => result,
        }
        .inspect_err(|_| self.stream = None)
    }

    fn exchange(&mut self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> io::Result<Answer> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(self.timeout))?;
                self.stream.insert(BufReader::with_capacity(64 << 10, stream))
            }
        };
        let extra: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{extra}\r\n",
            self.address,
            body.len()
        );
        stream.get_mut().write_all(head.as_bytes())?;
        stream.get_mut().write_all(body)?;
        let (answer, keep) = read_answer(stream)?;
        if !keep {
            self.stream = None;
        }
        Ok(answer)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Reads a complete response. Also returns whether the connection can be used again.
pub fn read_answer(from: &mut impl BufRead) -> io::Result<(Answer, bool)> {
    let bad = |what: &str| io::Error::other(format!("not an HTTP answer: {what}"));
    let status_line = read_line(from)?;
    let status =
        status_line.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| bad(&status_line))?;
    let (mut length, mut chunked, mut keep, mut headers) = (None, false, true, Vec::new());
    loop {
        let line = read_line(from)?;
        let Some((name, value)) = line.split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => length = Some(value.parse::<u64>().map_err(|_| bad(value))?),
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => keep = !value.eq_ignore_ascii_case("close"),
            _ => {}
        }
        headers.push((name, value.to_owned()));
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let line = read_line(from)?;
            let size = line.split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(size.trim(), 16).map_err(|_| bad(&line))?;
            from.take(size.min(ANSWER_MAX)).read_to_end(&mut body)?;
            read_line(from)?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(length) = length {
        from.take(length.min(ANSWER_MAX)).read_to_end(&mut body)?;
        if body.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    } else if status >= 200 && status != 204 {
        keep = false;
        from.take(ANSWER_MAX).read_to_end(&mut body)?;
    }
    Ok((Answer { status, headers, body }, keep))
}

fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(64 << 10).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Splits a URL `http://host:port/path` into its address and its path, which has no slash at its end.
pub fn address_and_path(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (address, path.trim_end_matches('/'))
}

/// Posts to the URL at which a server writes its rows to blocks. Fails if the server does not confirm it.
pub fn flush(url: &str, timeout: Duration) -> anyhow::Result<()> {
    let (address, path) = address_and_path(url);
    let answer = Connection::new(address).with_timeout(timeout).post(path, &[], &[])?;
    if !(200..300).contains(&answer.status) {
        bail!("{url} was answered with {}: {}", answer.status, answer.text());
    }
    Ok(())
}

/// Escapes a text as a value in the query part of a path.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 3);
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(byte as char);
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> io::Result<(u16, String, bool)> {
        let (answer, keep) = read_answer(&mut text.as_bytes())?;
        Ok((answer.status, answer.text(), keep))
    }

    #[test]
    fn responses_with_every_form_of_length_are_read() {
        let sized = answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef").unwrap();
        assert_eq!(sized, (200, "abc".to_owned(), true));
        let chunked =
            "HTTP/1.1 400 Bad\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n";
        assert_eq!(answer(chunked).unwrap(), (400, "abc".to_owned(), true));
        assert_eq!(answer("HTTP/1.1 204 No Content\r\n\r\n").unwrap(), (204, String::new(), true));
        assert_eq!(answer("HTTP/1.1 200 OK\r\n\r\nrest").unwrap(), (200, "rest".to_owned(), false));
        let closing = answer("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert!(!closing.2);
        for broken in
            ["", "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 200 OK\r\n"]
        {
            assert!(answer(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn query_values_are_escaped() {
        assert_eq!(escaped("{a=\"b\"} |= `ä`"), "%7Ba%3D%22b%22%7D%20%7C%3D%20%60%C3%A4%60");
    }
}
