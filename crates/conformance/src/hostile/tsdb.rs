//! Files of TSDB blocks: an index whose checksums are right, and chunks.

use sandur_format::codec::checksum::crc32c;
use sandur_tsdb::{Chunks, Index, Samples, Series, Tombstones};

/// Most samples that a chunk can announce.
const SAMPLES_MAX: usize = u16::MAX as usize;
/// Longest input in bytes.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// The input is an encoding and the data of a chunk.
pub fn run_chunk(input: &[u8]) {
    if input.len() > INPUT_BYTES_MAX {
        return;
    }
    let mut samples = Samples::default();
    let _ = samples.add_chunk(input, |_| true);
    assert!(samples.len() <= SAMPLES_MAX, "a chunk has at most as many samples as it can announce");
    // The same chunk in a file, at the position that its reference names.
    let mut file = vec![0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0];
    let Some(length) = input.len().checked_sub(1) else { return };
    let mut rest = length;
    while rest >= 0x80 {
        file.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    file.push(rest as u8);
    file.extend_from_slice(input);
    file.extend(crc32c(input).to_be_bytes());
    let mut chunks = Chunks::open(vec![file.as_slice()]).expect("the header is that of a file of chunks");
    assert_eq!(chunks.read(8).ok(), Some(input), "a chunk is read as it was written");
}

/// The input is the table of symbols and the entry of a series, each after a byte with its length.
pub fn run_index(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let (symbols, entry) = rest.split_at(rest.len().min(usize::from(*first)));
    if entry.len() > 100 {
        return;
    }
    let mut file = vec![0xBA, 0xAA, 0xD7, 0x00, 2];
    let at_symbols = file.len() as u64;
    file.extend((symbols.len() as u32).to_be_bytes());
    file.extend_from_slice(symbols);
    file.extend(crc32c(symbols).to_be_bytes());
    file.resize(file.len().next_multiple_of(16), 0);
    let at_series = file.len() as u64;
    file.push(entry.len() as u8);
    file.extend_from_slice(entry);
    file.extend(crc32c(entry).to_be_bytes());
    let mut contents = Vec::new();
    for position in [at_symbols, at_series, 0, 0, 0, 0] {
        contents.extend(u64::to_be_bytes(position));
    }
    file.extend_from_slice(&contents);
    file.extend(crc32c(&contents).to_be_bytes());
    let Ok(index) = Index::open(file.as_slice()) else { return };
    let (mut reader, mut series) = (index.series(), Series::default());
    while let Ok(true) = reader.next_into(&mut series) {
        for (name, value) in &series.labels {
            let _ = (index.symbols().get(*name), index.symbols().get(*value));
        }
        assert!(
            series.chunks.iter().all(|chunk| chunk.min_ms <= chunk.max_ms),
            "times of chunks are in order"
        );
    }
}

/// The input is a complete file of any kind.
pub fn run_file(input: &[u8]) {
    let _ = Tombstones::read(&input);
    if let Ok(index) = Index::open(input) {
        let (mut reader, mut series) = (index.series(), Series::default());
        while let Ok(true) = reader.next_into(&mut series) {}
    }
}
