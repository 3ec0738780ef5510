//! A point on its path through the relay, and its encoding as a carbon line.
//!
//! **Invariants.** The texts of value and timestamp are forwarded unchanged, unless only Python can
//! parse them. A value is never NaN; a timestamp is finite. A timestamp of -1 is replaced by the time of
//! arrival.

use sandur_carbon::{Refusal, read_line};

use crate::model::NAME_BYTES_MAX;

/// A received point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Tags that rules do not see. They are appended to every name under which the point is sent.
    pub tags: &'a [u8],
    /// The text of the value; empty if the value must be formatted again.
    pub value_text: &'a [u8],
    /// The value.
    pub value: f64,
    /// The text of the timestamp; empty if it must be formatted again.
    pub time_text: &'a [u8],
    /// Seconds since the epoch.
    pub time: f64,
    /// The texts of value and timestamp as received; empty if the point arrived in a binary form.
    pub data: [&'a [u8]; 2],
}

/// Why a line is not a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Carbon would not accept the line.
    #[error("{0}")]
    Line(Refusal),
    /// The name is too long.
    #[error("a name is at most {NAME_BYTES_MAX} bytes long")]
    NameTooLong,
}

/// Parses a line without its line end; `now` replaces a timestamp of -1. An empty line has no point.
pub fn parse(line: &[u8], now: i64) -> Result<Option<Point<'_>>, Rejected> {
    let Some(line) = read_line(line, now).map_err(Rejected::Line)? else { return Ok(None) };
    let sandur_carbon::Point { name, seconds, value } = line.point;
    if name.len() > NAME_BYTES_MAX {
        return Err(Rejected::NameTooLong);
    }
    let is_now = line.time_text.starts_with('-') && seconds == now as f64;
    let time_text = if is_now { "" } else { everywhere(line.time_text) };
    Ok(Some(Point {
        name: name.as_bytes(),
        tags: b"",
        value_text: everywhere(line.value_text).as_bytes(),
        value,
        time_text: time_text.as_bytes(),
        time: seconds,
        data: [line.value_text.as_bytes(), line.time_text.as_bytes()],
    }))
}

/// Returns the text of a number, or an empty text if only Python can parse it: with underscores between
/// digits, or with digits of other scripts.
fn everywhere(text: &str) -> &str {
    if text.is_ascii() && !text.contains('_') { text } else { "" }
}

impl<'a> Point<'a> {
    /// A point that arrived without texts, or that the relay computed.
    pub fn of(name: &'a [u8], value: f64, time: f64) -> Self {
        Self { name, tags: b"", value_text: b"", value, time_text: b"", time, data: [b"", b""] }
    }

    /// Appends the line of this point under a name to `out`.
    pub fn write(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
        out.extend_from_slice(self.tags);
        out.push(b' ');
        self.write_numbers([self.value_text, self.time_text], out);
        out.push(b'\n');
    }

    /// Appends what carbon-c-relay calls the data of a line: everything after the name, tags included.
    pub fn write_data(&self, out: &mut Vec<u8>) {
        if let [_, tags @ ..] = self.tags {
            out.extend_from_slice(tags);
            out.push(b' ');
        }
        self.write_numbers(self.data, out);
    }

    fn write_numbers(&self, [value, time]: [&[u8]; 2], out: &mut Vec<u8>) {
        match value {
            b"" => out.extend_from_slice(self.value.to_string().as_bytes()),
            text => out.extend_from_slice(text),
        }
        out.push(b' ');
        match time {
            b"" => out.extend_from_slice(self.time.trunc().to_string().as_bytes()),
            text => out.extend_from_slice(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_carbon::Reason;

    use super::*;

    #[test]
    fn a_line_is_forwarded_unchanged() {
        let cases = [
            ("a.b 1.50 1000", Ok("x 1.50 1000\n")),
            ("a.b\t 1e3  1000.7 ", Ok("x 1e3 1000.7\n")),
            ("a 1 -1", Ok("x 1 77\n")),
            ("a 1 -2", Ok("x 1 -2\n")),
            ("a inf 5", Ok("x inf 5\n")),
            ("a 1_000.5 1_0", Ok("x 1000.5 10\n")),
            ("a nan 5", Err(Some(Reason::NoNumber))),
            ("a 1", Err(Some(Reason::Fields))),
            ("a 1 inf", Err(Some(Reason::Timestamp))),
            ("", Err(None)),
        ];
        for (line, expected) in cases {
            let read = match parse(line.as_bytes(), 77) {
                Ok(Some(point)) => {
                    let mut out = Vec::new();
                    point.write(b"x", &mut out);
                    Ok(String::from_utf8(out).unwrap())
                }
                Ok(None) => Err(None),
                Err(Rejected::Line(refusal)) => Err(Some(refusal.reason())),
                Err(Rejected::NameTooLong) => panic!("{line}"),
            };
            assert_eq!(read.as_deref().map_err(|reason| *reason), expected, "{line}");
        }
        let long = format!("{} 1 2", "a".repeat(NAME_BYTES_MAX + 1));
        assert_eq!(parse(long.as_bytes(), 0), Err(Rejected::NameTooLong));
    }
}
