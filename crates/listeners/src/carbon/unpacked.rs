//! Compressed connections, as relays create them: gzip, lz4 and zstd, recognized by their first bytes.
//!
//! A compressed stream is decompressed on a separate thread, which waits for bytes like a reader of a
//! file. **Invariants.** At most [`STREAMS_MAX`] connections are compressed at the same time. Memory of a
//! stream (its window, and chunks of [`PIECE_BYTES`] on both sides of its thread) is reserved from the
//! memory of request bodies before it is allocated, and the stream is closed if its sender is silent
//! while others wait for memory. A stream yields at most [`plain_bytes_max`] bytes for the bytes received
//! so far.

use std::cell::Cell;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use sandur_base::units::ByteSize;
use sandur_ingest::plain_bytes_max;
use sandur_runtime::{FairReservation, Task};
use sandur_service::writes::lasting_parties;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::Carbon;
use super::window::{NoWindow, Packing, WINDOW_LOG_MAX, Window, window};

/// Maximum number of compressed connections at the same time.
pub const STREAMS_MAX: usize = 64;
/// Bytes of a chunk of a stream.
const PIECE_BYTES: usize = 32 << 10;
/// Maximum number of waiting chunks on each side.
const PIECES: usize = 2;
/// Bytes of all chunks of a stream: on each side those that wait, one being produced and one being
/// consumed.
const PIECES_BYTES: u64 = (2 * (PIECES + 2) * PIECE_BYTES) as u64;

/// What the first bytes of a connection indicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// More bytes are needed.
    Unclear,
    Plain,
    Packed(Packing),
}

/// Why reading of a connection stops.
#[derive(Debug)]
pub struct Broken {
    /// The reason if the server closes it; `None` if the sender did.
    pub reason: Option<&'static str>,
    pub text: String,
}

impl Broken {
    /// The server closes the connection.
    pub fn by_us(reason: &'static str, text: String) -> Self {
        Self { reason: Some(reason), text }
    }

    /// The error of a decoder; a stream that ends too early was cut off by its sender.
    fn by_decoder(error: &io::Error) -> Self {
        let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        Self { reason: (!is_cut).then_some("compression"), text: error.to_string() }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self { reason: None, text: error.to_string() }
    }
}

const MAGICS: [(&[u8], Packing); 3] =
    [(&[0x1F, 0x8B], Packing::Gzip), (&LZ4_MAGIC, Packing::Lz4), (&[0x28, 0xB5, 0x2F, 0xFD], Packing::Zstd)];
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4D, 0x18];

/// Detects the format by the first bytes.
pub fn beginning(bytes: &[u8]) -> Beginning {
    if let Some((_, packing)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return match window(*packing, bytes) {
            Err(NoWindow::Unclear) => Beginning::Unclear,
            _ => Beginning::Packed(*packing),
        };
    }
    match MAGICS.iter().any(|(magic, _)| magic.starts_with(bytes)) {
        true => Beginning::Unclear,
        false => Beginning::Plain,
    }
}

/// A stream that is to be decompressed.
pub struct Packed {
    pub packing: Packing,
    /// The bytes that were already read.
    pub first: Vec<u8>,
    pub stream: TcpStream,
    pub peer: Option<SocketAddr>,
}

/// The decompressed bytes of a connection.
pub struct Unpacked {
    pieces: mpsc::Receiver<Result<Bytes, Broken>>,
    current: Bytes,
    /// `None` after the end was read.
    memory: Option<Arc<FairReservation>>,
    _receiving: Task<()>,
    _place: OwnedSemaphorePermit,
}

