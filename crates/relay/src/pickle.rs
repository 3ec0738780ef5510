//! Encodes points as carbon's pickle port expects them: a list in Python's pickle protocol 2, preceded
//! by its length.
//!
//! **Invariants.** A message has at most [`POINTS_MAX`] points. With names no longer than a line
//! permits, it stays below the megabyte that carbon accepts.

/// The largest number of points of a message, as in carbon.
pub(crate) const POINTS_MAX: usize = 200;

/// Appends one message with the points of these lines to `out`. Lines that are not points are skipped.
pub(crate) fn message(lines: &[&[u8]], now: i64, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    // PROTO 2, EMPTY_LIST, MARK
    out.extend_from_slice(b"\x80\x02](");
    for point in lines.iter().filter_map(|line| crate::line::parse(line, now).ok().flatten()) {
        // BINUNICODE, BINFLOAT, BINFLOAT, TUPLE2, TUPLE2
        out.push(b'X');
        out.extend_from_slice(&(point.name.len() as u32).to_le_bytes());
        out.extend_from_slice(point.name);
        out.push(b'G');
        out.extend_from_slice(&point.time.to_be_bytes());
        out.push(b'G');
        out.extend_from_slice(&point.value.to_be_bytes());
        out.extend_from_slice(b"\x86\x86");
    }
    // APPENDS, STOP
    out.extend_from_slice(b"e.");
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_encoded_as_python_expects() {
        let mut out = Vec::new();
        message(&[b"a.b 1.5 100", b"no point"], 0, &mut out);
        let mut expected = b"\x00\x00\x00\x22\x80\x02](X\x03\x00\x00\x00a.bG".to_vec();
        expected.extend_from_slice(&100_f64.to_be_bytes());
        expected.push(b'G');
        expected.extend_from_slice(&1.5_f64.to_be_bytes());
        expected.extend_from_slice(b"\x86\x86e.");
        expected[3] = (expected.len() - 4) as u8;
        assert_eq!(out, expected);
    }
}
