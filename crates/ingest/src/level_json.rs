//! Finds the level field of a line that is a JSON object, without allocating.
//!
//! The first string value of a known key, in document order, decides. Objects inside the line's object
//! are searched one level deep, arrays are skipped. A line that is not valid JSON up to that value has no
//! level field.

use crate::level_keys::is_level_key;

/// Depth to which objects are searched; the line's own object has depth 1.
const DEPTH_MAX: u32 = 2;

/// Whether the first and the last non-space characters are braces.
pub(crate) fn looks_like_json(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.first() == Some(&b'{') && line.last() == Some(&b'}')
}

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// The raw text of the level field, with its escapes.
    Text(&'a [u8]),
    /// There is no text, but a number.
    Number(&'a [u8]),
}

/// Returns the level field.
pub(crate) fn level_field(line: &[u8]) -> Option<Field<'_>> {
    let mut scanner = Scanner { line, at: 0, number: None };
    scanner.skip_space();
    scanner.at += 1; // the opening brace, which `looks_like_json` has checked
    let text = scanner.object(1).ok()?;
    text.map(Field::Text).or(scanner.number.map(Field::Number))
}

struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
    /// The first number of a known key.
    number: Option<&'a [u8]>,
}

/// The line is not JSON.
struct Malformed;

impl<'a> Scanner<'a> {
    /// Searches for the level field in the object whose opening brace was just read.
    fn object(&mut self, depth: u32) -> Result<Option<&'a [u8]>, Malformed> {
        self.skip_space();
        if self.peek()? == b'}' {
            self.at += 1;
            return Ok(None);
        }
        loop {
            self.skip_space();
            self.expect(b'"')?;
            let key = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            if let Some(level) = self.value(key, depth)? {
                return Ok(Some(level));
            }
            self.skip_space();
            let separator = self.peek()?;
            self.at += 1;
            match separator {
                b',' => {}
                b'}' => return Ok(None),
                _ => return Err(Malformed),
            }
        }
    }

    /// Skips a value. Returns it if it is the level, or the level inside it if it is an object.
    fn value(&mut self, key: &[u8], depth: u32) -> Result<Option<&'a [u8]>, Malformed> {
        let first = self.peek()?;
        match first {
            b'"' => {
                self.at += 1;
                let text = self.string()?;
                return Ok(is_level_key(key).then_some(text));
            }
            b'{' if depth < DEPTH_MAX => {
                self.at += 1;
                return self.object(depth + 1);
            }
            b'{' => self.skip_nested(b'{', b'}')?,
            b'[' => self.skip_nested(b'[', b']')?,
            _ => {
                let rest = &self.line[self.at..];
                let end =
                    rest.iter().position(|b| matches!(b, b',' | b'}' | b']') || b.is_ascii_whitespace());
                let length = end.filter(|&length| length > 0).ok_or(Malformed)?;
                if first.is_ascii_digit() && self.number.is_none() && is_level_key(key) {
                    self.number = Some(&rest[..length]);
                }
                self.at += length;
            }
        }
        Ok(None)
    }

    /// Returns the rest of a string whose opening quote was read.
    fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.at;
        loop {
            let found = memchr::memchr2(b'"', b'\\', &self.line[self.at..]).ok_or(Malformed)?;
            self.at += found + 1;
            if self.line[self.at - 1] == b'"' {
                return Ok(&self.line[start..self.at - 1]);
            }
            self.at += 1; // the escaped character
            if self.at > self.line.len() {
                return Err(Malformed);
            }
        }
    }

    fn skip_nested(&mut self, open: u8, close: u8) -> Result<(), Malformed> {
        let mut depth = 0u32;
        loop {
            let found = memchr::memchr3(b'"', open, close, &self.line[self.at..]).ok_or(Malformed)?;
            self.at += found + 1;
            match self.line[self.at - 1] {
                b'"' => {
                    self.string()?;
                }
                byte if byte == open => depth += 1,
                _ => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn skip_space(&mut self) {
        while self.line.get(self.at).is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Result<u8, Malformed> {
        self.line.get(self.at).copied().ok_or(Malformed)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.peek()? != byte {
            return Err(Malformed);
        }
        self.at += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_level_field_of_the_first_two_levels_is_found() {
        for (line, level) in [
            (r#"{"level":"error"}"#, Some("error")),
            (r#" { "a" : 1.5 , "Level" : "x" } "#, Some("x")),
            (r#"{"severity":"warn","level":"info"}"#, Some("warn")),
            (r#"{"level":3,"severity":"warn"}"#, Some("warn")),
            (r#"{"a":{"lvl":"debug"},"level":"info"}"#, Some("debug")),
            (r#"{"a":{"b":{"level":"deep"}}}"#, None),
            (r#"{"a":[{"level":"in an array"},"]\"]"],"log.level":"info"}"#, Some("info")),
            (r#"{"msg":"a \"level\":\"x\" \\","LVL":"trace"}"#, Some("trace")),
            (r#"{"a":{"b":{"c":"}"}},"t":true,"n":null,"SeverityText":"ok"}"#, Some("ok")),
            (r#"{}"#, None),
            (r#"{"message":"no level"}"#, None),
            (r#"{broken "level":"error"}"#, None),
            (r#"{"a" "level":"error"}"#, None),
            (r#"{"a":,"level":"error"}"#, None),
            (r#"{"LeVeL":"error"}"#, None),
        ] {
            assert!(looks_like_json(line.as_bytes()), "{line}");
            let expected = level.map(|text| Field::Text(text.as_bytes()));
            assert_eq!(level_field(line.as_bytes()), expected, "{line}");
        }
        for line in ["", " ", "{", "x{}", "{} x", "[1]"] {
            assert!(!looks_like_json(line.as_bytes()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in r#"\{["\\a,:\{\}\[\] ]{0,40}\}"#) {
            level_field(line.as_bytes());
        }
    }
}
