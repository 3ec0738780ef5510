//! Assembles bytes into batches of complete entries, for files, decoders, pipes and followed files.
//!
//! A line without its end is buffered, up to [`LINE_BYTES_MAX`]. A longer line is skipped and reported
//! with its place and length, so that memory is bounded for any input. Empty lines between entries are
//! dropped, and so is a byte-order mark at the start of the input.
//!
//! The last entry of a batch may be open: the next line may continue it. A batch that is taken ends before
//! it, so a resume point never stands inside an entry.

use std::collections::VecDeque;

use sandur_model::Labels;

use super::batch::{Batch, Skipped};
use super::entries::{Joiner, Step};
use super::opened::BYTE_ORDER_MARK;
use super::reading::Reading;
use super::start::{Planned, Start};
use super::times::Times;

/// Bytes of lines of one request.
const BATCH_BYTES: u64 = 1 << 20;
/// Maximum number of lines of one request: the server names refused entries in at most this many runs.
const BATCH_LINES: usize = sandur_ingest::RUNS_MAX;
/// Maximum length of a line; below the server's limit of a request (`limits.max_body_size`).
pub const LINE_BYTES_MAX: usize = 8 << 20;

/// The open entry, the last one of the batch.
#[derive(Clone, Copy, Debug)]
struct Open {
    found: Option<i64>,
    now_ns: i64,
}

/// Divides one input into batches.
pub struct Assembler {
    times: Times,
    joiner: Option<Joiner>,
    planned: VecDeque<Planned>,
    /// Number of bytes that were fed.
    offset: u64,
    /// A line without its end; the offset of the first line that is not assembled.
    partial: Vec<u8>,
    partial_at: u64,
    /// Whether that line is too long and is skipped.
    skipping: bool,
    open: Option<Open>,
    batch: Batch,
    ready: VecDeque<Batch>,
}

impl Assembler {
    /// For an input that continues at `start`.
    pub fn new(labels: Labels, reading: Reading, start: Start) -> Self {
        let Start { offset, dates, learned, planned } = start;
        let joiner = reading.rule.map(|rule| Joiner::new(rule, learned));
        Self {
            times: Times::new(reading.recogniser, reading.is_dating, joiner.is_some()),
            joiner,
            planned,
            offset,
            partial: Vec::new(),
            partial_at: offset,
            skipping: false,
            open: None,
            batch: Batch::new(labels, offset, dates, learned),
            ready: VecDeque::new(),
        }
    }

    /// Offset in the input after the bytes that were fed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether a line without its end is buffered.
    pub fn has_partial(&self) -> bool {
        self.skipping || !self.partial.is_empty()
    }

    /// Whether complete entries are available.
    pub fn has_lines(&self) -> bool {
        self.batch.lines.len() > usize::from(self.open.is_some()) || !self.ready.is_empty()
    }

    /// Whether an entry is open, which the next line may continue.
    pub fn has_open_entry(&self) -> bool {
        self.open.is_some()
    }

    /// A line with a time that is not understood, once if the input has no other times.
    pub fn take_not_understood(&mut self) -> Option<String> {
        self.times.take_not_understood()
    }

