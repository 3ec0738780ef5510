//! A minimal websocket client for tails: receives text frames and answers pings.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The largest accepted frame in bytes.
const FRAME_MAX: u64 = 256 << 20;
/// The longest time to wait for the next frame; servers ping every second.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// A frame from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A text message.
    Text(Vec<u8>),
    /// A ping, which was answered.
    Ping,
    /// The close frame, with code and reason.
    Close(u16, String),
}

/// An open websocket.
pub struct Websocket {
    stream: BufReader<TcpStream>,
}

impl Websocket {
    /// Opens `path` at `host:port`.
    pub fn open(address: &str, path: &str) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(FRAME_TIMEOUT))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2FuZHVyLWJlbmNoIHRhaWw=\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut stream = BufReader::with_capacity(256 << 10, stream);
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if !line.contains(" 101 ") {
            return Err(io::Error::other(format!("no websocket: {}", line.trim())));
        }
        while line.trim() != "" {
            line.clear();
            stream.read_line(&mut line)?;
        }
        Ok(Self { stream })
    }

    /// Receives the next frame. Pings are answered.
    pub fn receive(&mut self) -> io::Result<Frame> {
        let frame = read_frame(&mut self.stream)?;
        if frame == Frame::Ping {
            // An empty pong, masked as clients must do, with a mask of zeros.
            self.stream.get_mut().write_all(&[0x8A, 0x80, 0, 0, 0, 0])?;
        }
        Ok(frame)
    }
}

fn read_frame(from: &mut impl Read) -> io::Result<Frame> {
    let mut text = Vec::new();
    loop {
        let mut head = [0; 2];
        from.read_exact(&mut head)?;
        let length = match head[1] & 0x7F {
            126 => u64::from(u16::from_be_bytes(array(from)?)),
            127 => u64::from_be_bytes(array(from)?),
            short => u64::from(short),
        };
        if length > FRAME_MAX {
            return Err(io::Error::other(format!("a frame of {length} bytes")));
        }
        let mut payload = Vec::new();
        from.take(length).read_to_end(&mut payload)?;
        if payload.len() as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match head[0] & 0x0F {
            0 | 1 => text.append(&mut payload),
            8 => {
                let code = payload.first_chunk::<2>().map_or(1005, |c| u16::from_be_bytes(*c));
                let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default()).into_owned();
                return Ok(Frame::Close(code, reason));
            }
            9 => return Ok(Frame::Ping),
            other => return Err(io::Error::other(format!("a frame of kind {other}"))),
        }
        if head[0] & 0x80 != 0 {
            return Ok(Frame::Text(text));
        }
    }
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_length_and_kind_are_read() {
        let read = |bytes: &[u8]| read_frame(&mut &*bytes);
        assert_eq!(read(b"\x81\x02ab").unwrap(), Frame::Text(b"ab".to_vec()));
        assert_eq!(read(b"\x01\x01a\x80\x01b").unwrap(), Frame::Text(b"ab".to_vec()));
        assert_eq!(read(b"\x89\x00").unwrap(), Frame::Ping);
        assert_eq!(read(b"\x88\x04\x03\xf3no").unwrap(), Frame::Close(1011, "no".to_owned()));
        assert_eq!(read(b"\x88\x00").unwrap(), Frame::Close(1005, String::new()));
        let long = [&b"\x81\x7e\x01\x00"[..], &[b'x'; 256]].concat();
        assert_eq!(read(&long).unwrap(), Frame::Text(vec![b'x'; 256]));
        let longer = [&b"\x81\x7f\0\0\0\0\0\x01\0\0"[..], &[b'x'; 65536]].concat();
        assert_eq!(read(&longer).unwrap(), Frame::Text(vec![b'x'; 65536]));
        for broken in [&b""[..], b"\x81\x05ab", b"\x83\x00", b"\x81\x7f\x7f\xff\xff\xff\0\0\0\0"] {
            assert!(read(broken).is_err());
        }
    }
}
