//! Conversion between WAL frames and batches: encodes what a committer gathered, reads what a writer left.

use bytes::{Bytes, BytesMut};
use sandur_base::Id;
use sandur_format::Error as FormatError;
use sandur_format::wal_segment::{
    Frame, FrameHeader, FrameId, FrameKind, FrameReader, Record, encode_stamped_frame,
};
use sandur_model::Batch;

use crate::error::Error;

/// Encodes these records as a frame of this number and stamp, in pieces that follow each other.
pub(crate) fn encode(incarnation: Id, (sequence, stamp): (u64, u64), records: &[Record]) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(records.len() + 1);
    let encoded = encode_stamped_frame(FrameId { incarnation, sequence }, stamp, records, &mut pieces);
    encoded.expect("a frame is cut well below the format's bound, and no batch exceeds a quarter of it");
    pieces
}

/// Does the same in one piece.
pub(crate) fn encode_whole(incarnation: Id, frame: (u64, u64), records: &[Record]) -> Bytes {
    let pieces = encode(incarnation, frame, records);
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}

/// Decodes a batch of a frame that was read from `source`. The batch does not share the memory of
/// `source`: a small batch must not keep a large file in memory.
pub(crate) fn batch(frame: &Frame, record: usize, source: &Bytes) -> Result<Batch, FormatError> {
    let mut batch = frame.batch(record)?;
    if let Batch::Logs(batch) = &mut batch {
        let arena = &mut batch.arena.bytes;
        if source.as_ptr_range().contains(&arena.as_ptr()) {
            *arena = Bytes::copy_from_slice(arena);
        }
    }
    Ok(batch)
}

/// Decodes the frame of a segment object. Fails unless it is frame `id`.
pub(crate) fn of_object(id: FrameId, path: &str, bytes: Bytes) -> Result<Frame, Error> {
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    let frame = Frame::from_object(bytes).map_err(|error| damaged(error.to_string()))?;
    let found = frame.header().id;
    if found != id {
        return Err(damaged(format!("it holds frame {} of {}", found.sequence, found.incarnation)));
    }
    Ok(frame)
}

/// Whether a frame is a fence.
pub(crate) fn is_fence(frame: &Frame) -> bool {
    frame.header().kind == FrameKind::Fence
}

/// What a local WAL file holds.
pub(crate) struct FileFrames {
    /// Its complete frames, by rising sequence number.
    pub(crate) frames: Vec<Frame>,
    /// The first damage that a later frame follows. The damaged frame was acknowledged once.
    pub(crate) damage: Option<String>,
    /// What follows the last complete frame.
    pub(crate) tail: Option<FileTail>,
}

/// The end of a file that is not a complete frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileTail {
    /// The offset of its first byte in the file.
    pub(crate) at: usize,
    /// Whether the file ends within the frame. Such a frame was never acknowledged, unless the file was
    /// cut later. Otherwise the frame is complete but damaged, and whether it was acknowledged is unknown.
    pub(crate) is_cut: bool,
}

/// Reads the complete frames of a local file. A torn frame at the end is left out and reported in
/// `tail`. A damaged frame before others is reported in `damage`, and reading continues after it.
pub(crate) fn of_file(incarnation: Id, bytes: &Bytes) -> FileFrames {
    let (mut frames, mut damage) = (Vec::<Frame>::new(), None);
    let mut base = 0;
    loop {
        let mut reader = FrameReader::new(bytes.slice(base..));
        let failure = loop {
            match reader.next_frame() {
                Ok(Some(frame)) => {
                    let id = frame.header().id;
                    let follows = frames.last().is_none_or(|last| last.header().id.sequence < id.sequence);
                    if id.incarnation == incarnation && follows {
                        frames.push(frame);
                    }
                }
                Ok(None) => return FileFrames { frames, damage, tail: None },
                Err(FormatError::Torn { valid_len }) => {
                    let at = base + valid_len as usize;
                    let tail = Some(FileTail { at, is_cut: reader.ends_within_frame() });
                    return FileFrames { frames, damage, tail };
                }
                Err(error) => break error,
            }
        };
        base += reader.offset() as usize;
        damage.get_or_insert_with(|| format!("at byte {base}: {failure}"));
        match next_header(incarnation, &bytes[base..]) {
            Some(skipped) => base += skipped,
            None => return FileFrames { frames, damage, tail: None },
        }
    }
}