impl Unpacked {
    /// Opens a stream when there is memory for its window; waits as long for that as a request body
    /// would.
    pub async fn open(carbon: Carbon, places: Arc<Semaphore>, packed: Packed) -> Result<Self, Broken> {
        let full = |_| {
            let text = format!("{STREAMS_MAX} connections are compressed already");
            Broken::by_us("too_many_compressed", text)
        };
        let place = places.try_acquire_owned().map_err(full)?;
        let window = window(packed.packing, &packed.first).map_err(|no| {
            let asked = if let NoWindow::TooLarge(bytes) = no { bytes } else { 0 };
            let most = ByteSize(1 << WINDOW_LOG_MAX);
            let text = format!("a window of {}, at most {most}; compress with less", ByteSize(asked));
            Broken::by_us("compression", text)
        })?;
        let bytes = window.bytes + PIECES_BYTES;
        let mut memory = carbon.writes.memory().reservation(lasting_parties(packed.peer)).lasting();
        memory.grow(bytes).await.map_err(|short| {
            let bytes = ByteSize(bytes);
            let text = format!("decompressing the stream needs {bytes}: {short} (--memory-limit)");
            Broken::by_us("memory", text)
        })?;
        Ok(Self::start(&carbon, (window, Arc::new(memory)), packed, place))
    }

    fn start(
        carbon: &Carbon,
        (window, memory): (Window, Arc<FairReservation>),
        packed: Packed,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let Packed { packing, first, mut stream, .. } = packed;
        let (sender, receiver) = mpsc::channel(PIECES);
        let (opened, pieces) = mpsc::channel(PIECES);
        let (world, watched, failing) = (carbon.env.clone(), Arc::clone(&memory), opened.clone());
        let source = Pieces::new(receiver, Arc::clone(&memory));
        let receiving = carbon.env.spawn("carbon stream", async move {
            {
                let opening = world.run_blocking(move || open((packing, window), source, &opened));
                let both = async { tokio::join!(receive(first, &mut stream, sender), opening) };
                tokio::select! {
                    _ = both => {}
                    short = watched.given_up() => {
                        let text = format!("the sender was silent while others needed memory: {short}");
                        // The receiver may be gone.
                        let _ = failing.send(Err(Broken::by_us("memory", text))).await;
                    }
                }
            }
            drop((watched, failing));
            // At its end the stream stays open until the connection is finished.
            std::future::pending::<()>().await;
            drop(stream);
        });
        let memory = Some(memory);
        Self { pieces, current: Bytes::new(), memory, _receiving: receiving, _place: place }
    }

    /// Reads into the free space of a buffer; 0 at the end.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Broken> {
        if self.current.is_empty() {
            match self.pieces.recv().await {
                Some(piece) => self.current = piece?,
                None => {
                    self.memory = None;
                    return Ok(0);
                }
            }
        }
        let room = buffer.capacity() - buffer.len();
        let part = self.current.split_to(self.current.len().min(room));
        buffer.extend_from_slice(&part);
        Ok(part.len())
    }
}

/// Passes bytes on until the end of the stream.
async fn receive(first: Vec<u8>, stream: &mut TcpStream, packed: mpsc::Sender<Bytes>) {
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
            Ok(count) if count > 0 && packed.send(piece.into()).await.is_ok() => {}
            _ => return,
        }
    }
}

type Opened = mpsc::Sender<Result<Bytes, Broken>>;

/// Runs on a separate thread until one of the sides ends.
fn open((packing, window): (Packing, Window), packed: Pieces, opened: &Opened) {
    let came = Rc::new(Cell::new(0));
    let packed = Counted { packed, came: Rc::clone(&came) };
    let outcome = match packing {
        Packing::Gzip => copy(flate2::read::MultiGzDecoder::new(packed), &came, opened),
        Packing::Lz4 => {
            let decoder = lz4_flex::frame::FrameDecoder::new(packed);
            copy(Frames { decoder, most: window.bytes }, &came, opened)
        }
        Packing::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(packed).and_then(|mut decoder| {
                decoder.window_log_max(window.log)?;
                Ok(decoder)
            });
            decoder.map_err(Broken::from).and_then(|decoder| copy(decoder, &came, opened))
        }
    };
    if let Err(broken) = outcome {
        // The receiver may be gone.
        let _ = opened.blocking_send(Err(broken));
    }
}

