//! Requests to a node, each on a connection of its own, with a limit for each wait.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use sandur_bench::http::{Answer, read_answer};

/// The header with the warnings of an answer.
pub const WARNING: &str = "x-sandur-warning";

/// A request.
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A GET.
    pub fn get(path: String) -> Self {
        Self { method: "GET", path, headers: Vec::new(), body: Vec::new() }
    }

    /// A POST.
    pub fn post(path: &str, headers: &[(&'static str, &str)], body: Vec<u8>) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { method: "POST", path: path.to_owned(), headers, body }
    }

    /// Sends it, and waits for each part of the answer at most `patience`.
    pub fn send(&self, to: SocketAddr, patience: Duration) -> io::Result<Answer> {
        let mut stream = TcpStream::connect_timeout(&to, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n", self.method, self.path);
        head += &format!("Content-Length: {}\r\n", self.body.len());
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes())?;
        stream.write_all(&self.body)?;
        Ok(read_answer(&mut BufReader::new(stream))?.0)
    }
}

/// The warnings in the header of an answer.
pub fn warnings(answer: &Answer) -> Vec<&str> {
    let headers = answer.headers.iter().filter(|(name, _)| name == WARNING);
    headers.map(|(_, value)| value.as_str()).collect()
}
