//! Label sets, and the id of the stream that a label set identifies.
//!
//! The text form is Loki's: `{app="api", env="prod"}`, with values quoted as Go quotes strings.

use std::cmp::Ordering;
use std::fmt;

use xxhash_rust::xxh3::Xxh3;

/// A label set: sorted by name, names unique, no empty value.
///
/// There may be millions of label sets, so all names and values share one string. Label sets are ordered
/// by comparing their pairs one after the other.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels {
    /// Name, value, name, value, ... without separators; at most 4 GiB.
    text: Box<str>,
    /// The end offset of each name and value in the text.
    ends: Box<[u32]>,
}

/// The id of a stream: xxh3-128 over `name 0xFF value 0xFF ...` of its sorted labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u128);

/// A label set that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelsError {
    /// The text does not follow `{name="value", ...}`.
    #[error("parse error at line 1, col {column}: {what}")]
    Syntax {
        /// One-based column of the offending character.
        column: usize,
        /// What was expected or found.
        what: String,
    },
    /// A name appears more than once.
    #[error("stream '{labels}' has duplicate label name: '{name}'")]
    Duplicate {
        /// The label set as it was sent.
        labels: String,
        /// The repeated name.
        name: String,
    },
}

impl Labels {
    /// Sorts the pairs, drops those with an empty value, and keeps the last of equal names.
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let all: Vec<(N, V)> = pairs.into_iter().collect();
        let mut sorted: Vec<(&str, &str)> = all.iter().map(|(n, v)| (n.as_ref(), v.as_ref())).collect();
        if !sorted.is_sorted_by(|a, b| a.0 < b.0) {
            sorted.sort_by(|a, b| a.0.cmp(b.0)); // stable: of equal names the last stays last
        }
        let is_last = |n: usize| sorted.get(n + 1).is_none_or(|next| next.0 != sorted[n].0);
        let kept = (0..sorted.len()).filter(|&n| is_last(n) && !sorted[n].1.is_empty()).map(|n| sorted[n]);
        // Drops the pairs that exceed the 4 GiB of a text.
        let mut bytes = 0usize;
        let fits = kept.take_while(|(name, value)| {
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
            u32::try_from(bytes).is_ok()
        });
        let kept: Vec<(&str, &str)> = fits.collect();
        let mut text = String::with_capacity(kept.iter().map(|(name, value)| name.len() + value.len()).sum());
        let mut ends = Vec::with_capacity(2 * kept.len());
        for part in kept.iter().flat_map(|(name, value)| [name, value]) {
            text.push_str(part);
            ends.push(text.len() as u32);
        }
        Self { text: text.into(), ends: ends.into() }
    }

    /// Parses `{name="value", ...}` as a push client writes it: names of `[a-zA-Z_][a-zA-Z0-9_]*` (other
    /// characters, such as dots, are accepted in quoted names), values in double quotes or backticks.
    /// Empty values are dropped.
    pub fn parse(text: &str) -> Result<Self, LabelsError> {
        let mut parser = Parser { text, at: 0 };
        let pairs = parser.braces()?;
        let mut names: Vec<&str> = pairs.iter().map(|(n, _)| n.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|w| w[0] == w[1]) {
            let name = twice[0].to_owned();
            return Err(LabelsError::Duplicate { labels: text.to_owned(), name });
        }
        Ok(Self::from_pairs(pairs))
    }

    /// The value of the label `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.part(2 * middle).cmp(name) {
                Ordering::Equal => return Some(self.part(2 * middle + 1)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The name or value with this position: names have even positions.
    #[inline]
    fn part(&self, number: usize) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.text[start..self.ends[number] as usize]
    }

    /// Pairs of name and value, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        (0..self.len()).map(|n| (self.part(2 * n), self.part(2 * n + 1)))
    }

    /// The number of labels.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there are no labels.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all names and values together.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// The id of the stream with these labels.
    pub fn stream_id(&self) -> StreamId {
        let mut hasher = Xxh3::new();
        for (name, value) in self.iter() {
            hasher.update(name.as_bytes());
            hasher.update(&[0xFF]); // never a byte of UTF-8 text
            hasher.update(value.as_bytes());
            hasher.update(&[0xFF]);
        }
        StreamId(hasher.digest128())
    }
}

