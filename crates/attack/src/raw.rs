//! Sockets below the level of a well-behaved client: from a chosen address, with heads and bodies in pieces.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// Longest wait for a part of an answer of an attack: an answer that takes longer is none.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer that an attack reads.
const ANSWER_MAX: u64 = 64 << 20;

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

/// The head of a request with a body of this length.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)], length: u64) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "\r\n"
}

/// Reads the status of an answer, and its body when the head tells its length; the connection may stay open.
pub fn read_answer(stream: &mut TcpStream) -> io::Result<(u16, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at;
        }
        let mut piece = [0; 8_192];
        let read = match stream.read(&mut piece) {
            // A signal to this process says nothing of the server.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..read]);
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("not an HTTP answer"))?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = bytes.split_off(head_end + 4);
    if let Some(length) = length.and_then(|text| text.trim().parse::<u64>().ok()) {
        let missing = length.min(ANSWER_MAX).saturating_sub(body.len() as u64);
        stream.take(missing).read_to_end(&mut body)?;
    }
    Ok((status, body))
}

/// One request on a connection of its own; the status and the start of the body.
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
    // A server may refuse a body before it was sent; its answer counts.
    read_answer(&mut stream).map_err(|error| sent.err().unwrap_or(error))
}