fn copy(mut decoder: impl Read, came: &Cell<u64>, opened: &Opened) -> Result<(), Broken> {
    let mut plain = 0;
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let read = decoder.read(&mut piece).map_err(|error| Broken::by_decoder(&error))?;
        plain += read as u64;
        if plain > plain_bytes_max(came.get()) {
            let text = format!("{} were decompressed to more than {}", ByteSize(came.get()), ByteSize(plain));
            return Err(Broken::by_us("compression_ratio", text));
        }
        piece.truncate(read);
        if read == 0 || opened.blocking_send(Ok(piece.into())).is_err() {
            return Ok(());
        }
    }
}

/// Compressed bytes as they arrive.
struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    current: Bytes,
    memory: Arc<FairReservation>,
}

impl Pieces {
    fn new(pieces: mpsc::Receiver<Bytes>, memory: Arc<FairReservation>) -> Self {
        Self { pieces, current: Bytes::new(), memory }
    }

    /// The next chunk; while it waits for one, the stream's memory counts as that of a client that may be
    /// silent.
    fn next(&mut self) -> Option<Bytes> {
        if let Ok(piece) = self.pieces.try_recv() {
            return Some(piece);
        }
        self.memory.set_receiving(true);
        let piece = self.pieces.blocking_recv();
        self.memory.set_receiving(false);
        piece
    }

    /// Whether the stream ended; waits for bytes.
    fn is_at_end(&mut self) -> bool {
        while self.current.is_empty() {
            match self.next() {
                Some(piece) => self.current = piece,
                None => return true,
            }
        }
        false
    }

    /// The next `count` bytes, or fewer at the end, without consuming them.
    fn peek(&mut self, count: usize) -> &[u8] {
        while self.current.len() < count {
            let Some(piece) = self.next() else { break };
            self.current = [&self.current[..], &piece[..]].concat().into();
        }
        &self.current[..count.min(self.current.len())]
    }
}

/// Counts the bytes that a decoder consumed.
struct Counted {
    packed: Pieces,
    came: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || self.packed.is_at_end() {
            return Ok(0);
        }
        let current = &mut self.packed.current;
        let part = current.split_to(current.len().min(out.len()));
        out[..part.len()].copy_from_slice(&part);
        self.came.set(self.came.get() + part.len() as u64);
        Ok(part.len())
    }
}

/// Consecutive lz4 frames: the decoder ends after the first one, and accepts blocks of any size.
struct Frames {
    decoder: lz4_flex::frame::FrameDecoder<Counted>,
    /// Maximum bytes of memory for a frame.
    most: u64,
}

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.decoder.read(out)?;
            let packed = &mut self.decoder.get_mut().packed;
            if read > 0 || out.is_empty() || packed.is_at_end() {
                return Ok(read);
            }
            let next = packed.peek(LZ4_MAGIC.len() + 2);
            let fits = window(Packing::Lz4, next).is_ok_and(|window| window.bytes <= self.most);
            if !next.starts_with(&LZ4_MAGIC) || !fits {
                let text = "after an lz4 frame there is data that is not one, or one with larger blocks";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_recognized_by_their_first_bytes() {
        assert_eq!(beginning(b""), Beginning::Unclear);
        assert_eq!(beginning(&[0x28, 0xB5]), Beginning::Unclear);
        assert_eq!(beginning(&[0x1F, 0x8B, 8]), Beginning::Packed(Packing::Gzip));
        assert_eq!(
            beginning(&[0x28, 0xB5, 0x2F, 0xFD]),
            Beginning::Unclear,
            "the size of its window is not known yet"
        );
        assert_eq!(beginning(&[0x28, 0xB5, 0x2F, 0xFD, 0, 0x58]), Beginning::Packed(Packing::Zstd));
        assert_eq!(beginning(b"a"), Beginning::Plain);
        assert_eq!(beginning(&[0x28, b'x']), Beginning::Plain);
    }
}
