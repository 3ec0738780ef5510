//! Detects how a connection begins: HTTP/2 has a preface that no request of HTTP/1 can begin with (RFC 9113,
//! 3.4), and a peer of the cluster begins with letters that are no method of HTTP and no TLS.
//!
//! Invariant: no byte is lost; bytes that were inspected are read again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Start of `PRI * HTTP/2.0`: enough to distinguish it from `POST`, `PUT` and every other method.
const PREFACE_START: &[u8; 3] = b"PRI";
/// Start of the magic of peer calls.
const PEER_START: &[u8; 3] = b"SPE";

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the preface of HTTP/2, not encrypted.
    Http2,
    /// As a peer of the cluster.
    Peer,
    /// With a request of HTTP/1 or a TLS handshake.
    Other,
}

/// A stream whose first bytes were inspected.
pub struct Sniffed<S> {
    first: [u8; 3],
    /// Bytes of `first` that were received, and how many of them were read again.
    seen: usize,
    given: usize,
    inner: S,
}

impl<S: AsyncRead + Unpin> Sniffed<S> {
    /// Waits for the first bytes.
    pub async fn look(inner: S) -> io::Result<(Start, Self)> {
        let mut sniffed = Self { first: [0; 3], seen: 0, given: 0, inner };
        while sniffed.seen < PREFACE_START.len() {
            let count = sniffed.inner.read(&mut sniffed.first[sniffed.seen..]).await?;
            sniffed.seen += count;
            let seen = &sniffed.first[..sniffed.seen];
            if count == 0 || !(PREFACE_START.starts_with(seen) || PEER_START.starts_with(seen)) {
                return Ok((Start::Other, sniffed));
            }
        }
        let start = if sniffed.first == *PEER_START { Start::Peer } else { Start::Http2 };
        Ok((start, sniffed))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Sniffed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.given == self.seen {
            return Pin::new(&mut self.inner).poll_read(cx, buf);
        }
        let count = (self.seen - self.given).min(buf.remaining());
        buf.put_slice(&self.first[self.given..self.given + count]);
        self.given += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sniffed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_preface_is_recognized_and_no_byte_is_lost() {
        for (sent, start) in [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Start::Http2),
            ("SPER and a key", Start::Peer),
            ("SEARCH / HTTP/1.1\r\n", Start::Other),
            ("PUT / HTTP/1.1\r\n", Start::Other),
            ("POST / HTTP/1.1\r\n", Start::Other),
            ("GET / HTTP/1.1\r\n", Start::Other),
            ("PR", Start::Other),
            ("SP", Start::Other),
            ("P", Start::Other),
            ("", Start::Other),
        ] {
            let pieces = Pieces(sent.bytes().collect());
            let (found, mut stream) = Sniffed::look(pieces).await.unwrap();
            let mut again = String::new();
            stream.read_to_string(&mut again).await.unwrap();
            assert_eq!((found, again.as_str()), (start, sent));
        }
    }

    /// A reader that returns one byte at a time.
    struct Pieces(Vec<u8>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if !self.0.is_empty() {
                buf.put_slice(&[self.0.remove(0)]);
            }
            Poll::Ready(Ok(()))
        }
    }
}
