//! Encodes requests of remote write 2.0 for commands: series of floats only.

use foldhash::{HashMap, HashMapExt};
use sandur_model::Labels;

use crate::error::Error;

/// The content type of the requests, whose encoding is `snappy`.
pub const REMOTE_WRITE_2_TYPE: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// Tags of fields: number and wire type.
const SYMBOL: u8 = 4 << 3 | 2;
const SERIES: u8 = 5 << 3 | 2;
const LABELS: u8 = 1 << 3 | 2;
const SAMPLE: u8 = 2 << 3 | 2;
const VALUE: u8 = 1 << 3 | 1;
const TIME: u8 = 2 << 3;

/// A request that is being written. The caller bounds its size by [`RemoteWriteEncoder::samples`].
#[derive(Default)]
pub struct RemoteWriteEncoder {
    symbols: HashMap<Box<str>, u32>,
    request: Vec<u8>,
    /// The series that is being written, whose length is not known yet.
    series: Vec<u8>,
    samples: u64,
}

impl RemoteWriteEncoder {
    /// Returns an empty request.
    pub fn new() -> Self {
        let mut encoder = Self { symbols: HashMap::new(), ..Self::default() };
        encoder.symbol("");
        encoder
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds a series: times in milliseconds, and values.
    pub fn series(&mut self, labels: &Labels, samples: impl IntoIterator<Item = (i64, f64)>) {
        let mut references = Vec::with_capacity(labels.len() * 4);
        for (name, value) in labels.iter() {
            for text in [name, value] {
                let reference = self.symbol(text);
                varint(&mut references, u64::from(reference));
            }
        }
        self.series.clear();
        block(&mut self.series, LABELS, &references);
        for (time_ms, value) in samples {
            let mut time = [0; 10];
            let length = varint_into(&mut time, time_ms as u64);
            self.series.extend_from_slice(&[SAMPLE, 10 + length as u8, VALUE]);
            self.series.extend_from_slice(&value.to_le_bytes());
            self.series.push(TIME);
            self.series.extend_from_slice(&time[..length]);
            self.samples += 1;
        }
        block(&mut self.request, SERIES, &self.series);
    }

    /// Returns the request in a snappy block, and empties the encoder.
    ///
    /// # Errors
    /// When the request is larger than snappy can hold.
    pub fn finish(&mut self) -> Result<Vec<u8>, Error> {
        let request = std::mem::replace(self, Self::new()).request;
        let refused = |_| Error::TooMany { what: "bytes of a request", limit: u64::from(u32::MAX) };
        snap::raw::Encoder::new().compress_vec(&request).map_err(refused)
    }

    /// Returns the index of a symbol, and adds it if it is new. Symbols may stand between series: readers
    /// gather them first.
    fn symbol(&mut self, text: &str) -> u32 {
        if let Some(known) = self.symbols.get(text) {
            return *known;
        }
        let number = self.symbols.len() as u32;
        self.symbols.insert(text.into(), number);
        block(&mut self.request, SYMBOL, text.as_bytes());
        number
    }
}

fn block(bytes: &mut Vec<u8>, tag: u8, content: &[u8]) {
    bytes.push(tag);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

fn varint(bytes: &mut Vec<u8>, value: u64) {
    let mut coded = [0; 10];
    let length = varint_into(&mut coded, value);
    bytes.extend_from_slice(&coded[..length]);
}

/// Encodes a varint and returns its length in bytes.
#[inline]
fn varint_into(bytes: &mut [u8; 10], mut value: u64) -> usize {
    let mut length = 0;
    for byte in bytes.iter_mut() {
        length += 1;
        if value < 0x80 {
            *byte = value as u8;
            break;
        }
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    length
}