/// Returns the offset of the next frame header of the incarnation after the first byte.
fn next_header(incarnation: Id, bytes: &[u8]) -> Option<usize> {
    let starts = memchr::memmem::find_iter(bytes.get(1..)?, b"SWAL").map(|at| at + 1);
    let mut headers = starts.filter(|at| {
        FrameHeader::get(&bytes[*at..], 0).is_ok_and(|header| header.id.incarnation == incarnation)
    });
    headers.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::BatchBuilder;

    const WRITER: Id = Id(7);

    fn file(sequences: std::ops::Range<u64>) -> Vec<u8> {
        let frames = sequences.map(|sequence| {
            let line = format!("line {sequence}");
            let batch = BatchBuilder::new().stream("a").row(sequence as i64, &line).build();
            encode_whole(WRITER, (sequence, 0), &[Record::of_logs(&batch).unwrap()])
        });
        frames.flatten().collect()
    }

    fn read(bytes: Vec<u8>) -> (Vec<u64>, bool) {
        let found = of_file(WRITER, &Bytes::from(bytes));
        let sequences = found.frames.iter().map(|frame| frame.header().id.sequence).collect();
        (sequences, found.damage.is_some())
    }

    #[test]
    fn a_torn_end_is_left_out_and_damage_before_it_is_reported() {
        let one = file(0..1).len();
        let whole = file(0..4);
        assert_eq!(read(whole.clone()), (vec![0, 1, 2, 3], false));
        let tail = |bytes: Vec<u8>| of_file(WRITER, &Bytes::from(bytes)).tail;
        assert_eq!(tail(whole.clone()), None);
        for cut in 3 * one + 1..whole.len() {
            assert_eq!(read(whole[..cut].to_vec()), (vec![0, 1, 2], false), "cut at {cut}");
            let expected = FileTail { at: 3 * one, is_cut: true };
            assert_eq!(tail(whole[..cut].to_vec()), Some(expected), "cut at {cut}");
        }
        for damaged in 3 * one..whole.len() {
            let mut bytes = whole.clone();
            bytes[damaged] ^= 1;
            let expected = FileTail { at: 3 * one, is_cut: false };
            assert_eq!(tail(bytes), Some(expected), "whether it was acknowledged is unknown: {damaged}");
        }
        for damaged in one..2 * one {
            let mut bytes = whole.clone();
            bytes[damaged] ^= 1;
            assert_eq!(read(bytes), (vec![0, 2, 3], true), "damaged at {damaged}");
        }
    }

    #[test]
    fn frames_of_other_incarnations_are_not_read() {
        assert!(of_file(Id(8), &Bytes::from(file(0..2))).frames.is_empty());
    }

    #[test]
    fn batches_do_not_keep_the_file_in_memory() {
        let bytes = Bytes::from(file(0..1));
        let found = of_file(WRITER, &bytes);
        let Batch::Logs(batch) = batch(&found.frames[0], 0, &bytes).unwrap() else { panic!("logs") };
        assert!(!bytes.as_ptr_range().contains(&batch.arena.bytes.as_ptr()));
        assert_eq!(batch.rows(), 1);
    }

    #[test]
    fn an_object_must_hold_the_frame_that_its_name_says() {
        let bytes = Bytes::from(file(3..4));
        let id = |sequence| FrameId { incarnation: WRITER, sequence };
        assert!(of_object(id(3), "wal/x", bytes.clone()).is_ok());
        let error = of_object(id(4), "wal/x", bytes.clone()).unwrap_err();
        assert!(error.to_string().contains("holds frame 3"), "{error}");
        assert!(matches!(of_object(id(3), "wal/x", bytes.slice(1..)), Err(Error::Damaged { .. })));
    }
}
