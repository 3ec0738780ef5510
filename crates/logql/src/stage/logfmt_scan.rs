//! Splits a logfmt line into keys and values: `level=info msg="hi there" flag`.

use crate::stage::json_scan::append_unescaped;

/// A malformed pair; the scan can continue after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The reason.
    pub reason: Reason,
    /// The one-based offset in the line, in bytes.
    pub position: usize,
}

/// Why a pair is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A byte that is not valid at its place.
    Unexpected(u8),
    /// A key that is not UTF-8.
    InvalidKey,
    /// A quote that is not closed.
    Unterminated,
    /// An invalid escape in a quoted value.
    InvalidQuoted,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "logfmt syntax error at pos {} : ", self.position)?;
        match self.reason {
            Reason::Unexpected(byte) => write!(f, "unexpected {:?}", byte as char),
            Reason::InvalidKey => f.write_str("invalid key"),
            Reason::Unterminated => f.write_str("unterminated quoted value"),
            Reason::InvalidQuoted => f.write_str("invalid quoted value"),
        }
    }
}

/// A key and its value, as slices of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, without quotes.
    pub value: &'a [u8],
    /// Whether the value has escapes.
    pub escaped: bool,
}

impl Pair<'_> {
    /// The most bytes of the value with its escapes decoded. An invalid escape may become a replacement
    /// character of three bytes.
    pub fn value_bytes_max(&self) -> usize {
        if self.escaped { 3 * self.value.len() } else { self.value.len() }
    }

    /// Appends the value with its escapes decoded.
    pub fn append_value(&self, out: &mut Vec<u8>) {
        if self.escaped {
            append_unescaped(out, self.value);
        } else {
            out.extend_from_slice(self.value);
        }
    }
}

/// An iterator over the pairs of a line.
pub struct Pairs<'a> {
    line: &'a [u8],
    at: usize,
}

fn is_blank(byte: u8) -> bool {
    byte <= b' '
}

/// Bytes that end a key or an unquoted value: white space, `=` and `"`.
pub const ENDS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte <= 0x20 || byte == b'=' as usize || byte == b'"' as usize;
        byte += 1;
    }
    table
};

impl<'a> Pairs<'a> {
    /// From the start of the line.
    pub fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    fn seek(&self, from: usize, wanted: impl Fn(u8) -> bool) -> usize {
        self.line[from..].iter().position(|&b| wanted(b)).map_or(self.line.len(), |n| from + n)
    }

    fn broken(&mut self, reason: Reason) -> Broken {
        let position = self.at + 1;
        self.at = self.seek(self.at, is_blank);
        Broken { reason, position }
    }

    fn unexpected(&mut self) -> Broken {
        let byte = self.line[self.at];
        self.broken(Reason::Unexpected(byte))
    }

    fn quoted(&mut self, key: &'a [u8]) -> Result<Pair<'a>, Broken> {
        let start = self.at + 1;
        let mut end = start;
        let mut escaped = false;
        loop {
            let rest = self.line.get(end..).unwrap_or_default();
            let Some(n) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = self.line.len();
                return Err(Broken { reason: Reason::Unterminated, position: self.at + 1 });
            };
            end += n;
            if self.line[end] == b'"' {
                break;
            }
            escaped = true;
            end += 2;
        }
        self.at = end + 1;
        let value = &self.line[start..end];
        if escaped && !append_unescaped(&mut Vec::new(), value) {
            return Err(Broken { reason: Reason::InvalidQuoted, position: self.at + 1 });
        }
        Ok(Pair { key, value, escaped })
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<Pair<'a>, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        self.at = self.seek(self.at, |b| !is_blank(b));
        if self.at == self.line.len() {
            return None;
        }
        let start = self.at;
        self.at = self.seek(start, |b| ENDS[usize::from(b)]);
        let key = &self.line[start..self.at];
        match self.line.get(self.at) {
            Some(b'"') => return Some(Err(self.unexpected())),
            Some(b'=') if key.is_empty() => return Some(Err(self.unexpected())),
            Some(b'=') => {}
            _ => return Some(Ok(Pair { key, value: &[], escaped: false })),
        }
        if key.contains(&0xEF) && String::from_utf8_lossy(key).contains('\u{fffd}') {
            return Some(Err(self.broken(Reason::InvalidKey)));
        }
        self.at += 1;
        match self.line.get(self.at) {
            None => return Some(Ok(Pair { key, value: &[], escaped: false })),
            Some(b'"') => return Some(self.quoted(key)),
            Some(_) => {}
        }
        let start = self.at;
        self.at = self.seek(start, |b| ENDS[usize::from(b)]);
        if matches!(self.line.get(self.at), Some(b'=' | b'"')) {
            return Some(Err(self.unexpected()));
        }
        Some(Ok(Pair { key, value: &self.line[start..self.at], escaped: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let pair = |pair: Result<Pair<'_>, Broken>| match pair {
            Ok(pair) => {
                let mut value = Vec::new();
                pair.append_value(&mut value);
                format!("{}={}", String::from_utf8_lossy(pair.key), String::from_utf8_lossy(&value))
            }
            Err(broken) => broken.to_string().replace("logfmt syntax error at pos ", "!"),
        };
        Pairs::new(line.as_bytes()).map(pair).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn pairs_and_malformed_text() {
        for (line, expected) in [
            ("a=1 b=two", "a=1|b=two"),
            ("  flag a= b", "flag=|a=|b="),
            (r#"m="hi \"x\"" n="""#, r#"m=hi "x"|n="#),
            (r#"good=1 bad="open"#, "good=1|!17 : unterminated quoted value"),
            ("a=b=c d=1", "!4 : unexpected '='|d=1"),
            ("=x y=1", "!1 : unexpected '='|y=1"),
            (r#"a"b c=1"#, r#"!2 : unexpected '"'|c=1"#),
            ("", ""),
            ("a=", "a="),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
