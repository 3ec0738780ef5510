//! Messages of calls between processes, as a peer with the secret can send them.
//!
//! The first byte of the input chooses between a request and an answer.

use bytes::Bytes;
use sandur_peers::fuzzing::{decode_answer, decode_request, encode_answer, encode_request};
use sandur_peers::{Answer, PeerRules, Request};

/// Bytes of the parts of a list of rules.
const PARTS_BYTES: u64 = 64 << 10;

/// Runs the input.
pub fn run(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 2 {
        0 => request(bytes),
        _ => answer(&Bytes::copy_from_slice(bytes)),
    }
}

fn request(bytes: &[u8]) {
    let Ok(request) = decode_request(bytes) else { return };
    if request != Request::Unknown {
        assert_eq!(decode_request(&encode_request(&request)).as_ref(), Ok(&request));
    }
}

fn answer(bytes: &Bytes) {
    let Ok(answer) = decode_answer(bytes) else { return };
    let pieces: Vec<&Bytes> = match &answer {
        Answer::Frames { frames, .. } => frames.iter().collect(),
        Answer::Pieces(pieces) => pieces.iter().flatten().collect(),
        _ => Vec::new(),
    };
    if let Answer::Rules(list) = &answer {
        rules(list);
    }
    let whole = bytes.as_ptr_range();
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        let part = piece.as_ptr_range();
        assert!(whole.start <= part.start && part.end <= whole.end, "a piece is no part of the answer");
    }
    assert_eq!(decode_answer(&encode_answer(&answer)).as_ref(), Ok(&answer));
}

/// The parts that are read count no more bytes than are allowed.
fn rules(list: &PeerRules) {
    let (mut parts, mut bytes) = (list.parts(PARTS_BYTES), 0);
    while let Ok(Some(part)) = parts.read() {
        bytes += part.bytes();
    }
    assert!(bytes <= PARTS_BYTES, "the parts of a list take more memory than they may");
}
