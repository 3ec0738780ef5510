//! Goal: a damaged file is refused or read as it was, whatever byte is changed and wherever it is cut, and no
//! length in it makes the reader reserve much memory.
//!
//! Method: every byte of small files is changed, also with checksums that match again; random chunks.

use std::fs;

use sandur_tsdb::{Chunks, Error, Index, Samples, Series, Tombstones};

use crate::fixtures::folder;

fn bytes(file: &str) -> Vec<u8> {
    fs::read(folder("deleted").join(file)).unwrap()
}

fn read_all(index: &[u8]) -> Result<Vec<Series>, Error> {
    let index = Index::open(index)?;
    let (mut reader, mut series, mut all) = (index.series(), Series::default(), Vec::new());
    while reader.next_into(&mut series)? {
        for (name, value) in &series.labels {
            index.symbols().get(*name)?;
            index.symbols().get(*value)?;
        }
        all.push(series.clone());
    }
    Ok(all)
}

#[test]
fn a_changed_or_truncated_index_is_refused_or_read_as_it_was() {
    let original = bytes("index");
    let expected = read_all(&original).unwrap();
    for at in 0..original.len() {
        for bit in [1, 0x80] {
            let mut changed = original.clone();
            changed[at] ^= bit;
            if let Ok(found) = read_all(&changed) {
                // Parts that are not read, such as postings, and padding.
                assert_eq!(found, expected, "byte {at}");
            }
        }
        assert!(read_all(&original[..at]).is_err(), "cut to {at} bytes");
    }
}

#[test]
fn a_changed_chunk_or_tombstone_is_refused() {
    let (original, index) = (bytes("chunks/000001"), bytes("index"));
    let references: Vec<u64> =
        read_all(&index).unwrap().iter().flat_map(|one| &one.chunks).map(|chunk| chunk.reference).collect();
    let read = |file: &[u8]| -> Result<usize, Error> {
        let mut chunks = Chunks::open(vec![file])?;
        let mut samples = Samples::default();
        for reference in &references {
            samples.add_chunk(chunks.read(*reference)?, |_| true)?;
        }
        Ok(samples.len())
    };
    assert_eq!(read(&original).unwrap(), 600);
    for at in (0..original.len()).filter(|at| !(5..8).contains(at)) {
        let mut changed = original.clone();
        changed[at] ^= 4;
        assert!(read(&changed).is_err(), "byte {at} of the chunks");
    }
    let original = bytes("tombstones");
    for at in 0..original.len() {
        let mut changed = original.clone();
        changed[at] ^= 4;
        assert!(Tombstones::read(&changed.as_slice()).is_err(), "byte {at} of the tombstones");
        assert!(Tombstones::read(&&original[..at]).is_err(), "tombstones cut to {at} bytes");
    }
}

#[test]
fn references_to_nowhere_are_refused() {
    let file = bytes("chunks/000001");
    let mut chunks = Chunks::open(vec![file.as_slice()]).unwrap();
    for reference in [u64::MAX, 1 << 32, file.len() as u64, file.len() as u64 - 1, 0xFFFF_FFFF] {
        assert!(chunks.read(reference).is_err(), "{reference:x}");
    }
}

/// Chunks with correct checksums and any contents.
#[test]
fn any_chunk_is_decoded_within_bounds_or_refused() {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000 {
        let length = random() % 200;
        let mut chunk: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        chunk.insert(0, (round % 5) as u8);
        let mut samples = Samples::default();
        let _ = samples.add_chunk(&chunk, |_| true);
        assert!(samples.len() <= 65_535);
    }
    for encoding in 1..=3u8 {
        // Announces 65,535 samples, and then all ones or all zeros.
        for fill in [0x00, 0xFF] {
            let mut chunk = vec![fill; 100];
            chunk[..3].copy_from_slice(&[encoding, 0xFF, 0xFF]);
            let mut samples = Samples::default();
            assert!(samples.add_chunk(&chunk, |_| true).is_err(), "{encoding} {fill}");
        }
    }
    assert!(Samples::default().add_chunk(&[], |_| true).is_err());
    let unknown = Samples::default().add_chunk(&[4, 0, 1], |_| true).unwrap_err();
    assert!(unknown.to_string().contains("encoding 4"), "{unknown}");
}

/// Writes the bits of a chunk of histograms.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    used: usize,
}

impl BitWriter {
    fn write(&mut self, value: u64, count: u32) {
        for at in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = (value >> at & 1) as u8;
            self.bytes[self.used / 8] |= bit << (7 - self.used % 8);
            self.used += 1;
        }
    }

    /// A value of variable width, of the widest class.
    fn wide(&mut self, value: u64) {
        self.write(0xFF, 8);
        self.write(value, 64);
    }

    fn zeros(&mut self, count: usize) {
        self.used += count;
        self.bytes.resize(self.used.div_ceil(8), 0);
    }
}

/// A chunk with integer counts that announces 65,535 histograms with `spans` spans, of which the last has
/// `buckets` buckets. All values are zero, except the sum.
fn histograms(spans: u64, buckets: u64, sum: f64, zeros: usize) -> Vec<u8> {
    let mut chunk = BitWriter::default();
    chunk.write(2, 8);
    chunk.write(0xFFFF, 16);
    // Flags, the threshold of zero, the schema.
    chunk.zeros(8 + 8 + 1);
    chunk.wide(spans);
    // Each span has a length and an offset.
    chunk.zeros(2 * (spans as usize - 1));
    chunk.wide(buckets);
    // The offset of the last span, no negative spans, the first time, count and count of zero.
    chunk.zeros(1 + 1 + 1 + 1 + 1);
    chunk.write(sum.to_bits(), 64);
    chunk.zeros(zeros);
    chunk.bytes
}

#[test]
fn histograms_that_take_much_more_memory_than_their_chunk_are_refused() {
    let buckets = 60_000;
    let chunk = histograms(1, buckets, 1.0, 1_000 * buckets as usize);
    let mut samples = Samples::default();
    let refused = samples.add_chunk(&chunk, |_| true).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    assert!(samples.len() < 400, "{}", samples.len());
    samples.clear();
    // What is not wanted takes no memory.
    let few = histograms(1, 10, 1.0, 65_535 * 14);
    samples.add_chunk(&few, |time| time == 0).unwrap();
    samples.clear();
    samples.add_chunk(&few, |_| true).unwrap();
    assert_eq!(samples.len(), 65_535);
}

/// A stale marker has no bits for buckets, and a span without buckets has few: the work for 65,535 histograms
/// would be some billion steps.
#[test]
fn stale_markers_and_spans_without_buckets_cost_no_work_for_each_histogram() {
    let stale = f64::from_bits(sandur_model::STALE_BITS);
    let mut samples = Samples::default();
    samples.add_chunk(&histograms(1, 65_536, stale, 65_536 + 4 * 65_535), |_| true).unwrap();
    assert_eq!(samples.len(), 65_535);
    samples.clear();
    samples.add_chunk(&histograms(65_536, 1, 1.0, 5 * 65_535), |_| true).unwrap();
    assert_eq!(samples.len(), 65_535);
    samples.each_histogram(|one| assert_eq!(one.histogram.positive.indices, [0]));
}
