//! The codec of line shapes: any bytes are decoded or refused within bounds, and any lines are the same
//! after encoding and decoding.

use sandur_format::shapes::{ShapeScratch, decode, encode};

/// If the first byte is odd, the rest is lines to encode. If it is even, the rest is the number of rows,
/// the decoded length (two bytes), and the bytes to decode.
pub fn run(input: &[u8]) {
    match input.split_first() {
        Some((choice, rest)) if choice % 2 == 1 => encoded(*choice, rest),
        Some((_, [rows, low, high, bytes @ ..])) => {
            let timestamps: Vec<i64> = (0..i64::from(*rows)).map(|n| n * 1_000_000_007).collect();
            let raw_len = usize::from(*low) | usize::from(*high) << 8;
            if let Ok(column) = decode(bytes, &timestamps, raw_len) {
                assert_eq!((column.bytes.len(), column.ends.len()), (raw_len, timestamps.len()));
            }
        }
        _ => {}
    }
}

/// Encodes the lines and decodes them. They are repeated, because a small number of lines is not
/// encoded.
fn encoded(choice: u8, input: &[u8]) {
    let (mut lines, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..1 + choice / 8 {
        for line in input.split(|b| *b == 0) {
            lines.extend_from_slice(line);
            ends.push(lines.len() as u32);
            lines.push(b'\n');
        }
    }
    let timestamps: Vec<i64> = (0..ends.len() as i64).map(|n| 1_767_225_600_000_000_000 + n * 999).collect();
    let mut out = Vec::new();
    if encode(&lines, &ends, &timestamps, &mut ShapeScratch::default(), &mut out) {
        match decode(&out, &timestamps, lines.len()) {
            Ok(column) => assert!(
                column.bytes == lines && column.ends == ends,
                "they change when they are encoded and decoded"
            ),
            Err(error) => panic!("the encoded lines cannot be decoded: {error}"),
        }
    }
}
