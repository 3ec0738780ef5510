//! The output streams of an encoded column.
//!
//! `directory` describes the other streams, in varints; `text` holds constant text and values; `bits`
//! holds packed numbers and wide atoms, uncompressed; `small` gathers short planes; `planes` holds long
//! planes, each compressed on its own. A plane is a sequence of bytes with few distinct values.

use zstd::bulk::Compressor;

use crate::codec::varint::put_varint;

/// Shorter planes share one frame: a frame takes about 30 bytes and 10 us.
const MIN_FRAME: usize = 512;

/// A plane of one repeated byte, which follows in the directory.
pub(super) const PLANE_CONSTANT: u8 = 0;
/// A plane in `small`.
pub(super) const PLANE_SMALL: u8 = 1;
/// A plane in `planes`, uncompressed.
pub(super) const PLANE_STORED: u8 = 2;
/// A plane in `planes`, compressed; the length of the frame follows in the directory.
pub(super) const PLANE_FRAME: u8 = 3;

/// zstd's higher levels make the result less than 1 % smaller and take a fifth more time.
const LEVEL: i32 = 1;

/// The output streams.
pub(super) struct Sink {
    /// Bytes of each pool in `directory`, `text`, `bits`, `small` and `planes`.
    pools: Vec<[usize; 5]>,
    pub(super) directory: Vec<u8>,
    pub(super) text: Vec<u8>,
    pub(super) bits: Vec<u8>,
    small: Vec<u8>,
    planes: Vec<u8>,
    frame: Vec<u8>,
    zstd: Compressor<'static>,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            pools: Vec::new(),
            directory: Vec::new(),
            text: Vec::new(),
            bits: Vec::new(),
            small: Vec::new(),
            planes: Vec::new(),
            frame: Vec::new(),
            zstd: Compressor::new(LEVEL).expect("zstd has this level"),
        }
    }
}

impl Sink {
    /// Empties the streams.
    pub(super) fn clear(&mut self) {
        let Self { pools, directory, text, bits, small, planes, .. } = self;
        pools.clear();
        [directory, text, bits, small, planes].into_iter().for_each(Vec::clear);
    }

    /// Appends a varint to the directory.
    pub(super) fn put(&mut self, value: u64) {
        put_varint(&mut self.directory, value);
    }

    /// Returns the bytes of each stream.
    fn lengths(&self) -> [usize; 5] {
        [&self.directory, &self.text, &self.bits, &self.small, &self.planes].map(Vec::len)
    }

    /// Returns the bytes of the longest stream that is compressed as a whole.
    pub(super) fn longest(&self) -> usize {
        let [directory, text, _, small, _] = self.lengths();
        directory.max(text).max(small)
    }

    /// Records the bytes that `put` appends as a pool.
    pub(super) fn put_pool(&mut self, put: impl FnOnce(&mut Self)) {
        let before = self.lengths();
        put(self);
        let mut lengths = self.lengths();
        lengths.iter_mut().zip(before).for_each(|(length, before)| *length -= before);
        self.pools.push(lengths);
    }

    /// Returns the size of `bytes` when compressed.
    pub(super) fn compressed_len(&mut self, bytes: &[u8]) -> usize {
        compress(&mut self.zstd, bytes, &mut self.frame);
        self.frame.len()
    }

    /// Stores a plane whose length the reader knows.
    pub(super) fn put_plane(&mut self, plane: &[u8]) {
        let Some(&first) = plane.first() else { return };
        if plane.iter().all(|&b| b == first) {
            self.directory.extend_from_slice(&[PLANE_CONSTANT, first]);
        } else if plane.len() < MIN_FRAME {
            self.directory.push(PLANE_SMALL);
            self.small.extend_from_slice(plane);
        } else {
            compress(&mut self.zstd, plane, &mut self.frame);
            // Reading a frame costs time: it must save some bytes.
            if self.frame.len() + plane.len() / 64 < plane.len() {
                self.directory.push(PLANE_FRAME);
                put_varint(&mut self.directory, self.frame.len() as u64);
                self.planes.extend_from_slice(&self.frame);
            } else {
                self.directory.push(PLANE_STORED);
                self.planes.extend_from_slice(plane);
            }
        }
    }

    /// Appends all streams to `out`; the directory begins with the lengths of the pools.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        let mut directory = Vec::with_capacity(self.directory.len() + self.pools.len() * 8);
        put_varint(&mut directory, self.pools.len() as u64);
        self.pools.iter().flatten().for_each(|&length| put_varint(&mut directory, length as u64));
        directory.extend_from_slice(&self.directory);
        for stream in [&directory, &self.text, &self.small] {
            compress(&mut self.zstd, stream, &mut self.frame);
            put_varint(out, stream.len() as u64);
            put_varint(out, self.frame.len() as u64);
            out.extend_from_slice(&self.frame);
        }
        for stream in [&self.bits, &self.planes] {
            put_varint(out, stream.len() as u64);
            out.extend_from_slice(stream);
        }
    }
}

/// Replaces `frame` by the compressed frame of `plain`.
fn compress(zstd: &mut Compressor<'static>, plain: &[u8], frame: &mut Vec<u8>) {
    frame.clear();
    frame.reserve(zstd::zstd_safe::compress_bound(plain.len()));
    zstd.compress_to_buffer(plain, frame).expect("the buffer has the bound of a compressed frame");
}
