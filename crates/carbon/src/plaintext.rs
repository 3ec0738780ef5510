//! Plaintext: `path value timestamp`, one per line.
//!
//! Fields are split where Python's `split` does, and numbers are those that its `float` takes. Most lines are
//! ASCII with single spaces and short decimals; they are read in one pass. A line that is anything else goes
//! the long way, which alone decides what is refused.

use std::ops::ControlFlow;

use crate::decimal;
use crate::framing::LINE_BYTES_MAX;
use crate::point::{Sink, hand_on};
use crate::python_number::{float, is_space};
use crate::refusal::{Reason, Refusal};

/// Reads lines of a connection; the last one needs no line feed.
pub(crate) fn read(bytes: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let mut rest = bytes;
    let is_text = std::str::from_utf8(bytes).is_ok();
    while !rest.is_empty() {
        if is_text && let Some((point, length)) = simple_line(rest) {
            hand_on(sink, point, now, &rest[..length])?;
            rest = &rest[length..];
            continue;
        }
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        line(&rest[..length], now, sink)?;
        rest = &rest[length..];
    }
    ControlFlow::Continue(())
}

/// Reads a datagram, whose lines end where Python's `splitlines` ends them.
pub(crate) fn read_datagram(bytes: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let Ok(text) = std::str::from_utf8(bytes) else { return read(bytes, now, sink) };
    let mut lines = text.split(is_line_end).filter(|text| !text.is_empty());
    lines.try_for_each(|text| line(text.as_bytes(), now, sink))
}

/// Whether a line of a datagram ends with a character.
pub(crate) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The line at the beginning of a text, with its line feed, if it is a simple one: name, value and time.
#[inline]
fn simple_line(text: &[u8]) -> Option<((&str, f64, f64), usize)> {
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
    let end = value_end + 1 + length;
    if text.get(end) != Some(&b'\n') {
        return None;
    }
    let name = std::str::from_utf8(&text[..name_end]).ok()?;
    Some(((name, seconds, value), end + 1))
}

#[cold]
fn line(bytes: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if line.len() > LINE_BYTES_MAX {
        sink.refused(Refusal::of(Reason::LineTooLong), line);
        return ControlFlow::Continue(());
    }
    let Ok(text) = std::str::from_utf8(line) else {
        sink.refused(Refusal::of(Reason::Utf8), line);
        return ControlFlow::Continue(());
    };
    match fields(text) {
        Ok(point) => hand_on(sink, point, now, line),
        // Empty lines are no mistake worth a count.
        Err(Reason::Fields) if text.trim_matches(is_space).is_empty() => ControlFlow::Continue(()),
        Err(reason) => {
            sink.refused(Refusal::of(reason), line);
            ControlFlow::Continue(())
        }
    }
}

fn fields(text: &str) -> Result<(&str, f64, f64), Reason> {
    let mut fields = text.split(is_space).filter(|field| !field.is_empty());
    let (Some(name), Some(value), Some(time), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(Reason::Fields);
    };
    let value = float(value).ok_or(Reason::Value)?;
    Ok((name, float(time).ok_or(Reason::Timestamp)?, value))
}