    /// Adds bytes that arrived at `now_ns`.
    pub fn feed(&mut self, mut bytes: &[u8], now_ns: i64) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            self.offset += end as u64 + 1;
            if self.partial.is_empty() && !self.skipping {
                self.line(line, now_ns);
            } else {
                self.hold(line);
                self.end_partial(now_ns);
            }
            self.partial_at = self.offset;
            bytes = rest;
        }
        self.offset += bytes.len() as u64;
        self.hold(bytes);
    }

    /// Returns the next full batch.
    pub fn take_full(&mut self) -> Option<Batch> {
        self.ready.pop_front()
    }

    /// Returns a batch of the complete entries that are left.
    pub fn flush(&mut self) -> Option<Batch> {
        if self.ready.is_empty() {
            self.close();
        }
        self.ready.pop_front()
    }

    /// Treats the last line as complete although its end is missing, and the last entry too.
    pub fn finish(&mut self, now_ns: i64) {
        if self.has_partial() {
            self.end_partial(now_ns);
            self.partial_at = self.offset;
        }
        self.times.end_input();
        self.cut();
    }

    /// Treats the open entry as complete although lines that continue it may follow.
    pub fn cut(&mut self) {
        if self.open.is_some() {
            self.joiner.iter_mut().for_each(Joiner::cut);
            self.end_entry(self.partial_at);
            self.batch.is_cut = true;
            self.close();
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.skipping || self.partial.len() + bytes.len() > LINE_BYTES_MAX {
            self.skipping = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn end_partial(&mut self, now_ns: i64) {
        if self.skipping {
            self.skipping = false;
            return self.skip(self.offset - self.partial_at);
        }
        let line = std::mem::take(&mut self.partial);
        self.line(&line, now_ns);
    }

    fn skip(&mut self, length: u64) {
        self.joiner.iter_mut().for_each(Joiner::end);
        self.end_entry(self.partial_at);
        self.batch.skipped.push(Skipped { at: self.partial_at, length });
        self.batch.end = self.offset;
    }

    fn line(&mut self, line: &[u8], now_ns: i64) {
        if line.len() > LINE_BYTES_MAX {
            return self.skip(line.len() as u64);
        }
        let is_first = self.partial_at == 0;
        let text = if is_first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) } else { line };
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.is_empty() {
            self.joiner.iter_mut().for_each(Joiner::blank);
        } else {
            self.text(text, now_ns);
        }
        if self.open.is_none() {
            self.batch.end = self.offset;
            self.close_if_full();
        }
    }

    /// Adds a line to the open entry, or begins another one with it.
    fn text(&mut self, text: &[u8], now_ns: i64) {
        let now_ns = self.arrival(now_ns);
        let mut found = None;
        if let Some(joiner) = self.joiner.as_mut() {
            let (times, mut asked) = (&mut self.times, None);
            let step =
                joiner.step(self.batch.last(), text, || asked.insert(times.find(text, now_ns)).is_some());
            if let Step::Continues { blanks } = step {
                return self.batch.join(blanks, text);
            }
            found = asked;
            joiner.end();
            self.end_entry(self.partial_at);
            self.close_if_full();
        }
        let found = found.unwrap_or_else(|| self.times.find(text, now_ns));
        self.times.note(text, found.is_some());
        if !self.batch.lines.is_empty() && self.batch.now_ns != now_ns && self.has_plan() {
            self.close();
        }
        if self.batch.lines.is_empty() {
            self.batch.now_ns = now_ns;
        }
        self.batch.add(self.partial_at, 0, text);
        self.open = Some(Open { found, now_ns });
        match &mut self.joiner {
            Some(joiner) => joiner.start(text, found.is_some()),
            None => self.end_entry(self.offset),
        }
    }

    /// Dates the open entry, which ends at this offset.
    fn end_entry(&mut self, end: u64) {
        let Some(Open { found, .. }) = self.open.take() else { return };
        // A batch has one time of arrival; a resume point stores only that.
        let now_ns = self.batch.now_ns;
        let found = found.or_else(|| self.times.find_in_object(self.batch.last(), now_ns));
        let found = found.filter(|_| self.times.is_dating());
        self.batch.undated += u64::from(found.is_none());
        let timestamp_ns = self.batch.dates.next(found, now_ns);
        self.batch.lines.last_mut().into_iter().for_each(|line| line.timestamp_ns = timestamp_ns);
        self.batch.learned = self.joiner.as_ref().map(Joiner::learned).unwrap_or_default();
        self.batch.end = end;
    }

    fn has_plan(&self) -> bool {
        !self.planned.is_empty()
    }

    /// The time of arrival of the present line: lines that may be stored already keep the time and the
    /// entry that they had.
    fn arrival(&mut self, now_ns: i64) -> i64 {
        while self.planned.front().is_some_and(|plan| plan.until <= self.partial_at) {
            self.planned.pop_front();
            self.cut();
            if !self.batch.lines.is_empty() {
                self.close();
            }
        }
        self.planned.front().map_or(now_ns, |plan| plan.now_ns)
    }

    fn close_if_full(&mut self) {
        if self.batch.bytes() >= BATCH_BYTES || self.batch.lines.len() >= BATCH_LINES {
            self.close();
        }
    }

    /// Ends the batch before the open entry.
    fn close(&mut self) {
        let entries = self.batch.lines.len() - usize::from(self.open.is_some());
        if self.batch.end == self.batch.start && entries == 0 {
            return;
        }
        let Batch { labels, end, dates, learned, .. } = &self.batch;
        let mut next = Batch::new(labels.clone(), *end, *dates, *learned);
        if let Some(open) = &self.open {
            self.batch.move_last(&mut next);
            next.now_ns = open.now_ns;
        }
        self.ready.push_back(std::mem::replace(&mut self.batch, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(assembler: &mut Assembler) -> Vec<Batch> {
        std::iter::from_fn(|| assembler.flush()).collect()
    }

    fn texts(batches: &[Batch]) -> Vec<String> {
        let text = |b: &Batch, n| String::from_utf8_lossy(b.text(n)).into_owned();
        batches.iter().flat_map(|b| (0..b.lines.len()).map(move |n| text(b, n))).collect()
    }

    #[test]
    fn inputs_are_cut_into_batches_with_their_offsets() {
        let line = format!("{}\r\n", "x".repeat(1_000));
        let text = line.repeat(3_000) + "\nlast";
        for chunk in [1, 7, 1_000, 1 << 20] {
            let start = Start { offset: 10, ..Start::default() };
            let mut assembler = Assembler::new(Labels::default(), Reading::by_arrival(), start);
            text.as_bytes().chunks(chunk).for_each(|c| assembler.feed(c, 5));
            let whole = all(&mut assembler);
            assert_eq!(texts(&whole).len(), 3_000, "the last line has no end");
            assembler.finish(5);
            let rest = all(&mut assembler);
            assert_eq!(texts(&rest), ["last"]);
            let ends: Vec<(u64, u64)> = whole.iter().chain(&rest).map(|b| (b.start, b.end)).collect();
            assert_eq!(ends[0], (10, 10 + 1_049 * 1_002), "a batch ends with the line that fills it");
            assert!(ends.windows(2).all(|pair| pair[0].1 == pair[1].0));
            assert_eq!(ends.last().unwrap().1, 10 + text.len() as u64);
            let times: Vec<i64> = whole.iter().flat_map(|b| b.lines.iter().map(|l| l.timestamp_ns)).collect();
            assert_eq!(times, (5..3_005).collect::<Vec<i64>>());
        }
    }

    /// Programs on Windows write a byte-order mark; in the first line it would hide the time and break
    /// JSON.
    #[test]
    fn a_byte_order_mark_at_the_start_is_not_part_of_the_first_line() {
        for (offset, text, expected) in [
            (0, "\u{feff}one\n\u{feff}two\n", vec!["one", "\u{feff}two"]),
            (0, "\u{feff}\r\none\n", vec!["one"]),
            (0, "\u{feff}", vec![]),
            (10, "\u{feff}one\n", vec!["\u{feff}one"]),
        ] {
            for chunk in [1, 100] {
                let start = Start { offset, ..Start::default() };
                let mut assembler = Assembler::new(Labels::default(), Reading::by_arrival(), start);
                text.as_bytes().chunks(chunk).for_each(|bytes| assembler.feed(bytes, 5));
                assembler.finish(5);
                let batches = all(&mut assembler);
                assert_eq!(texts(&batches), expected, "{text:?} in pieces of {chunk}");
                assert_eq!(batches.last().unwrap().end, offset + text.len() as u64, "offsets of the file");
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_with_its_place_and_length() {
        let long = LINE_BYTES_MAX + 1;
        let text = [b"one\n".to_vec(), vec![b'x'; long], b"\ntwo\n".to_vec()].concat();
        for chunk in [64 << 10, text.len()] {
            let mut assembler = Assembler::new(Labels::default(), Reading::by_arrival(), Start::default());
            for bytes in text.chunks(chunk) {
                assembler.feed(bytes, 5);
                assert!(assembler.partial.len() <= LINE_BYTES_MAX);
            }
            let batches = all(&mut assembler);
            assert_eq!(texts(&batches), ["one", "two"]);
            let skipped: Vec<Skipped> = batches.iter().flat_map(|b| b.skipped.clone()).collect();
            assert_eq!((skipped.len(), skipped[0].at), (1, 4));
            assert!(skipped[0].length >= long as u64);
            assert_eq!(batches.last().unwrap().end, text.len() as u64);
        }
    }

    #[test]
    fn lines_that_may_be_stored_already_keep_their_times() {
        let text = "a\nb\nc\nd\n";
        let first = {
            let mut assembler = Assembler::new(Labels::default(), Reading::by_arrival(), Start::default());
            assembler.feed(&text.as_bytes()[..4], 100);
            assembler.flush().unwrap()
        };
        let plan = Planned { until: first.end, now_ns: first.now_ns };
        let start = Start { planned: [plan].into(), ..Start::default() };
        let mut again = Assembler::new(Labels::default(), Reading::by_arrival(), start);
        again.feed(text.as_bytes(), 900);
        let batches = all(&mut again);
        let times = |b: &Batch| b.lines.iter().map(|l| l.timestamp_ns).collect::<Vec<i64>>();
        assert_eq!(times(&batches[0]), times(&first));
        assert_eq!(times(&batches[1]), [900, 901]);
    }
}
