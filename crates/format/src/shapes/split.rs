//! Splits lines into constant text, variable tokens and timestamps.
//!
//! Values after `=` and after JSON keys, tokens with a digit or an `@`, and paths are variable. All other
//! text is constant, so that words define shapes and values do not.

use super::clock::{Clocks, MAX_CLOCKS};
use super::numbers::{MAX_DIGITS, number_of_digits};
use super::table::Split;
use super::window::Window;
use super::words::{fold, fold_bytes, load_up_to8, same_bytes};

/// Code of a slot that holds a variable token; the code of a timestamp is one more than its clock.
pub(super) const VARIABLE: u8 = 0;

/// After this many slots the rest of a line is constant.
const MAX_SLOTS: usize = 1_000;

/// A timestamp may begin this many bytes before its first digit (`Thu, 1 Jan`).
const MAX_LEAD: usize = 5;

/// A variable token, never empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Token {
    start: u32,
    /// The length; the highest bit is set when the token is a string of digits that maps to a number.
    packed: u32,
    /// That number; else the bytes of the token, if they fit; else their hash. It is computed while the
    /// line is in the cache, so that most tokens need not be read again.
    word: u64,
}

const NUMBER: u32 = 1 << 31;

impl Token {
    #[inline(always)]
    fn new(lines: &[u8], start: usize, end: usize, number: bool) -> Self {
        let len = end - start;
        let (mark, word) = match len {
            _ if number => (NUMBER, number_of_digits(lines, start, len)),
            1..=8 => (0, load_up_to8(lines, start, len)),
            _ => (0, fold_bytes(0, &lines[start..end])),
        };
        Self { start: start as u32, packed: len as u32 | mark, word }
    }

    #[inline(always)]
    pub(super) fn start(self) -> usize {
        self.start as usize
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.packed & !NUMBER) as usize
    }

    #[inline(always)]
    pub(super) fn end(self) -> usize {
        self.start() + self.len()
    }

    /// Returns the number of a token of digits.
    #[inline(always)]
    pub(super) fn number(self) -> Option<u64> {
        (self.packed & NUMBER != 0).then_some(self.word)
    }

    /// Returns a hash of the token.
    #[inline(always)]
    pub(super) fn hash(self) -> u64 {
        fold(u64::from(self.packed), self.word)
    }

    /// Whether two tokens of the same lines are the same text.
    #[inline(always)]
    pub(super) fn is_same(self, other: Self, lines: &[u8]) -> bool {
        let same = self.packed == other.packed && self.word == other.word;
        let is_same_by_token = self.packed > NUMBER || self.len() <= 8;
        same && (is_same_by_token || same_bytes((lines, self.start()), (lines, other.start()), self.len()))
    }
}

/// Splits lines and keeps the tokens and timestamps.
#[derive(Default)]
pub(super) struct Splitter {
    window: Window,
    pub(super) clocks: Clocks,
    /// The line that was split last.
    pub(super) split: Split,
    /// The variable tokens of all lines.
    pub(super) tokens: Vec<Token>,
    /// Offsets of the timestamps of all lines, by clock.
    pub(super) offsets: [Vec<i64>; MAX_CLOCKS],
}

/// The line that is being split.
#[derive(Clone, Copy)]
struct Line<'a> {
    lines: &'a [u8],
    end: usize,
    timestamp: i64,
}

impl Splitter {
    /// Starts over with other lines, of which there must be at least one.
    pub(super) fn reset(&mut self, lines: &[u8], ends: &[u32], timestamps: &[i64]) {
        self.window.reset();
        self.clocks.learn(lines, ends, timestamps);
        self.tokens.clear();
        self.offsets.iter_mut().for_each(Vec::clear);
    }

    /// Splits `lines[start..end]`, the line of a row with this timestamp.
    pub(super) fn split(&mut self, lines: &[u8], (start, end): (usize, usize), timestamp: i64) {
        self.window.cover(lines, start, end);
        self.split.begin(start);
        let line = Line { lines, end, timestamp };
        let mut at = self.window.next(&self.window.interest, start, end);
        while at < end && self.split.slots() < MAX_SLOTS {
            let next = if self.window.is(&self.window.value, at) {
                self.value(line, at)
            } else {
                self.token(line, at)
            };
            at = self.window.next(&self.window.interest, next, end);
        }
    }

    /// Returns the number of slots of all lines so far.
    pub(super) fn slots(&self) -> usize {
        self.tokens.len() + self.offsets.iter().map(Vec::len).sum::<usize>()
    }

    /// Adds the timestamp in `[low, high)` whose first digit is at `digit` and returns its end.
    #[inline(always)]
    fn timestamp(&mut self, line: Line<'_>, digit: usize, (low, high): (usize, usize)) -> Option<usize> {
        let found = self.clocks.find(line.lines, digit, (low, high), line.timestamp)?;
        self.split.slot(line.lines, found.start, found.end, found.clock as u8 + 1);
        self.offsets[found.clock].push(found.offset);
        Some(found.end)
    }

