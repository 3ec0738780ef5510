//! The times of the lines of one input, and whether they are understood.

use super::timestamps::Recogniser;

/// Number of lines with a clock after which an input without any time counts as not understood.
const LINES_ENOUGH: u32 = 20;
/// Number of bytes of a line in which a clock is searched.
const LOOK_BYTES: usize = 80;
/// Characters of the example.
const EXAMPLE_CHARACTERS: usize = 80;

/// Finds the times of lines, and notices if an input has times in a format that is not known.
pub struct Times {
    recogniser: Recogniser,
    is_dating: bool,
    /// Whether times are read at all: also for joining.
    is_reading: bool,
    /// `None` once an answer is known.
    unknown: Option<Unknown>,
    is_over: bool,
}

/// Lines with clocks in an input that has no known time so far.
#[derive(Default)]
struct Unknown {
    lines: u32,
    example: Option<String>,
}

impl Times {
    /// Reads times if lines are dated by them or joined.
    pub fn new(recogniser: Recogniser, is_dating: bool, is_joining: bool) -> Self {
        let unknown = is_dating.then(Unknown::default);
        Self { recogniser, is_dating, is_reading: is_dating || is_joining, unknown, is_over: false }
    }

    /// Whether lines are dated by their times.
    pub fn is_dating(&self) -> bool {
        self.is_dating
    }

    /// The time of a line.
    pub fn find(&mut self, line: &[u8], now_ns: i64) -> Option<i64> {
        self.is_reading.then(|| self.recogniser.at(now_ns).find(line))?
    }

    /// The time of an object of several lines, which its first line does not have.
    pub fn find_in_object(&mut self, entry: &[u8], now_ns: i64) -> Option<i64> {
        let is_object = entry.starts_with(b"{") && entry.contains(&b'\n');
        is_object.then(|| self.find(entry, now_ns))?
    }

    /// Notes whether the first line of an entry has a known time.
    pub fn note(&mut self, line: &[u8], is_known: bool) {
        let Some(unknown) = &mut self.unknown else { return };
        if is_known {
            self.unknown = None;
        } else if has_clock(&line[..line.len().min(LOOK_BYTES)]) {
            unknown.lines += 1;
            unknown.example.get_or_insert_with(|| {
                let text = String::from_utf8_lossy(line);
                let safe =
                    text.chars().take(EXAMPLE_CHARACTERS).map(|c| if c.is_control() { ' ' } else { c });
                safe.collect()
            });
        }
    }

    /// The input has ended: what was read decides.
    pub fn end_input(&mut self) {
        self.is_over = true;
    }

    /// A line with a time that is not understood, once.
    pub fn take_not_understood(&mut self) -> Option<String> {
        let unknown = self.unknown.as_ref()?;
        if unknown.lines < LINES_ENOUGH && !self.is_over {
            return None;
        }
        self.unknown.take()?.example
    }
}

/// Whether the text has a clock, as `6:01` or `06h01`.
fn has_clock(text: &[u8]) -> bool {
    text.windows(4).any(|w| {
        w[0].is_ascii_digit() && matches!(w[1], b':' | b'h') && w[2].is_ascii_digit() && w[3].is_ascii_digit()
    })
}
