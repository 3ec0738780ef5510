//! Finds the timestamps of rows in their lines.
//!
//! A sample of the lines determines which layouts occur, and whether the written text always equals the
//! row's timestamp, truncated to the layout's unit. After that, one comparison is needed per position
//! where a timestamp could be.

use super::layout::{Layout, Writer, starts_with_name};
use super::words::{load8, not_digits, same_bytes};

/// Layouts that are searched for. A fraction may follow those that end with seconds.
const KNOWN: [&str; 31] = [
    "YYYY-MM-DDThh:mm:ss",
    "YYYY-MM-DD hh:mm:ss",
    "YYYY-MM-DD_hh:mm:ss",
    "YYYY-MM-DD-hh.mm.ss",
    "YYYY/MM/DD hh:mm:ss",
    "YYYY.MM.DD hh:mm:ss",
    "YYYYMMDD-hh:mm:ss",
    "YYYYMMDDThhmmss",
    "DD/BBB/YYYY:hh:mm:ss",
    "DD-BBB-YYYY hh:mm:ss",
    "DD BBB YYYY hh:mm:ss",
    "DD/MM/YYYY hh:mm:ss",
    "DD.MM.YYYY hh:mm:ss",
    "MM/DD/YYYY hh:mm:ss",
    "WWW BBB EE hh:mm:ss YYYY",
    "WWW BBB DD hh:mm:ss YYYY",
    "WWW, DD BBB YYYY hh:mm:ss",
    "BBB EE hh:mm:ss",
    "BBB DD hh:mm:ss",
    "YYMMDD hhmmss",
    "YY/MM/DD hh:mm:ss",
    "MM-DD hh:mm:ss",
    "MM/DD hh:mm:ss",
    "MM.DD hh:mm:ss",
    "MMDD hh:mm:ss",
    "YYYY.MM.DD",
    "YYYY-MM-DD",
    "YYYY/MM/DD",
    "YYYYMMDD",
    "hh:mm:ss",
    "eeeeeeeeee",
];

/// Most layouts in use in one column.
pub(super) const MAX_CLOCKS: usize = 8;

/// Lines that are sampled to learn the layouts, and bytes of each.
const SAMPLE_LINES: usize = 32;
const SAMPLE_BYTES: usize = 256;

const MINUTE: u64 = 60 * 1_000_000_000;

/// The written time may differ from the row's timestamp by a time zone and a delay.
const MAX_OFFSET: u64 = 26 * 60 * MINUTE;

/// Without a date any time of day would be close, so the allowed delay is short: time zones are multiples
/// of a quarter of an hour.
const ZONE_STEP: u64 = 15 * MINUTE;
const MAX_DELAY: u64 = 3 * MINUTE;

/// A layout that occurs in the lines.
pub(super) struct Clock {
    writer: Writer,
    /// Whether the written time may differ from the row's timestamp.
    loose: bool,
    /// Position of the first digit in an example.
    first_digit: usize,
    /// Of the eight bytes from there: the literals, their mask, and the high bits of bytes that are
    /// always digits.
    literals: u64,
    literal_mask: u64,
    digit_mask: u64,
}

/// A timestamp in a line.
pub(super) struct Found {
    pub(super) clock: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The written time minus the row's timestamp, in units of the layout.
    pub(super) offset: i64,
}

impl Clock {
    fn new(layout: Layout, loose: bool, example: i64) -> Self {
        let mut writer = Writer::new(layout);
        let text = *writer.write(example);
        let len = writer.len();
        let first_digit = text[..len].iter().position(u8::is_ascii_digit).unwrap_or(0);
        let (mut literals, mut literal_mask, mut digit_mask) = (0, 0, 0);
        for k in 0..8.min(len - first_digit) {
            if writer.layout().is_literal(first_digit + k) {
                literals |= u64::from(text[first_digit + k]) << (8 * k);
                literal_mask |= 0xff << (8 * k);
            } else if writer.layout().is_digit(first_digit + k) {
                digit_mask |= 0x80 << (8 * k);
            }
        }
        Self { writer, loose, first_digit, literals, literal_mask, digit_mask }
    }

    pub(super) fn layout(&self) -> &Layout {
        self.writer.layout()
    }

    /// Whether the eight bytes from the first digit may match this layout.
    #[inline(always)]
    fn could_be(&self, eight: u64, no_digits: u64) -> bool {
        eight & self.literal_mask == self.literals && no_digits & self.digit_mask == 0
    }

    /// Returns the offset of the timestamp at `start`, if there is one. The caller checks that there are
    /// enough bytes.
    #[inline(always)]
    fn offset(&mut self, lines: &[u8], start: usize, timestamp: i64) -> Option<i64> {
        let len = self.writer.len();
        if same_bytes((self.writer.write(timestamp), 0), (lines, start), len) {
            return Some(0);
        }
        if self.loose { offset_of(&mut self.writer, &lines[start..start + len], timestamp) } else { None }
    }
}

