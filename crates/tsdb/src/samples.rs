//! The samples of a series, decoded from chunks.

use sandur_model::FloatHistogram;

use crate::error::Error;
use crate::histograms::IntegerHistograms;
use crate::{floats, histograms};

/// Most bytes of decoded histograms. A bucket takes at least a bit in a chunk and 12 bytes in memory, so the
/// size of chunks does not bound them well. 400 chunks with 30 histograms of 200 buckets take 29 MB.
const HISTOGRAM_BYTES_MAX: u64 = 256 << 20;

/// A histogram and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedHistogram {
    /// Milliseconds since the epoch.
    pub time_ms: i64,
    /// The histogram.
    pub histogram: FloatHistogram,
    /// Whether the file has integer counts.
    pub integer: bool,
}

/// Histograms of a chunk.
#[derive(Clone, Debug)]
pub enum Histograms {
    /// Those with integer counts.
    Integers(IntegerHistograms),
    /// Those with float counts.
    Floats(Vec<TimedHistogram>),
}

impl Histograms {
    /// Calls `each` for each histogram.
    pub fn for_each(&self, mut each: impl FnMut(&TimedHistogram)) {
        match self {
            Self::Floats(all) => all.iter().for_each(each),
            Self::Integers(all) => all.iter().for_each(|one| {
                each(&TimedHistogram { time_ms: one.time_ms, histogram: all.as_float(&one), integer: true })
            }),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Floats(all) => all.len(),
            Self::Integers(all) => all.len(),
        }
    }
}

/// Samples of a series.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Milliseconds since the epoch, and value.
    pub floats: Vec<(i64, f64)>,
    /// Histograms, chunk by chunk.
    pub histograms: Vec<Histograms>,
    /// Number of histograms.
    histogram_count: usize,
    /// Memory of the histograms.
    histogram_bytes: u64,
}

impl Samples {
    /// Samples that are floats: times in milliseconds, and values.
    pub fn of_floats(floats: Vec<(i64, f64)>) -> Self {
        Self { floats, ..Self::default() }
    }

    /// Appends the samples of a chunk for which `is_wanted` holds. After an error some may be appended.
    pub fn add_chunk(&mut self, chunk: &[u8], is_wanted: impl Fn(i64) -> bool) -> Result<(), Error> {
        let (encoding, data) = chunk.split_first().ok_or(Error::Malformed { what: "an empty chunk" })?;
        let bytes = &mut self.histogram_bytes;
        let mut take = |more: u64| {
            *bytes += more;
            let (what, limit) = ("the number of bytes of decoded histograms", HISTOGRAM_BYTES_MAX);
            if *bytes > limit { Err(Error::TooLarge { what, found: *bytes, limit }) } else { Ok(()) }
        };
        match encoding {
            1 => {
                let floats = &mut self.floats;
                floats::decode(data, |time_ms, value| {
                    if is_wanted(time_ms) {
                        floats.push((time_ms, value));
                    }
                })
            }
            2 => {
                let found = histograms::decode_integers(data, is_wanted, take)?;
                found.into_iter().for_each(|found| self.add(Histograms::Integers(found)));
                Ok(())
            }
            3 => {
                let mut found = Vec::new();
                histograms::decode_floats(data, |time_ms, histogram| {
                    if is_wanted(time_ms) {
                        take(histogram.memory_bytes())?;
                        found.push(TimedHistogram { time_ms, histogram, integer: false });
                    }
                    Ok(())
                })?;
                self.add(Histograms::Floats(found));
                Ok(())
            }
            encoding => Err(Error::Encoding { encoding: *encoding }),
        }
    }

    fn add(&mut self, histograms: Histograms) {
        self.histogram_count += histograms.len();
        self.histograms.push(histograms);
    }

    /// Calls `each` for each histogram.
    pub fn each_histogram(&self, mut each: impl FnMut(&TimedHistogram)) {
        self.histograms.iter().for_each(|some| some.for_each(&mut each));
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.floats.len() + self.histogram_count
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all samples, and keeps the memory.
    pub fn clear(&mut self) {
        self.floats.clear();
        self.histograms.clear();
        (self.histogram_count, self.histogram_bytes) = (0, 0);
    }
}
