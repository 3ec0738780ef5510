//! Pieces of complete lines of samples as text, of which any part can be sent.
//!
//! Lines without content are left out: empty ones, and `# EOF`, which would end the parsing; it is
//! appended to each body of OpenMetrics.

use std::io::{self, Read};
use std::ops::Range;

use bytes::Bytes;

use super::opened::{BYTE_ORDER_MARK, Input};
use super::sender::{Endpoint, Parcel};

/// Size of a piece.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes that are read beyond a piece to find the end of a line.
const AHEAD_BYTES: usize = 1 << 20;
/// The last line of a text in OpenMetrics.
const END: &[u8] = b"# EOF";

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// Its number in the input, from 1.
    number: u64,
    start: u32,
    end: u32,
}

/// Consecutive lines of an input.
#[derive(Debug, Default)]
pub struct Piece {
    text: Vec<u8>,
    lines: Vec<Line>,
    /// Lines that are not valid UTF-8, which no format of samples allows.
    not_utf8: Vec<Line>,
    /// Whether `# EOF` is one of its lines.
    pub has_end: bool,
    /// Number of its first line, from 1.
    pub first: u64,
    /// Number of its last line, from 1.
    pub last: u64,
}

impl Piece {
    /// The lines of a text that follows `before` lines.
    pub fn new(text: Vec<u8>, before: u64) -> Self {
        let mut piece = Self { first: before + 1, last: before, ..Self::default() };
        let has_mark = before == 0 && text.starts_with(BYTE_ORDER_MARK);
        let mut start = if has_mark { BYTE_ORDER_MARK.len() } else { 0 };
        for whole in text[start..].split_inclusive(|byte| *byte == b'\n') {
            piece.last += 1;
            let bare = whole.strip_suffix(b"\n").unwrap_or(whole);
            let bare = bare.strip_suffix(b"\r").unwrap_or(bare);
            let line = Line { number: piece.last, start: start as u32, end: (start + bare.len()) as u32 };
            start += whole.len();
            match bare.trim_ascii() {
                b"" => {}
                END => piece.has_end = true,
                _ if std::str::from_utf8(bare).is_err() => piece.not_utf8.push(line),
                _ => piece.lines.push(line),
            }
        }
        piece.text = text;
        piece
    }

    fn text_of(&self, line: Line) -> &[u8] {
        &self.text[line.start as usize..line.end as usize]
    }

    /// Number and text of line `n` of those that are sent.
    pub fn line(&self, n: usize) -> (u64, &[u8]) {
        (self.lines[n].number, self.text_of(self.lines[n]))
    }

    /// Number and text of the lines that are not valid UTF-8.
    pub fn not_utf8(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.not_utf8.iter().map(|line| (line.number, self.text_of(*line)))
    }

    /// Number and bytes of the samples, without the lines at the positions `refused`, which are
    /// ascending.
    pub fn score_without(&self, refused: &[usize]) -> (u64, u64) {
        let mut refused = refused.iter().peekable();
        let mut score = (0, 0);
        for (n, line) in self.lines.iter().enumerate() {
            let text = self.text_of(*line);
            let is_refused = refused.next_if(|refused| **refused == n).is_some();
            if !is_refused && !text.trim_ascii_start().starts_with(b"#") {
                score = (score.0 + 1, score.1 + text.len() as u64);
            }
        }
        score
    }

    /// The body of a request with these lines.
    fn body(&self, lines: Range<usize>, open_metrics: bool) -> Bytes {
        let lines = &self.lines[lines];
        let bytes: usize = lines.iter().map(|line| (line.end - line.start) as usize + 1).sum();
        let mut body = Vec::with_capacity(bytes + END.len() + 1);
        for line in lines {
            body.extend_from_slice(self.text_of(*line));
            body.push(b'\n');
        }
        if open_metrics {
            body.extend_from_slice(END);
            body.push(b'\n');
        }
        body.into()
    }
}

/// A piece and how it is sent.
pub struct SampleParcel<'a> {
    /// The piece.
    pub piece: &'a Piece,
    /// Whether its format is OpenMetrics.
    pub open_metrics: bool,
    /// Parameters of the request: time and labels.
    pub pairs: &'a [(&'a str, String)],
}

