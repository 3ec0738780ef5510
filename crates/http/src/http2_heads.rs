//! Reserves memory for HTTP/2 heads that wait in the library: those of several frames, and trailers.
//!
//! A head in one frame becomes a request immediately, which reserves memory for it ([`super::streams`]). A
//! head that continues in CONTINUATION frames is buffered until its end, and trailers are buffered until
//! their request reads them, which may be never. The client decides how many there are, so the maximum
//! size is reserved when one begins (RFC 9113, 4.1 and 6.2). When that fails, the connection ends.
//!
//! Invariant: bytes pass unchanged; only frame headers are parsed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sandur_memory::{MemoryBudget, OverBudget, Reservation};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use sandur_listeners::{Phase, Place};

/// `PRI * HTTP/2.0` and what follows it, before the first frame.
const PREFACE_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A stream that parses the frame headers of what is read from it.
pub struct WatchedHeads<S> {
    inner: S,
    place: Arc<Place>,
    frames: Frames,
}

impl<S> WatchedHeads<S> {
    /// Watches a connection from its preface on. A head has at most `head_bytes`.
    pub fn new(inner: S, place: Arc<Place>, head_bytes: u64) -> Self {
        Self { inner, place, frames: Frames::new(head_bytes) }
    }
}

/// The parser's position in the frames, and the reservations.
struct Frames {
    head_bytes: u64,
    /// Bytes before the next frame header.
    skip: usize,
    header: [u8; FRAME_HEADER_BYTES],
    have: usize,
    last_stream: u32,
    open_head: Option<Reservation>,
    trailers: Option<Reservation>,
}

impl Frames {
    fn new(head_bytes: u64) -> Self {
        let (header, open_head, trailers) = ([0; FRAME_HEADER_BYTES], None, None);
        Self { head_bytes, skip: PREFACE_BYTES, header, have: 0, last_stream: 0, open_head, trailers }
    }

    /// Parses the bytes that were read. Fails when they begin a head or trailers for which there is no
    /// memory.
    fn see(&mut self, mut bytes: &[u8], memory: &MemoryBudget) -> Result<(), OverBudget> {
        loop {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let taken = (FRAME_HEADER_BYTES - self.have).min(bytes.len());
            if taken == 0 {
                return Ok(());
            }
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            (self.have, bytes) = (self.have + taken, &bytes[taken..]);
            if self.have == FRAME_HEADER_BYTES {
                self.have = 0;
                self.begin_frame(memory)?;
            }
        }
    }

    fn begin_frame(&mut self, memory: &MemoryBudget) -> Result<(), OverBudget> {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = self.header;
        self.skip = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        let stream = u32::from_be_bytes([s0 & 0x7F, s1, s2, s3]);
        let is_whole = flags & END_HEADERS != 0;
        match kind {
            HEADERS if stream <= self.last_stream => match &mut self.trailers {
                Some(trailers) => trailers.grow(self.head_bytes)?,
                None => self.trailers = Some(memory.reserve(self.head_bytes)?),
            },
            HEADERS => {
                self.last_stream = stream;
                self.open_head = if is_whole { None } else { Some(memory.reserve(self.head_bytes)?) };
            }
            CONTINUATION if is_whole => self.open_head = None,
            _ => {}
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let Self { place, frames, .. } = &mut *self;
        // Without a running request no trailers are buffered.
        if place.phase() == Phase::Idle {
            frames.trailers = None;
        }
        let seen = frames.see(&buf.filled()[before..], place.heads());
        Poll::Ready(seen.map_err(|error| io::Error::new(io::ErrorKind::OutOfMemory, error)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedHeads<S> {
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

    fn frame(kind: u8, flags: u8, stream: u32, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), &vec![b'x'; payload]].concat()
    }

    /// Bytes that are reserved after these frames arrived in pieces of `piece` bytes.
    fn held(frames: &[Vec<u8>], piece: usize) -> Result<u64, OverBudget> {
        let memory = MemoryBudget::root("heads", 350);
        let mut watched = Frames::new(100);
        let all = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frames.concat()].concat();
        all.chunks(piece).try_for_each(|bytes| watched.see(bytes, &memory))?;
        Ok(memory.used())
    }

    /// Heads that do not end, and trailers that are not read, must be in a budget.
    #[test]
    fn heads_that_wait_are_reserved_until_they_end() {
        let (settings, data) = (frame(4, 0, 0, 12), frame(0, 0, 1, 300));
        let whole = |stream| frame(HEADERS, END_HEADERS, stream, 20);
        let (begun, more, end) =
            (frame(HEADERS, 0, 1, 20), frame(CONTINUATION, 0, 1, 7), frame(CONTINUATION, END_HEADERS, 1, 0));
        for piece in [1, 5, 9, 1_000] {
            let held = |frames: &[&Vec<u8>]| {
                held(&frames.iter().map(|frame| (*frame).clone()).collect::<Vec<_>>(), piece)
            };
            assert_eq!(held(&[&settings, &whole(1), &data, &whole(3)]), Ok(0));
            assert_eq!(held(&[&settings, &begun]), Ok(100));
            assert_eq!(held(&[&begun, &more, &more]), Ok(100));
            assert_eq!(held(&[&begun, &more, &end]), Ok(0));
            // A second HEADERS frame of a stream holds its trailers.
            assert_eq!(held(&[&whole(1), &data, &whole(1)]), Ok(100));
            assert_eq!(held(&[&whole(1), &whole(3), &whole(1), &whole(3)]), Ok(200));
            assert!(held(&[&whole(7), &whole(1), &whole(3), &whole(5), &whole(7)]).is_err());
        }
    }
}
