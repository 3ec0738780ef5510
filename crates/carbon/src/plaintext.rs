//! Plaintext: `path value timestamp`, one point per line.
//!
//! Fields are split as by Python's `split`, and numbers are those that its `float` accepts. Most lines
//! are ASCII with single spaces and short decimals; these are parsed in one pass. All other lines use
//! the slow path, which alone decides what is refused.

use std::ops::ControlFlow;

use crate::decimal;
use crate::framing::LINE_BYTES_MAX;
use crate::point::{Point, Sink, checked, hand_on};
use crate::python_number::{float, is_space};
use crate::refusal::{Reason, Refusal};

/// The point of a line, with its numbers as texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The point.
    pub point: Point<'a>,
    /// The text of the value.
    pub value_text: &'a str,
    /// The text of the timestamp.
    pub time_text: &'a str,
}

/// Parses one line without its line end, for callers that forward lines. An empty line has no point.
pub fn read_line(line: &[u8], now: i64) -> Result<Option<Line<'_>>, Refusal> {
    let simple = simple_line(line).filter(|simple| simple.end == line.len());
    let fields = match simple.and_then(|simple| simple.fields(line)) {
        Some(fields) => fields,
        None => match fields(line).map_err(Refusal::of)? {
            Some(fields) => fields,
            None => return Ok(None),
        },
    };
    let Fields { name, value_text, time_text, value, seconds } = fields;
    let point = checked((name, seconds, value), now).map_err(Refusal::of)?;
    Ok(Some(Line { point, value_text, time_text }))
}

/// Decodes the lines of a connection. The last one may have no line feed.
pub(crate) fn read(bytes: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let mut rest = bytes;
    let is_text = std::str::from_utf8(bytes).is_ok();
    while !rest.is_empty() {
        if is_text
            && let Some(simple) = simple_line(rest)
            && rest.get(simple.end) == Some(&b'\n')
            && let Ok(name) = std::str::from_utf8(&rest[..simple.name_end])
        {
            let length = simple.end + 1;
            hand_on(sink, (name, simple.seconds, simple.value), now, &rest[..length])?;
            rest = &rest[length..];
            continue;
        }
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        line(&rest[..length], now, sink)?;
        rest = &rest[length..];
    }
    ControlFlow::Continue(())
}

/// Decodes a datagram, whose lines end wherever Python's `splitlines` ends them.
pub(crate) fn read_datagram(bytes: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let Ok(text) = std::str::from_utf8(bytes) else { return read(bytes, now, sink) };
    let mut lines = text.split(is_line_end).filter(|text| !text.is_empty());
    lines.try_for_each(|text| line(text.as_bytes(), now, sink))
}

/// Returns whether a character ends a line of a datagram.
pub(crate) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A line of a name, single spaces and short decimals.
struct Simple {
    name_end: usize,
    value_end: usize,
    end: usize,
    value: f64,
    seconds: f64,
}

impl Simple {
    fn fields(self, line: &[u8]) -> Option<Fields<'_>> {
        let text = std::str::from_utf8(&line[..self.end]).ok()?;
        Some(Fields {
            name: &text[..self.name_end],
            value_text: &text[self.name_end + 1..self.value_end],
            time_text: &text[self.value_end + 1..],
            value: self.value,
            seconds: self.seconds,
        })
    }
}

/// Parses the line at the start of a text, up to its line feed, if it has the simple form.
#[inline]
fn simple_line(text: &[u8]) -> Option<Simple> {
    let name_end = text.iter().position(|byte| *byte <= b' ' || *byte >= 0x7F)?;
    if name_end == 0 || name_end > LINE_BYTES_MAX - 64 || text[name_end] != b' ' {
        return None;
    }
    let (value, length) = decimal::leading(&text[name_end + 1..])?;
    let value_end = name_end + 1 + length;
    if text.get(value_end) != Some(&b' ') {
        return None;
    }
    let (seconds, length) = decimal::leading(&text[value_end + 1..])?;
    Some(Simple { name_end, value_end, end: value_end + 1 + length, value, seconds })
}

#[cold]
fn line(bytes: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    match fields(line) {
        Ok(Some(Fields { name, value, seconds, .. })) => hand_on(sink, (name, seconds, value), now, line),
        Ok(None) => ControlFlow::Continue(()),
        Err(reason) => {
            sink.refused(Refusal::of(reason), line);
            ControlFlow::Continue(())
        }
    }
}

struct Fields<'a> {
    name: &'a str,
    value_text: &'a str,
    time_text: &'a str,
    value: f64,
    seconds: f64,
}

/// Parses the fields of a line. An empty line is ignored without being counted.
fn fields(line: &[u8]) -> Result<Option<Fields<'_>>, Reason> {
    if line.len() > LINE_BYTES_MAX {
        return Err(Reason::LineTooLong);
    }
    let text = std::str::from_utf8(line).map_err(|_| Reason::Utf8)?;
    let mut fields = text.split(is_space).filter(|field| !field.is_empty());
    match (fields.next(), fields.next(), fields.next(), fields.next()) {
        (None, ..) => Ok(None),
        (Some(name), Some(value_text), Some(time_text), None) => {
            let value = float(value_text).ok_or(Reason::Value)?;
            let seconds = float(time_text).ok_or(Reason::Timestamp)?;
            Ok(Some(Fields { name, value_text, time_text, value, seconds }))
        }
        _ => Err(Reason::Fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_line_keeps_the_texts_of_its_numbers() {
        let read = |line: &'static str| {
            let read = read_line(line.as_bytes(), 77).map_err(Refusal::reason);
            read.map(|line| line.map(|line| (line.point.value, line.point.seconds, line.value_text)))
        };
        for (line, expected) in [
            ("a.b 1.50 1000", Ok(Some((1.5, 1000.0, "1.50")))),
            ("a.b\t1_000  1000.7 ", Ok(Some((1000.0, 1000.7, "1_000")))),
            ("a 1 -1", Ok(Some((1.0, 77.0, "1")))),
            (" ", Ok(None)),
            ("", Ok(None)),
            ("a nan 5", Err(Reason::NoNumber)),
            ("a 1", Err(Reason::Fields)),
            ("a 1 2 3", Err(Reason::Fields)),
            ("a 1 2 ", Ok(Some((1.0, 2.0, "1")))),
            ("a 1 inf", Err(Reason::Timestamp)),
            ("a x 1", Err(Reason::Value)),
        ] {
            assert_eq!(read(line), expected, "{line:?}");
        }
        assert_eq!(read_line(b"\xff 1 1", 0).map_err(Refusal::reason), Err(Reason::Utf8));
    }
}
