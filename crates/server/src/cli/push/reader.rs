//! Reads lines of a file or of stdin and cuts them into batches.
//!
//! A line without a timestamp of its own (the next line of a stack trace) gets the one before. Lines
//! of one instant get a nanosecond more each: equal lines at equal times would count as one, and many
//! programs write whole seconds. The last line of a file counts although it has no line break.

use std::io::BufRead;

use sandur_model::Labels;

use super::request::Lines;
use super::timestamps::Recogniser;

/// Line bytes of one request.
pub const BATCH_BYTES: u64 = 1 << 20;
/// Longest line that is sent; the rest of a longer one is left out.
const LINE_BYTES_MAX: usize = 256 << 10;

/// Cuts one input into batches.
pub struct LineReader<R> {
    input: R,
    labels: Labels,
    recogniser: Option<Recogniser>,
    dates: Dates,
    offset: u64,
}

/// Times of lines, no two alike in a row.
#[derive(Default)]
struct Dates {
    /// The time that was found last.
    base_ns: Option<i64>,
    /// Lines since then.
    lines: i64,
}

impl Dates {
    /// The time of the next line, in which `found` was found.
    fn next(&mut self, found: Option<i64>, now_ns: i64) -> i64 {
        match found.or(self.base_ns) {
            Some(ns) if self.base_ns == Some(ns) => self.lines += 1,
            base => *self = Self { base_ns: Some(base.unwrap_or(now_ns)), lines: 0 },
        }
        self.base_ns.unwrap_or(now_ns) + self.lines
    }
}

/// Lines of one request.
pub struct Batch {
    /// The lines.
    pub lines: Lines,
    /// Offset in the input after them.
    pub end: u64,
}

impl<R: BufRead> LineReader<R> {
    /// Reads from `offset` on; without a recogniser every line is of now.
    pub fn new(input: R, labels: Labels, recogniser: Option<Recogniser>, offset: u64) -> Self {
        Self { input, labels, recogniser, dates: Dates::default(), offset }
    }

    /// The next batch; `None` at the end. `now_ns` dates lines that have no time.
    pub fn next(&mut self, now_ns: i64) -> std::io::Result<Option<Batch>> {
        let mut lines = Lines::of(&self.labels);
        let mut line = Vec::new();
        while lines.line_bytes() < BATCH_BYTES {
            line.clear();
            let read = self.input.read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            self.offset += read as u64;
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            if text.is_empty() {
                continue;
            }
            let found = self.recogniser.as_ref().and_then(|r| r.find(text));
            // Without a recogniser there is no other time than that of the reading.
            let found = if self.recogniser.is_some() { found } else { Some(now_ns) };
            lines.add(self.dates.next(found, now_ns), &text[..text.len().min(LINE_BYTES_MAX)]);
        }
        Ok((!lines.is_empty()).then_some(Batch { lines, end: self.offset }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lines_in_a_row_have_one_time() {
        let mut dates = Dates::default();
        let found = [None, None, Some(100), Some(100), None, Some(90), Some(100), None];
        let times: Vec<i64> = found.into_iter().map(|f| dates.next(f, 7)).collect();
        assert_eq!(times, [7, 8, 100, 101, 102, 90, 100, 101]);
    }

    #[test]
    fn inputs_are_cut_into_batches_with_their_offsets() {
        let line = format!("{}\r\n", "x".repeat(1_000));
        let text = line.repeat(3_000) + "\nlast";
        let mut reader = LineReader::new(text.as_bytes(), Labels::default(), None, 10);
        let mut counts = Vec::new();
        let mut end = 0;
        while let Some(batch) = reader.next(5).unwrap() {
            counts.push(batch.lines.count());
            end = batch.end;
        }
        assert_eq!(counts, [1_049, 1_049, 903]);
        assert_eq!(end, 10 + text.len() as u64);
    }
}
