//! Splits the text of a query into tokens.
//!
//! Keywords are case-insensitive and reserved everywhere. Names of functions are keywords only in a call:
//! before `(`, `by (` or `without (`. `#` and `//` begin a comment to the end of the line, `/*` one to
//! `*/`. Text that is not a token becomes a [`Kind::Broken`] token, so that an earlier syntax error is
//! reported first.

use std::ops::Range;

use sandur_model::go_text::{parse_bytes, parse_prometheus_duration, parse_query_duration};

use crate::error::ParseError;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The end of the text.
    End,
    /// A name.
    Identifier,
    /// A quoted string.
    String,
    /// A number, with its text unchanged.
    Number,
    /// A duration.
    Duration,
    /// A duration in brackets.
    Range,
    /// A size in bytes.
    Bytes,
    /// `--strict` or `--keep-empty`.
    Flag,
    /// An operator, punctuation or keyword; lower case, as in error messages.
    Word(&'static str),
    /// The name of a function; lower case.
    Function(&'static str),
    /// Not a token; its text is the error message.
    Broken,
}

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// The kind.
    pub kind: Kind,
    /// The text; of a string, without quotes; of a broken token, the error message.
    pub text: String,
    /// The nanoseconds of durations and ranges, the bytes of sizes.
    pub value: i64,
    /// The one-based line; 0 for tokens for which Loki's messages have no line.
    pub line: usize,
    /// The one-based column, in characters.
    pub column: usize,
    /// The byte range in the text.
    pub span: Range<usize>,
}

/// Keywords that are reserved everywhere.
const KEYWORDS: [&str; 23] = [
    "by",
    "without",
    "bool",
    "label_replace",
    "offset",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "or",
    "and",
    "unless",
    "unwrap",
    "json",
    "regexp",
    "logfmt",
    "unpack",
    "pattern",
    "label_format",
    "line_format",
    "decolorize",
    "drop",
    "keep",
];

/// Two-character operators come before their one-character prefixes.
const OPERATORS: [&str; 28] = [
    "!=", "!~", "!>", "=~", "==", "|=", "|~", "|>", ">=", "<=", "{", "}", "(", ")", "]", ",", ".", "=", "|",
    "+", "-", "*", "/", "%", "^", ">", "<", "!",
];

/// Names that are functions only in a call. They include all functions of the tables.
pub const FUNCTIONS: &[&str] = &[
    "count_over_time",
    "rate",
    "rate_counter",
    "bytes_over_time",
    "bytes_rate",
    "avg_over_time",
    "sum_over_time",
    "min_over_time",
    "max_over_time",
    "stdvar_over_time",
    "stddev_over_time",
    "quantile_over_time",
    "first_over_time",
    "last_over_time",
    "absent_over_time",
    "vector",
    "sum",
    "avg",
    "max",
    "min",
    "count",
    "stddev",
    "stdvar",
    "bottomk",
    "topk",
    "approx_topk",
    "sort",
    "sort_desc",
    "label_replace",
    "bytes",
    "duration",
    "duration_seconds",
    "ip",
];

/// Splits a text into tokens; the last one is [`Kind::End`] or [`Kind::Broken`].
pub fn tokenize(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0, line: 1, counted: (0, 1), tokens: Vec::new() };
    lexer.run();
    lexer.tokens
}

impl Token {
    /// The token's name in error messages.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::End => "$end".to_owned(),
            Kind::Identifier => "IDENTIFIER".to_owned(),
            Kind::String => "STRING".to_owned(),
            Kind::Number => "NUMBER".to_owned(),
            Kind::Duration => "DURATION".to_owned(),
            Kind::Range => "RANGE".to_owned(),
            Kind::Bytes => "BYTES".to_owned(),
            Kind::Flag => "FUNCTION_FLAG".to_owned(),
            Kind::Word(word) => word.to_owned(),
            Kind::Function(name @ ("label_replace" | "ip")) => name.to_owned(),
            Kind::Function(name @ ("bytes" | "duration" | "duration_seconds")) => {
                format!("{}_CONV", name.to_uppercase())
            }
            Kind::Function(name) => name.to_uppercase(),
            Kind::Broken => self.text.clone(),
        }
    }

    /// The error that this token is unexpected.
    pub fn unexpected(&self, expecting: &[&str]) -> ParseError {
        if self.kind == Kind::Broken {
            return ParseError::at(self.line, self.column, self.text.clone());
        }
        let mut message = format!("syntax error: unexpected {}", self.name());
        // Loki's parser names at most four expected tokens, and otherwise none.
        if (1..=4).contains(&expecting.len()) {
            message.push_str(", expecting ");
            message.push_str(&expecting.join(" or "));
        }
        ParseError::at(self.line, self.column, message)
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// An offset in the current line and its column; later columns are counted from there.
    counted: (usize, usize),
    tokens: Vec<Token>,
}

