//! Encodes requests of remote write 2.0 for commands: series of floats only.
//!
//! `Request{symbols=4, timeseries=5:{labels_refs=1, samples=2}}`.

use foldhash::{HashMap, HashMapExt};
use sandur_model::Labels;
use sandur_protobuf::{Writer as _, prometheus};

use crate::error::Error;

/// The content type of the requests, whose encoding is `snappy`.
pub const REMOTE_WRITE_2_TYPE: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// A request that is being written. The caller bounds its size by [`RemoteWriteEncoder::samples`].
#[derive(Default)]
pub struct RemoteWriteEncoder {
    symbols: HashMap<Box<str>, u32>,
    request: Vec<u8>,
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
        let texts = labels.iter().flat_map(|(name, value)| [name, value]);
        let references: Vec<u64> = texts.map(|text| u64::from(self.symbol(text))).collect();
        self.request.message(5, |series| {
            series.packed(1, references);
            for (time_ms, value) in samples {
                prometheus::sample(series, time_ms, value);
                self.samples += 1;
            }
        });
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
        self.request.bytes(4, text.as_bytes());
        number
    }
}