/// Returns the difference of `text` from the row's timestamp, if it is small enough and `text` is exactly
/// what the layout writes.
#[inline(never)]
fn offset_of(writer: &mut Writer, text: &[u8], timestamp: i64) -> Option<i64> {
    let instant = writer.layout().parse(text, timestamp)?;
    let unit = writer.layout().unit;
    let distance = instant.abs_diff(timestamp);
    let delay = (distance + MAX_DELAY) % ZONE_STEP;
    if distance > MAX_OFFSET.max(unit as u64) || !(writer.layout().has_date() || delay < 2 * MAX_DELAY) {
        return None;
    }
    let offset = instant.div_euclid(unit) - timestamp.div_euclid(unit);
    let shifted = timestamp.checked_add(offset.checked_mul(unit)?)?;
    (writer.write(shifted)[..text.len()] == *text).then_some(offset)
}

/// The clocks of a column.
#[derive(Default)]
pub(super) struct Clocks {
    pub(super) clocks: Vec<Clock>,
}

/// A layout that occurs in the sample.
struct Seen {
    pattern: Vec<u8>,
    hits: usize,
    exact: usize,
}

impl Clocks {
    /// Learns the layouts that occur from a sample of the lines; there must be at least one line.
    pub(super) fn learn(&mut self, lines: &[u8], ends: &[u32], timestamps: &[i64]) {
        let compile = |pattern: &&str| Layout::compile(pattern.as_bytes());
        let known = KNOWN.iter().filter_map(compile);
        let mut known: Vec<Clock> = known.map(|layout| Clock::new(layout, true, timestamps[0])).collect();
        let mut seen = Vec::new();
        for row in (0..ends.len()).step_by(ends.len().div_ceil(SAMPLE_LINES)) {
            let start = if row == 0 { 0 } else { ends[row - 1] as usize + 1 };
            let end = (ends[row] as usize).min(start + SAMPLE_BYTES);
            sample_line(&lines[start..end], timestamps[row], &mut known, &mut seen);
        }
        seen.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.pattern.cmp(&b.pattern)));
        seen.truncate(MAX_CLOCKS);
        // Of several that match, the longest is correct.
        seen.sort_by_key(|seen| std::cmp::Reverse(seen.pattern.len()));
        let compile = |seen: &Seen| Some((Layout::compile(&seen.pattern)?, seen.exact < seen.hits));
        let learnt = seen.iter().filter_map(compile);
        self.clocks.clear();
        self.clocks.extend(learnt.map(|(layout, loose)| Clock::new(layout, loose, timestamps[0])));
    }

    /// Returns the timestamp in `lines[low..high]` whose first digit is at `digit`.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        lines: &[u8],
        digit: usize,
        (low, high): (usize, usize),
        timestamp: i64,
    ) -> Option<Found> {
        let eight = load8(lines, digit);
        let no_digits = not_digits(eight);
        for (index, clock) in self.clocks.iter_mut().enumerate() {
            if !clock.could_be(eight, no_digits) || digit < low + clock.first_digit {
                continue;
            }
            let start = digit - clock.first_digit;
            let end = start + clock.writer.len();
            if end > high {
                continue;
            }
            if let Some(offset) = clock.offset(lines, start, timestamp) {
                return Some(Found { clock: index, start, end, offset });
            }
        }
        None
    }
}

/// Counts the layouts of the timestamps in a line.
fn sample_line(line: &[u8], timestamp: i64, known: &mut [Clock], seen: &mut Vec<Seen>) {
    let class = |b: u8| u8::from(b.is_ascii_alphabetic()) * 2 + u8::from(b.is_ascii_digit());
    let (mut at, mut before) = (0, 0);
    while at < line.len() {
        let here = class(line[at]);
        let starts = here != 0 && here != before;
        before = here;
        let found = if starts { sample_layouts(line, at, timestamp, known) } else { None };
        let Some((pattern, exact)) = found else {
            at += 1;
            continue;
        };
        at += pattern.len();
        match seen.iter_mut().find(|seen| seen.pattern == pattern) {
            Some(seen) => {
                seen.hits += 1;
                seen.exact += usize::from(exact);
            }
            None => seen.push(Seen { pattern, hits: 1, exact: usize::from(exact) }),
        }
    }
}

