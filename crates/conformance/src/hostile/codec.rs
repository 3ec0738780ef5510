//! The codec of line shapes: hostile bytes are refused within bounds, and any lines read back the same.

use sandur_format::shapes::{ShapeScratch, decode, encode};

/// An odd first byte: the rest is lines to encode. An even one: rows, length, and bytes to decode.
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

/// Repeats the lines, since few lines are not encoded, and reads them back.
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
            Ok(column) => assert!(column.bytes == lines && column.ends == ends, "read back otherwise"),
            Err(error) => panic!("what was encoded cannot be read: {error}"),
        }
    }
}