impl Ord for Labels {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other.iter())
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (n, (name, value)) in self.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{name}=")?;
            write_quoted(f, value)?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Writes a string in double quotes, escaped as Go's `strconv.Quote` does for printable text.
fn write_quoted(f: &mut fmt::Formatter<'_>, value: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in value.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if (c as u32) < 0x20 || c == '\u{7f}' => write!(f, "\\x{:02x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, what: impl Into<String>) -> LabelsError {
        LabelsError::Syntax { column: self.at + 1, what: what.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), LabelsError> {
        self.skip_space();
        if self.peek() != Some(byte) {
            return Err(self.unexpected(&format!("expecting '{}'", byte as char)));
        }
        self.at += 1;
        Ok(())
    }

    fn unexpected(&self, expecting: &str) -> LabelsError {
        match self.text[self.at..].chars().next() {
            Some(c) => self.error(format!("syntax error: unexpected {c:?}, {expecting}")),
            None => self.error(format!("syntax error: unexpected $end, {expecting}")),
        }
    }

    fn braces(&mut self) -> Result<Vec<(String, String)>, LabelsError> {
        let mut pairs = Vec::new();
        self.expect(b'{')?;
        self.skip_space();
        while self.peek() != Some(b'}') {
            let name = self.name()?;
            self.expect(b'=')?;
            self.skip_space();
            let value = self.string()?;
            pairs.push((name, value));
            self.skip_space();
            if self.peek() == Some(b'}') {
                break;
            }
            self.expect(b',')?;
            self.skip_space();
        }
        self.at += 1;
        self.skip_space();
        if self.peek().is_some() {
            return Err(self.unexpected("expecting the end"));
        }
        Ok(pairs)
    }

    fn name(&mut self) -> Result<String, LabelsError> {
        if self.peek() == Some(b'"') {
            return self.string();
        }
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        if start == self.at || self.text.as_bytes()[start].is_ascii_digit() {
            self.at = start;
            return Err(self.unexpected("expecting a label name"));
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn string(&mut self) -> Result<String, LabelsError> {
        match self.peek() {
            Some(b'`') => {
                let start = self.at + 1;
                let end = self.text[start..].find('`');
                let end = end.ok_or_else(|| self.error("literal not terminated"))?;
                self.at = start + end + 1;
                Ok(self.text[start..start + end].to_owned())
            }
            Some(b'"') => self.quoted(),
            _ => Err(self.unexpected("expecting STRING")),
        }
    }

    fn quoted(&mut self) -> Result<String, LabelsError> {
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            let byte = self.peek().ok_or_else(|| self.error("literal not terminated"))?;
            self.at += 1;
            match byte {
                b'"' => break,
                b'\\' => self.escape(&mut bytes)?,
                _ => bytes.push(byte),
            }
        }
        String::from_utf8(bytes).map_err(|_| self.error("invalid UTF-8 in a label value"))
    }

    /// Go's escapes: `\a \b \f \n \r \t \v \\ \' \"`, `\ooo`, `\xhh`, `\uhhhh`, `\Uhhhhhhhh`.
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), LabelsError> {
        let kind = self.peek().ok_or_else(|| self.error("literal not terminated"))?;
        self.at += 1;
        let simple = match kind {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'\'' | b'"' => kind,
            b'x' => return self.hex(2, bytes),
            b'u' => return self.hex(4, bytes),
            b'U' => return self.hex(8, bytes),
            b'0'..=b'7' => {
                let digits = self.text.get(self.at - 1..self.at + 2);
                let value = digits.and_then(|d| u8::from_str_radix(d, 8).ok());
                bytes.push(value.ok_or_else(|| self.error("invalid octal escape"))?);
                self.at += 2;
                return Ok(());
            }
            _ => return Err(self.error("invalid char escape")),
        };
        bytes.push(simple);
        Ok(())
    }

    fn hex(&mut self, digits: usize, bytes: &mut Vec<u8>) -> Result<(), LabelsError> {
        let text = self.text.get(self.at..self.at + digits);
        let value = text.and_then(|t| u32::from_str_radix(t, 16).ok());
        let value = value.ok_or_else(|| self.error("invalid hexadecimal escape"))?;
        self.at += digits;
        if digits == 2 {
            bytes.push(value as u8);
            return Ok(());
        }
        let c = char::from_u32(value).ok_or_else(|| self.error("invalid code point"))?;
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_parsed_sorted_and_formatted_as_by_loki() {
        let labels = Labels::parse(r#"{ job = "a\"b\\\n", app=`raw\n` ,empty="" }"#).unwrap();
        assert_eq!(labels.to_string(), r#"{app="raw\\n", job="a\"b\\\n"}"#);
        assert_eq!(labels.get("job"), Some("a\"b\\\n"));
        assert_eq!(labels.get("empty"), None);
        assert_eq!(Labels::parse("{}").unwrap(), Labels::default());
        assert_eq!(Labels::parse(r#"{a="\u00e9\x41\101",}"#).unwrap().get("a"), Some("éAA"));
    }

    #[test]
    fn syntax_errors_name_the_column() {
        for bad in ["", "{", "{a}", "{a=}", r#"{a="b"#, r#"{a="b"} x"#, r#"{1a="b"}"#, r#"{a="\q"}"#] {
            assert!(matches!(Labels::parse(bad), Err(LabelsError::Syntax { .. })), "{bad}");
        }
        let error = Labels::parse(r#"{a="b" c="d"}"#).unwrap_err();
        assert!(error.to_string().starts_with("parse error at line 1, col 8"), "{error}");
        assert!(matches!(Labels::parse(r#"{a="1",a="2"}"#), Err(LabelsError::Duplicate { .. })));
    }

    #[test]
    fn pairs_are_sorted_and_the_last_of_a_name_counts() {
        let labels = Labels::from_pairs([("b", "1"), ("a", "2"), ("b", ""), ("c", "3"), ("a", "4")]);
        assert_eq!(
            labels.iter().collect::<Vec<_>>(),
            [("a", "4"), ("c", "3")],
            "an empty value removes its label"
        );
        assert_eq!((labels.len(), labels.text_bytes()), (2, 4));
        for (name, value) in [("a", Some("4")), ("c", Some("3")), ("b", None), ("", None), ("d", None)] {
            assert_eq!(labels.get(name), value, "{name}");
        }
        assert!(Labels::default().is_empty() && Labels::default().get("a").is_none());
    }

    /// The series of a block are sorted in this order.
    #[test]
    fn sets_are_ordered_by_their_pairs() {
        let of = |pairs: &[(&str, &str)]| Labels::from_pairs(pairs.iter().copied());
        let sorted = [
            of(&[]),
            of(&[("a", "b")]),
            of(&[("a", "b"), ("c", "d")]),
            of(&[("a", "bb")]),
            of(&[("a", "c")]),
            of(&[("aa", "a")]),
            of(&[("b", "a")]),
        ];
        assert!(sorted.is_sorted());
        assert!(sorted.windows(2).all(|two| two[0] != two[1] && two[0] < two[1]));
        assert_ne!(of(&[("ab", "c")]), of(&[("a", "bc")]));
    }

    /// The id is stored on disk: this value must never change.
    #[test]
    fn the_stream_id_is_stable() {
        let id = Labels::from_pairs([("app", "api"), ("env", "prod")]).stream_id();
        assert_eq!(format!("{id:?}"), "55d62234f1e0386c83bd9c2cd629a4fc");
        let swapped = Labels::from_pairs([("env", "prod"), ("app", "api")]).stream_id();
        assert_eq!(id, swapped);
        assert_ne!(id, Labels::from_pairs([("app", "apienv"), ("x", "prod")]).stream_id());
    }
}