/// Returns the longest layout, with its fraction, of a timestamp at `line[at..]`, and whether it equals
/// the row's.
fn sample_layouts(line: &[u8], at: usize, timestamp: i64, known: &mut [Clock]) -> Option<(Vec<u8>, bool)> {
    let text = &line[at..];
    let digits = text.iter().take(20).take_while(|b| b.is_ascii_digit()).count();
    let leading = match digits {
        0 if !starts_with_name(text) => return None,
        0 | 2 | 4 | 6 | 8 => digits,
        // Seconds, alone or with a fraction of three, six or nine digits.
        10 | 13 | 16 | 19 => 10,
        _ => return None,
    };
    let found = known.iter_mut().filter_map(|clock| {
        let len = clock.writer.len();
        if clock.layout().leading_digits() != leading || text.len() < len {
            return None;
        }
        let eight = load8(text, clock.first_digit);
        if !clock.could_be(eight, not_digits(eight)) {
            return None;
        }
        let offset = offset_of(&mut clock.writer, &text[..len], timestamp)?;
        with_fraction(clock.layout().pattern(), offset, text, timestamp)
    });
    found.reduce(|best, next| if next.0.len() > best.0.len() { next } else { best })
}

/// Extends a layout by the fraction that follows in the text.
fn with_fraction(pattern: &[u8], offset: i64, text: &[u8], timestamp: i64) -> Option<(Vec<u8>, bool)> {
    let (last, rest) = (pattern[pattern.len() - 1], &text[pattern.len()..]);
    let separator = match (last, rest.first()) {
        (b's', Some(b'.' | b',' | b':')) | (b'e', Some(b'.')) => 1,
        _ => 0,
    };
    let digits = rest[separator..].iter().take_while(|b| b.is_ascii_digit()).count();
    let allowed = match last {
        b's' => separator == 0 && digits == 0 || separator == 1,
        b'e' => separator == 1 || matches!(digits, 0 | 3 | 6 | 9),
        _ => digits == 0,
    };
    if !allowed {
        return None;
    }
    if !(1..=9).contains(&digits) || !matches!(last, b's' | b'e') {
        return Some((pattern.to_vec(), offset == 0));
    }
    let mut pattern = pattern.to_vec();
    pattern.extend_from_slice(&rest[..separator]);
    pattern.resize(pattern.len() + digits, b'f');
    let mut writer = Writer::new(Layout::compile(&pattern)?);
    let offset = offset_of(&mut writer, &text[..pattern.len()], timestamp)?;
    Some((pattern, offset == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_795_176_003_004_050_607; // 2026-11-20T12:00:03.004050607Z

    fn learnt(lines: &[&str], timestamp: i64) -> Vec<(String, bool)> {
        let text = lines.join("\n") + "\n";
        let ends: Vec<u32> = text.match_indices('\n').map(|(at, _)| at as u32).collect();
        let mut clocks = Clocks::default();
        clocks.learn(text.as_bytes(), &ends, &vec![timestamp; lines.len()]);
        let name = |c: &Clock| (String::from_utf8(c.layout().pattern().to_vec()).unwrap(), c.loose);
        clocks.clocks.iter().map(name).collect()
    }

    #[test]
    fn layouts_are_learnt_from_lines() {
        let line = "1795176003 x=2026-11-20T12:00:03.004Z [20/Nov/2026:12:00:03 +0000] 1795176003004";
        let expected = [
            ("YYYY-MM-DDThh:mm:ss.fff", false),
            ("DD/BBB/YYYY:hh:mm:ss", false),
            ("eeeeeeeeeefff", false),
            ("eeeeeeeeee", false),
        ];
        assert_eq!(learnt(&[line], NOON), expected.map(|(p, l)| (p.to_owned(), l)));
        let offset = ["Nov 20 11:59:58 host", "Nov 20 12:00:03 host"];
        assert_eq!(learnt(&offset, NOON), [("BBB EE hh:mm:ss".to_owned(), true)]);
        assert_eq!(learnt(&["20:00:03.001 INFO"], NOON), [("hh:mm:ss.fff".to_owned(), true)]);
        assert_eq!(learnt(&["took 00:07:31 1995176003 2021-11-20"], NOON), []);
    }

    #[test]
    fn found_timestamps_equal_the_written_ones() {
        let text = b"Nov 20 11:59:58 host Nov 20 12:00:03\n";
        let mut clocks = Clocks::default();
        clocks.learn(text, &[36], &[NOON]);
        let found = clocks.find(text, 4, (0, 36), NOON).unwrap();
        assert_eq!((found.start, found.end, found.offset), (0, 15, -5));
        let found = clocks.find(text, 25, (16, 36), NOON).unwrap();
        assert_eq!((found.start, found.end, found.offset), (21, 36, 0));
        assert!(clocks.find(text, 25, (22, 36), NOON).is_none());
        assert!(clocks.find(text, 25, (16, 35), NOON).is_none());
        assert!(clocks.find(text, 7, (0, 36), NOON).is_none());
    }
}