/// The longest duration or size, in bytes. Scanning stops there; otherwise a text of many near-literals
/// would be scanned to its end from each of them.
const LITERAL_BYTES_MAX: usize = 128;

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn run(&mut self) {
        loop {
            if let Err((start, reason)) = self.skip_blank() {
                self.push(Kind::Broken, reason, 0, start);
                return;
            }
            let Some(first) = self.rest().chars().next() else {
                self.push(Kind::End, String::new(), 0, self.at);
                return;
            };
            let start = self.at;
            let outcome = match first {
                '"' => self.quoted(start),
                '`' => self.raw(start),
                '\'' => self.character(start),
                '[' => self.range(start),
                c if c.is_ascii_digit() => self.number(start),
                '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(start),
                '-' if self.flag_or_duration(start) => Ok(()),
                c if c == '_' || c.is_alphabetic() => {
                    self.word(start);
                    Ok(())
                }
                _ => self.operator(start),
            };
            if let Err(reason) = outcome {
                self.push(Kind::Broken, reason, 0, start);
                self.end_token(self.text.len());
                return;
            }
            self.end_token(self.at);
        }
    }

    fn push(&mut self, kind: Kind, text: String, value: i64, start: usize) {
        let (place, before) = self.counted;
        let column = before + self.text[place..start].chars().count();
        self.counted = (start, column);
        // Loki's scanner loses the line of tokens that it reads rune by rune; its messages are kept as they
        // are.
        let is_lineless = match kind {
            Kind::Range | Kind::Duration | Kind::Bytes | Kind::Flag => true,
            Kind::Broken => self.text[start..].starts_with('['),
            Kind::Word(word) => word.len() == 2 && !word.as_bytes()[0].is_ascii_alphabetic(),
            _ => false,
        };
        let line = if is_lineless { 0 } else { self.line };
        self.tokens.push(Token { kind, text, value, line, column, span: start..start });
    }

    fn end_token(&mut self, end: usize) {
        if let Some(token) = self.tokens.last_mut() {
            token.span.end = end;
        }
    }

    /// Skips white space and comments; fails at an unterminated comment.
    fn skip_blank(&mut self) -> Result<(), (usize, String)> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_whitespace());
            self.pass(rest.len() - trimmed.len());
            if let Some(inside) = trimmed.strip_prefix("/*") {
                let end = inside.find("*/").ok_or((self.at, "comment not terminated".to_owned()))?;
                self.pass(end + 4);
            } else if trimmed.starts_with('#') || trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else {
                return Ok(());
            }
        }
    }

    /// Advances by a number of bytes, which may include line breaks.
    fn pass(&mut self, length: usize) {
        for (n, _) in self.rest()[..length].match_indices('\n') {
            self.line += 1;
            self.counted = (self.at + n + 1, 1);
        }
        self.at += length;
    }

    fn quoted(&mut self, start: usize) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut chars = self.text[start + 1..].char_indices();
        loop {
            match chars.next() {
                None | Some((_, '\n')) => return Err("literal not terminated".to_owned()),
                Some((_, '\0')) => return Err("invalid character NUL".to_owned()),
                Some((n, '"')) => {
                    self.at = start + 1 + n + 1;
                    let text = String::from_utf8(bytes).map_err(|_| "invalid UTF-8 rune".to_owned())?;
                    self.push(Kind::String, text, 0, start);
                    return Ok(());
                }
                Some((_, '\\')) => escape(&mut chars, &mut bytes)?,
                Some((_, c)) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    fn raw(&mut self, start: usize) -> Result<(), String> {
        let body = &self.text[start + 1..];
        let end = body.find('`').ok_or("literal not terminated")?;
        self.push(Kind::String, body[..end].replace('\r', ""), 0, start);
        for (n, _) in body[..end].match_indices('\n') {
            self.line += 1;
            self.counted = (start + 1 + n + 1, 1);
        }
        self.at = start + 1 + end + 1;
        Ok(())
    }

    /// Scans a character literal of Go. LogQL has none, but its errors come before the syntax error.
    fn character(&mut self, start: usize) -> Result<(), String> {
        let mut chars = self.text[start + 1..].char_indices();
        let mut count = 0;
        loop {
            match chars.next() {
                None | Some((_, '\n')) => return Err("literal not terminated".to_owned()),
                Some((n, '\'')) => {
                    self.at = start + 1 + n + 1;
                    break;
                }
                Some((_, '\\')) => _ = chars.next(),
                Some(_) => {}
            }
            count += 1;
        }
        if count != 1 {
            return Err("invalid char literal".to_owned());
        }
        self.push(Kind::Identifier, self.text[start..self.at].to_owned(), 0, start);
        Ok(())
    }

    fn range(&mut self, start: usize) -> Result<(), String> {
        let body = &self.text[start + 1..];
        let end = body.find(']').ok_or("missing closing ']' in duration")?;
        let value = parse_prometheus_duration(&body[..end])?;
        self.push(Kind::Range, body[..end].to_owned(), value, start);
        self.at = start + 1 + end + 1;
        Ok(())
    }

    fn number(&mut self, start: usize) -> Result<(), String> {
        let length = number_length(self.rest());
        let after = literal(&self.text[start + length..]);
        let extended = |more: fn(char) -> bool| {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || more(c));
            let more = after.len() - rest.len();
            (more > 0).then(|| &self.text[start..start + length + more])
        };
        let duration = extended(|c| "nuµmshdwy".contains(c));
        if let Some((text, value)) = duration.and_then(|t| Some((t, parse_query_duration(t).ok()?))) {
            self.at = start + text.len();
            self.push(Kind::Duration, text.to_owned(), value, start);
            return Ok(());
        }
        let bytes = extended(|c| "BikKMGTP".contains(c));
        if let Some((text, value)) = bytes.and_then(|t| Some((t, parse_bytes(t).ok()?))) {
            self.at = start + text.len();
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            self.push(Kind::Bytes, text.to_owned(), value, start);
            return Ok(());
        }
        self.at = start + length;
        self.push(Kind::Number, self.text[start..start + length].to_owned(), 0, start);
        Ok(())
    }

    /// Scans `--strict` or a similar flag, or a negative duration for `offset`.
    fn flag_or_duration(&mut self, start: usize) -> bool {
        let rest = literal(self.rest());
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_alphabetic() || c == '-').len();
        if let flag @ ("--strict" | "--keep-empty") = &rest[..letters] {
            self.at = start + letters;
            self.push(Kind::Flag, flag.to_owned(), 0, start);
            return true;
        }
        let body =
            rest[1..].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || "nuµmshdwy".contains(c));
        let text = &rest[..rest.len() - body.len()];
        let negative = parse_prometheus_duration(&text[1..]).map(|ns| -ns);
        match negative.ok().filter(|_| text.len() > 2).or_else(|| parse_query_duration(text).ok()) {
            Some(value) if text != "-0" => {
                self.at = start + text.len();
                self.push(Kind::Duration, text.to_owned(), value, start);
                true
            }
            _ => false,
        }
    }

    fn word(&mut self, start: usize) {
        let rest = self.rest();
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        let text = &rest[..end];
        let lower = text.to_lowercase();
        self.at = start + end;
        let function = FUNCTIONS.iter().find(|f| **f == lower);
        let kind = match (function, KEYWORDS.iter().find(|k| **k == lower)) {
            (Some(function), _) if is_call(self.rest()) => Kind::Function(function),
            (Some(_), _) => Kind::Identifier,
            (None, Some(keyword)) => Kind::Word(keyword),
            (None, None) => Kind::Identifier,
        };
        self.push(kind, text.to_owned(), 0, start);
    }

    fn operator(&mut self, start: usize) -> Result<(), String> {
        let found = OPERATORS.iter().find(|o| self.rest().starts_with(**o));
        match found {
            Some(operator) => {
                self.at = start + operator.len();
                self.push(Kind::Word(operator), (*operator).to_owned(), 0, start);
            }
            None => {
                let c = self.rest().chars().next().expect("the caller checked that there is a character");
                self.at = start + c.len_utf8();
                self.push(Kind::Identifier, c.to_string(), 0, start);
            }
        }
        Ok(())
    }
}

