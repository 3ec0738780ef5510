//! Compressed connections: one stream per connection, flushed with every write.
//!
//! **Invariants.** The target can decompress what was written without waiting for more. At most
//! [`PIECE_BYTES`] are compressed at once, and compression uses at most
//! [`PACKED_BYTES`](crate::model::PACKED_BYTES) per connection.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use lz4_flex::frame::FrameEncoder;
use sandur_base::BoxFuture;

use super::connection::Connection;
use crate::model::Packing;

/// Bytes of lines that are compressed at once.
const PIECE_BYTES: usize = 64 << 10;
/// zstd's level: lines shrink to a fifth, at some hundred megabytes per second.
const ZSTD_LEVEL: i32 = 1;

/// A compressor of one stream.
enum Packer {
    Gzip(GzEncoder<Vec<u8>>),
    Lz4(FrameEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    /// The stream has ended.
    Ended,
}

impl Packer {
    fn of(packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::Plain => Self::Ended,
            Packing::Gzip => Self::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Packing::Lz4 => Self::Lz4(FrameEncoder::new(Vec::new())),
            Packing::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?),
        })
    }

    /// Compresses bytes and flushes, so that the target can decompress all of them.
    fn pack(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        fn through<W: Write>(mut writer: W, bytes: &[u8]) -> io::Result<()> {
            writer.write_all(bytes)?;
            writer.flush()
        }
        match self {
            Self::Gzip(encoder) => {
                through(&mut *encoder, bytes)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Lz4(encoder) => {
                through(&mut *encoder, bytes)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Zstd(encoder) => {
                through(&mut *encoder, bytes)?;
                Ok(std::mem::take(encoder.get_mut()))
            }
            Self::Ended => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Ends the stream and returns its last bytes.
    fn end(&mut self) -> io::Result<Vec<u8>> {
        match std::mem::replace(self, Self::Ended) {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Lz4(encoder) => encoder.finish().map_err(io::Error::other),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Ended => Ok(Vec::new()),
        }
    }
}

/// A connection whose bytes are compressed.
pub(super) struct Packed {
    inner: Box<dyn Connection>,
    packer: Packer,
}

impl Packed {
    pub(super) fn new(inner: Box<dyn Connection>, packing: Packing) -> io::Result<Self> {
        Ok(Self { inner, packer: Packer::of(packing)? })
    }
}

impl Connection for Packed {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            for piece in bytes.chunks(PIECE_BYTES) {
                let packed = self.packer.pack(piece)?;
                self.inner.write(&packed).await?;
            }
            Ok(())
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        self.inner.ended()
    }

    fn close(&mut self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let end = self.packer.end()?;
            self.inner.write(&end).await?;
            self.inner.close().await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn each_write_can_be_decompressed_without_the_next() {
        let mut packer = Packer::of(Packing::Gzip).unwrap();
        let mut sent = Vec::new();
        for number in 0..100 {
            let line = format!("servers.web{number}.load {number} 1600000000\n");
            sent.extend(packer.pack(line.as_bytes()).unwrap());
            let mut opened = vec![0; 1 << 16];
            let mut decoder = flate2::read::GzDecoder::new(&sent[..]);
            let (mut filled, mut read) = (0, 1);
            while read > 0 {
                read = decoder.read(&mut opened[filled..]).unwrap_or(0);
                filled += read;
            }
            assert!(opened[..filled].ends_with(line.as_bytes()), "{number}");
        }
    }

    #[test]
    fn writing_to_an_ended_stream_fails() {
        for (_, packing) in Packing::NAMES {
            let mut packer = Packer::of(packing).unwrap();
            packer.end().unwrap();
            assert!(packer.pack(b"a 1 1\n").is_err() && packer.end().unwrap().is_empty());
        }
    }
}