impl Parcel for SampleParcel<'_> {
    fn lines(&self) -> usize {
        self.piece.lines.len()
    }

    fn body(&self, lines: Range<usize>) -> Bytes {
        self.piece.body(lines, self.open_metrics)
    }

    fn endpoint(&self) -> Endpoint<'_> {
        let kind =
            if self.open_metrics { "application/openmetrics-text; version=1.0.0" } else { "text/plain" };
        Endpoint {
            path: "/api/v1/import/prometheus",
            pairs: self.pairs,
            headers: [("content-type", kind), ("x-sandur-refused", "lines")],
        }
    }
}

/// The pieces of an input.
pub struct Pieces {
    input: Input,
    rest: Vec<u8>,
    ended: bool,
    lines: u64,
}

impl Pieces {
    /// The pieces of this input.
    pub fn of(input: Input) -> Self {
        Self { input, rest: Vec::new(), ended: false, lines: 0 }
    }

    /// The next piece.
    pub fn next(&mut self) -> io::Result<Option<Piece>> {
        let Some(text) = self.next_text()? else { return Ok(None) };
        let piece = Piece::new(text, self.lines);
        self.lines = piece.last;
        Ok(Some(piece))
    }

    fn next_text(&mut self) -> io::Result<Option<Vec<u8>>> {
        let room = PIECE_BYTES + AHEAD_BYTES;
        while !self.ended && self.rest.len() < room {
            let wanted = (room - self.rest.len()) as u64;
            let read = (&mut self.input).take(wanted).read_to_end(&mut self.rest)?;
            self.ended = read == 0;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        if self.ended && self.rest.len() <= PIECE_BYTES {
            return Ok(Some(std::mem::take(&mut self.rest)));
        }
        let piece = &self.rest[..self.rest.len().min(PIECE_BYTES)];
        let end = piece.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let end = end.ok_or_else(|| {
            let number = self.lines + 1;
            io::Error::other(format!("line {number} has more than {PIECE_BYTES} bytes"))
        })?;
        let left = self.rest.split_off(end);
        Ok(Some(std::mem::replace(&mut self.rest, left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines() {
        let line = format!("{}\n", "x".repeat(999_999));
        let text = line.repeat(9) + "last";
        let mut pieces = Pieces::of(Box::new(io::Cursor::new(text.clone())));
        let (mut joined, mut firsts) = (Vec::new(), Vec::new());
        while let Some(piece) = pieces.next().unwrap() {
            assert!(piece.text.len() <= PIECE_BYTES);
            assert!(piece.text.ends_with(b"\n") || piece.text.ends_with(b"last"));
            firsts.push(piece.first);
            joined.extend(piece.text);
        }
        assert_eq!((joined, firsts), (text.into_bytes(), vec![1, 5, 9]));
        let error = Pieces::of(Box::new(io::repeat(b'x'))).next().unwrap_err();
        assert!(error.to_string().contains("line 1 has more than"), "{error}");
    }

    #[test]
    fn lines_without_content_are_left_out_and_the_others_keep_their_numbers() {
        let text = b"# HELP a b\r\na 1\n\n \na \xff\n# EOF\nb 2\n# EOF".to_vec();
        let piece = Piece::new(text, 10);
        assert!(piece.has_end && (piece.first, piece.last) == (11, 18));
        let lines: Vec<_> = (0..piece.lines.len()).map(|n| piece.line(n)).collect();
        assert_eq!(lines, [(11, &b"# HELP a b"[..]), (12, b"a 1"), (17, b"b 2")]);
        assert_eq!(piece.not_utf8().collect::<Vec<_>>(), [(15, &b"a \xff"[..])]);
        assert_eq!(piece.score_without(&[]), (2, 6), "a description is not a sample");
        assert_eq!(piece.score_without(&[0, 2]), (1, 3));
        assert_eq!(&piece.body(1..3, false)[..], b"a 1\nb 2\n");
        assert_eq!(&piece.body(2..3, true)[..], b"b 2\n# EOF\n");
    }

    #[test]
    fn a_byte_order_mark_is_not_part_of_the_first_sample() {
        let text = b"\xef\xbb\xbfa 1\n\xef\xbb\xbfb 2\n".to_vec();
        let first = |before| Piece::new(text.clone(), before).line(0).1.to_vec();
        assert_eq!([first(0), first(7)], [b"a 1".to_vec(), b"\xef\xbb\xbfa 1".to_vec()]);
        assert_eq!(Piece::new(text.clone(), 0).line(1).1, b"\xef\xbb\xbfb 2");
    }
}
