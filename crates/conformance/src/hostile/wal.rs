//! WAL frames with correct checksums and any content: a record is refused within bounds or read, and a
//! record that was read is the same after it is written and read again.

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::codec::crc32c;
use sandur_format::wal_segment::{Frame, FrameId, HEADER_LEN, Record, VERSION_MAX, encode_frame};
use sandur_model::{Batch, SampleBatch};

/// Longest input in bytes. A record may become a few hundred times as long when it is decoded.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// The first byte is the number of records; the rest is the body of the frame.
pub fn run(input: &[u8]) {
    let Some((records, body)) = input.split_first() else { return };
    if body.len() > INPUT_BYTES_MAX {
        return;
    }
    // The body of a frame of the newest version follows its stamp.
    let body = [&STAMP.to_le_bytes()[..], body].concat();
    let Ok(frame) = Frame::from_object(frame_of(*records, &body)) else { return };
    assert_eq!(frame.stamp(), STAMP);
    for record in 0..frame.len() {
        let Ok(batch) = frame.batch(record) else { continue };
        let Ok(again) = Record::of(&batch) else { continue };
        let mut pieces = Vec::new();
        let id = FrameId { sequence: 1, ..frame.header().id };
        if encode_frame(id, &[again], &mut pieces).is_err() {
            continue;
        }
        let written = Frame::from_object(pieces.concat().into()).and_then(|frame| frame.batch(0));
        match written {
            Ok(read) => assert_eq!(meaning(&read), meaning(&batch), "it changes when it is written and read"),
            Err(error) => panic!("the written frame cannot be read: {error}"),
        }
    }
}

/// Panics if a batch of samples changes when it is written and read.
pub(super) fn is_read_as_written(batch: SampleBatch) {
    let batch = Batch::Metrics(batch);
    let Ok(record) = Record::of(&batch) else { return };
    let mut pieces = Vec::new();
    let frame =
        encode_frame(FrameId { incarnation: Id::from_bytes([1; 16]), sequence: 1 }, &[record], &mut pieces);
    frame.unwrap_or_else(|error| panic!("a batch of a few KiB fits a frame: {error}"));
    let read = Frame::from_object(pieces.concat().into()).and_then(|frame| frame.batch(0));
    let read = read.unwrap_or_else(|error| panic!("the written frame cannot be read: {error}"));
    assert_eq!(meaning(&read), meaning(&batch), "it changes when it is written and read");
}

/// The time of the stamp of frames.
const STAMP: u64 = 7 << 10;

fn frame_of(records: u8, body: &[u8]) -> Bytes {
    let mut frame = b"SWAL".to_vec();
    frame.extend_from_slice(&[VERSION_MAX, 0, 0, 0]);
    frame.extend_from_slice(&[0; 24]);
    frame.extend_from_slice(&u32::from(records).to_le_bytes());
    frame.extend_from_slice(&(body.len() as u64).to_le_bytes());
    frame.extend_from_slice(&[0; 16]);
    frame.extend_from_slice(&crc32c(body).to_le_bytes());
    let checksum = crc32c(&frame);
    frame.extend_from_slice(&checksum.to_le_bytes());
    debug_assert_eq!(frame.len(), HEADER_LEN);
    frame.extend_from_slice(body);
    frame.into()
}

/// Returns the contents of a batch, with floats as bits.
fn meaning(batch: &Batch) -> String {
    match batch {
        Batch::Logs(batch) => {
            let streams = batch.streams.iter().map(|s| (s.labels.to_string(), &s.entries));
            format!("{:?}", streams.collect::<Vec<_>>())
        }
        Batch::Metrics(batch) => of_samples(batch),
    }
}

fn of_samples(batch: &SampleBatch) -> String {
    let series = batch.series.iter().map(|s| (s.labels.to_string(), &s.samples, &s.histograms));
    let values = batch.values.iter().map(|value| value.to_bits());
    let histograms = batch.histograms.iter().map(|sample| {
        let h = &sample.histogram;
        let floats = [h.zero_threshold, h.zero_count, h.count, h.sum].map(f64::to_bits);
        let buckets = (h.positive.indices.len(), h.negative.indices.len(), h.bounds.len());
        (sample.timestamp, sample.start, sample.integer, h.schema, floats, buckets)
    });
    let exemplars = batch.exemplars.iter().map(|of| {
        let e = &of.exemplar;
        (of.series, e.labels.to_string(), e.value.to_bits(), e.timestamp)
    });
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        series.collect::<Vec<_>>(),
        batch.timestamps,
        values.collect::<Vec<_>>(),
        batch.starts,
        histograms.collect::<Vec<_>>(),
        exemplars.collect::<Vec<_>>(),
        batch.metadata,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the frame of the format's fixture with one byte of its body changed, for each eleventh byte.
    #[test]
    fn a_frame_with_a_changed_byte_is_read_or_refused() {
        let fixture: &[u8] = include_bytes!("../../../format/fixtures/wal-frame-v2.bin");
        let mut input = vec![fixture[32]];
        input.extend_from_slice(&fixture[HEADER_LEN..]);
        run(&input);
        for at in (0..input.len()).step_by(11) {
            let mut hostile = input.clone();
            hostile[at] ^= 1 << (at % 8);
            run(&hostile);
        }
    }
}
