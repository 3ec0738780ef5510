//! Compressed connections, as relays make them: gzip, lz4 and zstd, told by how they begin.
//!
//! A stream of compressed bytes is opened on a thread of its own, which waits for bytes as a file's reader
//! would. **Invariants.** At most [`STREAMS_MAX`] connections are compressed at a time; each holds a few
//! pieces of [`PIECE_BYTES`] on either side of its thread and the window of its compression.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use sandur_base::{Env, Task};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Compressed connections at a time.
pub const STREAMS_MAX: usize = 64;
/// Bytes of a piece of a stream.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait on either side.
const PIECES: usize = 2;
/// The largest window of zstd, as a power of two: 8 MiB, as its own program takes without asking.
const ZSTD_WINDOW_LOG: u32 = 23;

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    Gzip,
    Lz4,
    Zstd,
}

/// What the first bytes of a connection tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// More bytes are needed.
    Unclear,
    Plain,
    Packed(Packing),
}

const MAGICS: [(&[u8], Packing); 3] = [
    (&[0x1F, 0x8B], Packing::Gzip),
    (&[0x04, 0x22, 0x4D, 0x18], Packing::Lz4),
    (&[0x28, 0xB5, 0x2F, 0xFD], Packing::Zstd),
];

/// What the first bytes are.
pub fn beginning(bytes: &[u8]) -> Beginning {
    if let Some((_, packing)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Beginning::Packed(*packing);
    }
    match MAGICS.iter().any(|(magic, _)| magic.starts_with(bytes)) {
        true => Beginning::Unclear,
        false => Beginning::Plain,
    }
}

/// Bytes of a connection, opened.
pub struct Unpacked {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
    _receiving: Task<()>,
    _place: OwnedSemaphorePermit,
}

impl Unpacked {
    /// Opens a stream whose first bytes were read; `None` when there are too many of them.
    pub fn open(
        env: &Env,
        places: &Arc<Semaphore>,
        packing: Packing,
        first: Vec<u8>,
        stream: TcpStream,
    ) -> Option<Self> {
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        let (packed, packed_pieces) = mpsc::channel(PIECES);
        let (opened, pieces) = mpsc::channel(PIECES);
        let world = env.clone();
        let receiving = env.spawn("carbon stream", async move {
            let opening = world.run_blocking(move || open(packing, packed_pieces, &opened));
            tokio::join!(receive(first, stream, packed), opening);
        });
        Some(Self { pieces, current: Bytes::new(), _receiving: receiving, _place: place })
    }

    /// Reads into the room of a buffer; 0 at the end.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        if self.current.is_empty() {
            match self.pieces.recv().await {
                Some(piece) => self.current = piece?,
                None => return Ok(0),
            }
        }
        let room = buffer.capacity() - buffer.len();
        let part = self.current.split_to(self.current.len().min(room));
        buffer.extend_from_slice(&part);
        Ok(part.len())
    }
}

/// Hands bytes on; at their end the stream stays open until the connection is done with.
async fn receive(first: Vec<u8>, mut stream: TcpStream, packed: mpsc::Sender<Bytes>) {
    if packed.send(first.into()).await.is_err() {
        return;
    }
    loop {
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let read = tokio::select! {
            read = stream.read_buf(&mut piece) => read,
            () = packed.closed() => return,
        };
        match read {
            Ok(0) => break,
            Ok(_) if packed.send(piece.into()).await.is_ok() => {}
            _ => return,
        }
    }
    drop(packed);
    std::future::pending::<()>().await;
}

/// Runs on a thread of its own until either side ends.
fn open(packing: Packing, pieces: mpsc::Receiver<Bytes>, opened: &mpsc::Sender<io::Result<Bytes>>) {
    let packed = Pieces { pieces, current: Bytes::new() };
    let outcome = match packing {
        Packing::Gzip => copy(flate2::read::MultiGzDecoder::new(packed), opened),
        Packing::Lz4 => copy(Frames(lz4_flex::frame::FrameDecoder::new(packed)), opened),
        Packing::Zstd => zstd::stream::read::Decoder::new(packed).and_then(|mut decoder| {
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            copy(decoder, opened)
        }),
    };
    if let Err(error) = outcome {
        // The other side may have gone.
        let _ = opened.blocking_send(Err(error));
    }
}

fn copy(mut decoder: impl Read, opened: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = decoder.read(&mut piece)?;
        piece.truncate(read);
        if read == 0 || opened.blocking_send(Ok(piece.into())).is_err() {
            return Ok(());
        }
    }
}

/// Compressed bytes as they come.
struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    current: Bytes,
}

impl Pieces {
    /// Whether there are no more; waits for some.
    fn is_at_end(&mut self) -> bool {
        while self.current.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.current = piece,
                None => return true,
            }
        }
        false
    }
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || self.is_at_end() {
            return Ok(0);
        }
        let part = self.current.split_to(self.current.len().min(out.len()));
        out[..part.len()].copy_from_slice(&part);
        Ok(part.len())
    }
}

/// Frames of lz4 that follow each other: the decoder ends with the first one.
struct Frames(lz4_flex::frame::FrameDecoder<Pieces>);

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.0.read(out)?;
            if read > 0 || out.is_empty() || self.0.get_mut().is_at_end() {
                return Ok(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_by_how_they_begin() {
        assert_eq!(beginning(b""), Beginning::Unclear);
        assert_eq!(beginning(&[0x28, 0xB5]), Beginning::Unclear);
        assert_eq!(beginning(&[0x1F, 0x8B, 8]), Beginning::Packed(Packing::Gzip));
        assert_eq!(beginning(b"a"), Beginning::Plain);
        assert_eq!(beginning(&[0x28, b'x']), Beginning::Plain);
    }
}
