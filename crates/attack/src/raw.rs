//! Sockets without an HTTP client: connections from a chosen address, and heads and bodies in pieces.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// The longest time to wait for a part of an answer; after that it counts as missing. The server must
/// end every query sooner ([`crate::victim::ARGUMENTS`]).
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Connects from an address of the loopback network, so that attacker and bystander are different peers.
pub fn connect_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let descriptor = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&descriptor, &SocketAddrV4::new(source, 0))?;
    connect(&descriptor, &to)?;
    let stream = TcpStream::from(descriptor);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Returns the head of a request with a body of this length.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)], length: u64) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
}

/// Reads a complete answer; a truncated body is an error. The connection may stay open.
pub fn read_answer(stream: &mut TcpStream) -> io::Result<(u16, Vec<u8>)> {
    let (answer, _) = sandur_bench::http::read_answer(&mut BufReader::new(stream))?;
    Ok((answer.status, answer.body))
}

/// Sends one request on a new connection. Returns the status and the body.
pub fn request(
    (source, to): (Ipv4Addr, SocketAddr),
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = connect_from(source, to)?;
    let sent = stream
        .write_all(head(method, path, headers, body.len() as u64).as_bytes())
        .and_then(|()| stream.write_all(body));
    // A server may refuse a body before it is completely sent; its answer counts.
    read_answer(&mut stream).map_err(|error| sent.err().unwrap_or(error))
}
