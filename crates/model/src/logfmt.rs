//! Lines of `key=value` pairs as Go's logfmt encoder writes them, with Go's durations and sizes: the
//! format that queries and dashboards for logs of Loki expect.

use std::fmt::{self, Display, Write};

use crate::go_text::format_go_duration;

/// A line under construction.
#[derive(Default)]
pub struct Line(String);

impl Line {
    /// An empty line with this capacity in bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    /// Appends a pair with any text as the value.
    pub fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        if value == "null" || value.contains(needs_quotes) {
            self.quoted(value);
        } else {
            self.0.push_str(value);
        }
    }

    /// Appends a pair whose value contains no spaces, quotes or control characters, such as a number.
    pub fn plain(&mut self, key: &str, value: impl Display) {
        self.key(key);
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{value}");
    }

    /// Appends a duration in nanoseconds.
    pub fn time(&mut self, key: &str, ns: i64) {
        self.plain(key, format_go_duration(ns));
    }

    /// Appends a number of bytes.
    pub fn bytes(&mut self, key: &str, bytes: u64) {
        self.plain(key, GoBytes(bytes));
    }

    /// The line.
    pub fn into_string(self) -> String {
        self.0
    }

    fn key(&mut self, key: &str) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        match key.contains(needs_quotes) {
            false => self.0.push_str(key),
            true => self.0.extend(key.chars().filter(|c| !needs_quotes(*c))),
        }
        self.0.push('=');
    }

    fn quoted(&mut self, value: &str) {
        self.0.push('"');
        let mut rest = value;
        while let Some(at) = rest.find(needs_escape) {
            let (plain, from) = rest.split_at(at);
            self.0.push_str(plain);
            let mut chars = from.chars();
            let _ = match chars.next() {
                Some('\n') => write!(self.0, "\\n"),
                Some('\r') => write!(self.0, "\\r"),
                Some('\t') => write!(self.0, "\\t"),
                Some(control) if control < ' ' => write!(self.0, "\\u{:04x}", control as u32),
                Some(character) => write!(self.0, "\\{character}"),
                None => Ok(()),
            };
            rest = chars.as_str();
        }
        self.0.push_str(rest);
        self.0.push('"');
    }
}

fn needs_escape(c: char) -> bool {
    c < ' ' || matches!(c, '"' | '\\')
}

fn needs_quotes(c: char) -> bool {
    c <= ' ' || matches!(c, '=' | '"' | '\u{fffd}')
}

/// Bytes as Loki prints them: powers of 1,000, one decimal below ten (`0B`, `1.5kB`, `12MB`).
pub struct GoBytes(pub u64);

impl Display for GoBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10 {
            return write!(f, "{}B", self.0);
        }
        let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
        let power = self.0.ilog(1_000);
        let value = (self.0 as f64 / 1_000f64.powi(power as i32) * 10.0 + 0.5).floor() / 10.0;
        let unit = units[power as usize];
        if value < 10.0 { write!(f, "{value:.1}{unit}") } else { write!(f, "{value:.0}{unit}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The expected texts are the output of Go's encoders.
    #[test]
    fn values_are_quoted_when_they_need_it() {
        let mut line = Line::default();
        line.text("msg", "it works");
        line.text("query", r#"{a="b"} |~ "\\d""#);
        line.text("bad key=\"", "5");
        line.text("empty", "");
        line.text("none", "null");
        line.text("control", "a\tb\u{1}\u{e9}");
        let expected = concat!(
            r#"msg="it works" query="{a=\"b\"} |~ \"\\\\d\"" badkey=5 empty= none="null" "#,
            "control=\"a\\tb\\u0001\u{e9}\""
        );
        assert_eq!(line.into_string(), expected);
    }

    #[test]
    fn sizes_print_as_in_loki() {
        let shown = |bytes| GoBytes(bytes).to_string();
        assert_eq!([shown(0), shown(9), shown(10), shown(999)], ["0B", "9B", "10B", "999B"]);
        assert_eq!([shown(1_000), shown(1_049), shown(12_345)], ["1.0kB", "1.0kB", "12kB"]);
        assert_eq!([shown(9_950_000), shown(82_854_982)], ["10MB", "83MB"]);
        assert_eq!(shown(u64::MAX), "18EB");
    }
}