/// The prefix of a text in which a literal may be.
fn literal(text: &str) -> &str {
    &text[..text.floor_char_boundary(LITERAL_BYTES_MAX)]
}

/// Whether a call follows: `(`, or a grouping before it.
fn is_call(rest: &str) -> bool {
    let rest = rest.trim_start();
    if rest.starts_with('(') {
        return true;
    }
    ["by", "without"].iter().any(|word| {
        let head = rest.get(..word.len());
        head.is_some_and(|h| h.eq_ignore_ascii_case(word)) && rest[word.len()..].trim_start().starts_with('(')
    })
}

/// The length of a literal such as `0x1.8p3`, `0b101`, `0o17`; 1 if there is none. The parser checks
/// whether it is a valid number.
fn prefixed_length(bytes: &[u8]) -> usize {
    let digit: fn(&u8) -> bool = match bytes[1] {
        b'x' | b'X' => u8::is_ascii_hexdigit,
        b'b' | b'B' | b'o' | b'O' => u8::is_ascii_digit,
        _ => return 1,
    };
    let mut end = 2 + bytes[2..].iter().take_while(|b| digit(b) || **b == b'.').count();
    if end == 2 {
        return 1;
    }
    if matches!(bytes.get(end), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent =
            bytes.get(end + 1 + sign..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count();
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// The length of a Go number literal without its sign.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.len() > 1
        && bytes[0] == b'0'
        && bytes[1].is_ascii_alphabetic()
        && !matches!(bytes[1], b'e' | b'E')
    {
        return prefixed_length(bytes);
    }
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(end + 1 + sign..).map_or(0, |_| digits(end + 1 + sign));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// Decodes Go's escapes: `\a \b \f \n \r \t \v \\ \' \"`, `\ooo`, `\xhh`, `\uhhhh`, `\Uhhhhhhhh`.
fn escape(chars: &mut std::str::CharIndices<'_>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let bad = || "invalid char escape".to_owned();
    let (_, kind) = chars.next().ok_or("literal not terminated")?;
    let simple = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '"' | '\'' => kind as u8,
        'x' | 'u' | 'U' | '0'..='7' => return coded(kind, chars, bytes),
        _ => return Err(bad()),
    };
    bytes.push(simple);
    Ok(())
}

fn coded(kind: char, chars: &mut std::str::CharIndices<'_>, bytes: &mut Vec<u8>) -> Result<(), String> {
    let bad = || "invalid char escape".to_owned();
    let (radix, digits, mut value) = match kind {
        'x' => (16, 2, 0),
        'u' => (16, 4, 0),
        'U' => (16, 8, 0),
        octal => (8, 2, octal as u32 - '0' as u32),
    };
    for _ in 0..digits {
        let digit = chars.next().and_then(|(_, c)| c.to_digit(radix)).ok_or_else(bad)?;
        value = value * radix + digit;
    }
    if matches!(kind, 'u' | 'U') {
        let c = char::from_u32(value).ok_or_else(bad)?;
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        bytes.push(u8::try_from(value).map_err(|_| bad())?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokenize(text).into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn every_function_of_the_tables_is_known_to_the_lexer() {
        let of_windows = crate::range::FUNCTIONS.iter().copied().flatten().map(|function| function.name);
        let of_vectors = crate::vector::FUNCTIONS.iter().map(|function| function.name);
        for name in of_windows.chain(of_vectors) {
            assert!(FUNCTIONS.contains(&name), "'{name}' cannot be read: put it into FUNCTIONS of lexer.rs");
        }
    }

    #[test]
    fn names_are_functions_only_in_a_call() {
        use Kind::{End, Function, Identifier, Word};
        assert_eq!(
            kinds("sum by (rate) (RATE("),
            [
                Function("sum"),
                Word("by"),
                Word("("),
                Identifier,
                Word(")"),
                Word("("),
                Function("rate"),
                Word("("),
                End
            ]
        );
        assert_eq!(kinds("duration > bytes"), [Identifier, Word(">"), Identifier, End]);
        assert_eq!(kinds("JSON json_x"), [Word("json"), Identifier, End]);
    }

    #[test]
    fn numbers_durations_and_sizes() {
        use Kind::{Bytes, Duration, End, Number, Range, Word};
        assert_eq!(kinds("1 1.5 .5 1e3 0x10"), [Number, Number, Number, Number, Number, End]);
        assert_eq!(kinds("5m 1.5h 1d12h 250ms -5m"), [Duration, Duration, Duration, Duration, Duration, End]);
        assert_eq!(kinds("5KB 2.5MiB 7B"), [Bytes, Bytes, Bytes, End]);
        assert_eq!(kinds("-5 - 5m"), [Word("-"), Number, Word("-"), Duration, End]);
        assert_eq!(kinds("[5m]"), [Range, End]);
        assert_eq!(tokenize("-1d")[0].value, -86_400_000_000_000);
    }

    #[test]
    fn strings_and_comments() {
        let tokens = tokenize("\"a\\\"\\n\\x41\\u00e9\\101\" # gone\n `raw\\n` // gone");
        let texts: Vec<&str> = tokens.iter().map(|t| t.text.as_str()).collect();
        assert_eq!(texts, ["a\"\nAéA", "raw\\n", ""]);
        assert_eq!((tokens[1].line, tokens[1].column), (2, 2));
    }

    #[test]
    fn lexer_errors_have_a_column_and_a_message() {
        for (text, column, reason) in [
            ("{a=\"b", 4, "literal not terminated"),
            ("x [5", 3, "missing closing ']' in duration"),
            ("[5minutes]", 1, "unknown unit \"minutes\" in duration \"5minutes\""),
            ("\"\\q\"", 1, "invalid char escape"),
        ] {
            let tokens = tokenize(text);
            let last = tokens.last().unwrap();
            assert_eq!((last.kind, last.column, last.text.as_str()), (Kind::Broken, column, reason));
        }
    }
}
