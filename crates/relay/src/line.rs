//! Carbon's line: a name, a value and a timestamp, apart by spaces.
//!
//! **Invariants.** The texts of value and timestamp are passed on as they came. A value is never NaN; a
//! timestamp is finite. A timestamp of -1 is the time of arrival.

use crate::model::NAME_BYTES_MAX;

/// A point as it came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The value's text.
    pub value_text: &'a [u8],
    /// The value.
    pub value: f64,
    /// The timestamp's text; empty where the time of arrival is meant.
    pub time_text: &'a [u8],
    /// Seconds since the epoch.
    pub time: f64,
}

/// Why a line is no point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// There are not three fields.
    #[error("a line is 'name value timestamp'")]
    Fields,
    /// The name is too long.
    #[error("a name is at most {NAME_BYTES_MAX} bytes long")]
    NameTooLong,
    /// The value is no number.
    #[error("the value is no number")]
    Value,
    /// The timestamp is no time.
    #[error("the timestamp is no number of seconds")]
    Time,
}

/// Reads a line without its end; `now` is what -1 stands for.
pub fn parse(line: &[u8], now: f64) -> Result<Point<'_>, Rejected> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let (Some(name), Some(value_text), Some(time_text), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(Rejected::Fields);
    };
    if name.len() > NAME_BYTES_MAX {
        return Err(Rejected::NameTooLong);
    }
    let value = number(value_text).filter(|value| !value.is_nan()).ok_or(Rejected::Value)?;
    let time = number(time_text).filter(|time| time.is_finite()).ok_or(Rejected::Time)?;
    if time > -2.0 && time <= -1.0 {
        return Ok(Point { name, value_text, value, time_text: b"", time: now });
    }
    Ok(Point { name, value_text, value, time_text, time })
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Point<'_> {
    /// Adds the line under a name.
    pub fn write(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(name);
        out.push(b' ');
        out.extend_from_slice(self.value_text);
        out.push(b' ');
        match self.time_text {
            b"" => out.extend_from_slice(format!("{}", self.time.trunc()).as_bytes()),
            text => out.extend_from_slice(text),
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_passed_on_as_it_came() {
        let cases: [(&str, Result<&str, Rejected>); 9] = [
            ("a.b 1.50 1000", Ok("x 1.50 1000\n")),
            ("a.b\t 1e3  1000.7 ", Ok("x 1e3 1000.7\n")),
            ("a 1 -1", Ok("x 1 77\n")),
            ("a 1 -2", Ok("x 1 -2\n")),
            ("a inf 5", Ok("x inf 5\n")),
            ("a nan 5", Err(Rejected::Value)),
            ("a 1", Err(Rejected::Fields)),
            ("a 1 2 3", Err(Rejected::Fields)),
            ("a 1 inf", Err(Rejected::Time)),
        ];
        for (line, expected) in cases {
            let read = parse(line.as_bytes(), 77.9).map(|point| {
                let mut out = Vec::new();
                point.write(b"x", &mut out);
                String::from_utf8(out).unwrap()
            });
            assert_eq!(read.as_deref(), expected.as_ref().copied(), "{line}");
        }
        let long = format!("{} 1 2", "a".repeat(NAME_BYTES_MAX + 1));
        assert_eq!(parse(long.as_bytes(), 0.0), Err(Rejected::NameTooLong));
    }
}