    #[inline(always)]
    fn variable(&mut self, line: Line<'_>, start: usize, end: usize) -> usize {
        let number = self.is_number(start, end);
        self.push(line, (start, end), number)
    }

    #[inline(always)]
    fn push(&mut self, line: Line<'_>, (start, end): (usize, usize), number: bool) -> usize {
        self.split.slot(line.lines, start, end, VARIABLE);
        self.tokens.push(Token::new(line.lines, start, end, number));
        end
    }

    /// Adds the value at `at`: quoted, or up to the next hard delimiter.
    #[inline(always)]
    fn value(&mut self, line: Line<'_>, at: usize) -> usize {
        let first = line.lines[at];
        if first == b'"' {
            return self.quoted(line, at + 1);
        }
        if first.is_ascii_digit()
            && let Some(next) = self.timestamp(line, at, (self.split.at, line.end))
        {
            return next;
        }
        if self.window.is(&self.window.delimiter, at) {
            return at + 1;
        }
        let end = self.window.next(&self.window.hard, at, line.end);
        self.variable(line, at, end)
    }

    /// Adds the value from `start` to the next unescaped quote.
    fn quoted(&mut self, line: Line<'_>, start: usize) -> usize {
        let escaped = |quote: usize| {
            line.lines[start..quote].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
        };
        let mut end = self.window.next(&self.window.quote, start, line.end);
        while end < line.end && escaped(end) {
            end = self.window.next(&self.window.quote, end + 1, line.end);
        }
        if end == line.end || end == start {
            return start;
        }
        let digit = self.window.next(&self.window.digit, start, end);
        if digit < end
            && digit <= start + MAX_LEAD
            && let Some(next) = self.timestamp(line, digit, (start, end))
        {
            return next;
        }
        self.variable(line, start, end) + 1
    }

    /// Adds the token around the interesting byte at `at`.
    #[inline(always)]
    fn token(&mut self, line: Line<'_>, at: usize) -> usize {
        if line.lines[at].is_ascii_digit()
            && let Some(next) = self.timestamp(line, at, (self.split.at, line.end))
        {
            return next;
        }
        let (start, mut end, mut number) = self.window.token(at, (self.split.at, line.end));
        number &= end - start <= MAX_DIGITS;
        if line.lines[end - 1] == b'.' && end > at + 1 {
            // Trailing full stops belong to the sentence.
            while end > at + 1 && line.lines[end - 1] == b'.' {
                end -= 1;
            }
            number = self.is_number(start, end);
        }
        self.push(line, (start, end), number)
    }

    #[inline(always)]
    fn is_number(&self, start: usize, end: usize) -> bool {
        end - start <= MAX_DIGITS && self.window.is_digits(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line with its slots in brackets; timestamps are marked with a `t`.
    fn cut(line: &str) -> String {
        let mut splitter = Splitter::default();
        let text = format!("{line}\n");
        let timestamp = 1_795_176_003_004_050_607; // 2026-11-20T12:00:03.004050607Z
        splitter.reset(text.as_bytes(), &[line.len() as u32], &[timestamp]);
        splitter.split(text.as_bytes(), (0, line.len()), timestamp);
        let mut out = String::new();
        let mut at = 0;
        for (slot, end) in splitter.split.parts() {
            let start = at + slot.constant();
            let mark = if slot.code() == VARIABLE { "" } else { "t" };
            out += &format!("{}[{mark}{}]", &line[at..start], &line[start..end]);
            at = end;
        }
        out + &line[at..]
    }

    #[test]
    fn words_are_constant_and_values_are_variable() {
        let cases = [
            (
                "Nov 20 12:00:03 gw sshd[123]: for root from 10.0.0.1 port 22.",
                "[tNov 20 12:00:03] gw sshd[[123]]: for root from [10.0.0.1] port [22].",
            ),
            (
                r#"{"ts":"2026-11-20T12:00:03Z","a": "b c","n":null,"s":[1],"e":"","q":"\"y\""}"#,
                r#"{"ts":"[t2026-11-20T12:00:03]Z","a": "[b c]","n":[null],"s":[[1]],"e":"","q":"[\"y\"]"}"#,
            ),
            ("user=bob path=/a/b?c=d msg=\"it is\" x= y", "user=[bob] path=[/a/b?c=d] msg=\"[it is]\" x= y"),
            ("GET /a,b?c:d HTTP/1.1 and/or me@x.org", "GET [/a],b?c:d [HTTP/1.1] [and/or] [me@x.org]"),
            ("open=\"never closed", "open=\"never closed"),
            ("", ""),
        ];
        for (line, expected) in cases {
            assert_eq!(cut(line), expected);
        }
    }
}
