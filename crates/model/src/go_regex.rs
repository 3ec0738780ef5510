//! Translates regular expressions from Go's syntax, which Prometheus and Loki use, to Rust's.
//!
//! The syntaxes differ. In Go, `\d \w \s \b` are ASCII, and `\Q..\E` and octal escapes exist. Within
//! `[..]`, Go treats `[`, `&&`, `--` and `~~` as literals and permits a minus anywhere. A brace that
//! begins no repetition is a literal. Errors have the text of Go's, except for limits of size, which
//! differ.

use std::fmt::{self, Display};
use std::str::Chars;

use crate::bounded_regex::{PATTERN_BYTES_MAX, RegexError};

/// The highest repetition count.
const COUNT_MAX: u32 = 1000;

/// A syntax error in Go's words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused {
    what: &'static str,
    piece: String,
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.what, self.piece)
    }
}

impl From<Refused> for RegexError {
    fn from(refused: Refused) -> Self {
        Self::Invalid(refused.to_string())
    }
}

fn refused<T>(what: &'static str, piece: &str) -> Result<T, Refused> {
    Err(Refused { what, piece: piece.to_owned() })
}

const ESCAPE: &str = "invalid escape sequence";
const RANGE: &str = "invalid character class range";

/// Translates an expression to Rust's syntax.
pub fn translate(pattern: &str) -> Result<String, RegexError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(RegexError::TooLong(pattern.len()));
    }
    let out = String::with_capacity(pattern.len() + 8);
    let mut reader = Reader { pattern, rest: pattern, out, groups: 0, may_name_class: true };
    reader.all()?;
    Ok(reader.out)
}

/// The message of an error, in Go's words or close to them.
pub fn reason(pattern: &str, error: &RegexError) -> String {
    let RegexError::Invalid(text) = error else { return error.to_string() };
    if text.starts_with("error parsing regexp: ") {
        return text.clone();
    }
    let what = match text.lines().last().unwrap_or_default().trim_start_matches("error: ") {
        unknown if unknown.starts_with("Unicode property") => RANGE,
        other => other,
    };
    format!("error parsing regexp: {what}: `{pattern}`")
}

struct Reader<'a> {
    pattern: &'a str,
    rest: &'a str,
    out: String,
    /// Groups that are open.
    groups: usize,
    /// Whether a class name such as `[:alpha:]` may still end: one failed search is enough.
    may_name_class: bool,
}

/// The text from `from` up to the beginning of `rest`, which is its suffix.
fn until<'a>(from: &'a str, rest: &str) -> &'a str {
    &from[..from.len() - rest.len()]
}

fn literal(out: &mut String, c: char) {
    if regex_syntax::is_meta_character(c) {
        out.push('\\');
    }
    out.push(c);
}

/// The expansion of a class letter: within brackets, and alone.
fn letter_class(c: char) -> Option<(&'static str, &'static str)> {
    Some(match c {
        'd' => ("0-9", "[0-9]"),
        'w' => ("0-9A-Za-z_", "[0-9A-Za-z_]"),
        's' => (r"\t\n\f\r ", r"[\t\n\f\r ]"),
        'D' => ("[^0-9]", "[^0-9]"),
        'W' => ("[^0-9A-Za-z_]", "[^0-9A-Za-z_]"),
        'S' => (r"[^\t\n\f\r ]", r"[^\t\n\f\r ]"),
        _ => return None,
    })
}

impl<'a> Reader<'a> {
    fn all(&mut self) -> Result<(), Refused> {
        // Whether something can be repeated, and the beginning of the repetition that was just read.
        let (mut operand, mut last) = (false, None);
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            self.rest = &before[c.len_utf8()..];
            let mut repetition = None;
            match c {
                '(' if self.rest.starts_with('?') => operand = !self.flags(before)? && operand,
                '(' => {
                    self.groups += 1;
                    self.out.push('(');
                    operand = false;
                }
                ')' => {
                    let Some(left) = self.groups.checked_sub(1) else {
                        return refused("unexpected )", self.pattern);
                    };
                    self.groups = left;
                    self.out.push(')');
                    operand = true;
                }
                '|' => {
                    self.out.push('|');
                    operand = false;
                }
                '*' | '+' | '?' => repetition = Some(before),
                '{' if self.counts(before)? => repetition = Some(before),
                '\\' => operand = self.escape(before)? || operand,
                '[' => {
                    self.class(before)?;
                    operand = true;
                }
                '^' | '$' | '.' => {
                    self.out.push(c);
                    operand = true;
                }
                c => {
                    literal(&mut self.out, c);
                    operand = true;
                }
            }
            if let Some(start) = repetition {
                self.repetition(start, last, operand)?;
            }
            last = repetition;
        }
        if self.groups > 0 { refused("missing closing )", self.pattern) } else { Ok(()) }
    }

    fn repetition(&mut self, start: &'a str, last: Option<&'a str>, operand: bool) -> Result<(), Refused> {
        self.rest = self.rest.strip_prefix('?').unwrap_or(self.rest);
        if let Some(last) = last {
            return refused("invalid nested repetition operator", until(last, self.rest));
        }
        let written = until(start, self.rest);
        if !operand {
            return refused("missing argument to repetition operator", written);
        }
        self.out.push_str(written);
        Ok(())
    }

    /// Reads `n}`, `n,}` or `n,m}`; `false` when the brace is a literal.
    fn counts(&mut self, before: &'a str) -> Result<bool, Refused> {
        let Some((least, most, rest)) = counts_of(self.rest) else { return Ok(false) };
        self.rest = rest;
        if least > COUNT_MAX || most.is_some_and(|most| most > COUNT_MAX || most < least) {
            return refused("invalid repeat count", until(before, rest));
        }
        Ok(true)
    }

    /// Reads what follows `(?`: a name, or flags. Returns whether a group begins.
    fn flags(&mut self, before: &'a str) -> Result<bool, Refused> {
        const WHAT: &str = "invalid or unsupported Perl syntax";
        let name = (before.strip_prefix("(?P<").filter(|name| !name.is_empty()))
            .or_else(|| before.strip_prefix("(?<").filter(|name| !name.is_empty()));
        if let Some(rest) = name {
            let Some((name, rest)) = rest.split_once('>') else {
                return refused("invalid named capture", before);
            };
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return refused("invalid named capture", until(before, rest));
            }
            self.rest = rest;
            self.groups += 1;
            self.out.extend(["(?P<", name, ">"]);
            return Ok(true);
        }
        let (mut on, mut off, mut negative, mut saw) = (String::new(), String::new(), false, false);
        let mut chars = before[2..].chars();
        while let Some(c) = chars.next() {
            match c {
                'i' | 'm' | 's' | 'U' => {
                    on.retain(|flag| flag != c);
                    off.retain(|flag| flag != c);
                    if negative {
                        off.push(c)
                    } else {
                        on.push(c)
                    }
                    saw = true;
                }
                '-' if !negative => (negative, saw) = (true, false),
                ':' | ')' if !negative || saw => {
                    self.rest = chars.as_str();
                    self.set_flags(&on, &off, c == ':');
                    return Ok(c == ':');
                }
                _ => break,
            }
        }
        refused(WHAT, until(before, chars.as_str()))
    }

    fn set_flags(&mut self, on: &str, off: &str, begins_group: bool) {
        if !begins_group && on.is_empty() && off.is_empty() {
            return;
        }
        self.groups += usize::from(begins_group);
        let minus = if off.is_empty() { "" } else { "-" };
        self.out.extend(["(?", on, minus, off, if begins_group { ":" } else { ")" }]);
    }

    /// Reads what follows a backslash outside of brackets. Returns whether it can be repeated.
    fn escape(&mut self, before: &'a str) -> Result<bool, Refused> {
        let next = self.rest.chars().next();
        let after = next.map_or("", |c| &self.rest[c.len_utf8()..]);
        match next {
            Some('A') => self.out.push_str(r"\A"),
            Some('z') => self.out.push_str(r"\z"),
            Some('b') => self.out.push_str(r"(?-u:\b)"),
            Some('B') => self.out.push_str(r"(?-u:\B)"),
            Some('Q') => {
                let (quoted, rest) = after.split_once(r"\E").unwrap_or((after, ""));
                quoted.chars().for_each(|c| literal(&mut self.out, c));
                self.rest = rest;
                return Ok(!quoted.is_empty());
            }
            Some('p' | 'P') => {
                self.unicode_class(before)?;
                return Ok(true);
            }
            _ => {
                if let Some((_, alone)) = next.and_then(letter_class) {
                    self.out.push_str(alone);
                    self.rest = after;
                    return Ok(true);
                }
                let (c, rest) = escaped(before)?;
                literal(&mut self.out, c);
                self.rest = rest;
                return Ok(true);
            }
        }
        self.rest = after;
        Ok(true)
    }

    /// Reads `\pL`, `\p{Greek}`, `\p{^Greek}`.
    fn unicode_class(&mut self, before: &'a str) -> Result<(), Refused> {
        let mut negative = before.starts_with(r"\P");
        let after = &before[2..];
        let (name, rest) = match after.strip_prefix('{') {
            Some(braced) => match braced.split_once('}') {
                Some(found) => found,
                None => return refused(RANGE, before),
            },
            None => after.split_at(after.chars().next().map_or(0, char::len_utf8)),
        };
        let bare = name.strip_prefix('^').unwrap_or(name);
        negative ^= bare.len() < name.len();
        let word = format!("\\{}{{{bare}}}", if negative { 'P' } else { 'p' });
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ');
        // The parser of the translated expression reports unknown classes.
        if bare.is_empty() || !bare.chars().all(is_name) {
            return refused(RANGE, until(before, rest));
        }
        self.out.push_str(&word);
        self.rest = rest;
        Ok(())
    }

    /// Reads what follows an opening bracket.
    fn class(&mut self, whole: &'a str) -> Result<(), Refused> {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.out.push('^');
            self.rest = rest;
        }
        let mut first = true;
        loop {
            let before = self.rest;
            if !first && let Some(rest) = before.strip_prefix(']') {
                self.out.push(']');
                self.rest = rest;
                return Ok(());
            }
            first = false;
            if self.may_name_class && before.starts_with("[:") && self.named_class(before)? {
                continue;
            }
            if before.starts_with(r"\p") || before.starts_with(r"\P") {
                self.unicode_class(before)?;
                continue;
            }
            let letter = before.strip_prefix('\\').and_then(|rest| rest.chars().next());
            if let Some((within, _)) = letter.and_then(letter_class) {
                self.out.push_str(within);
                self.rest = &before[2..];
                continue;
            }
            self.span_of_class(whole)?;
        }
    }

    /// Reads a character or a range of a class.
    fn span_of_class(&mut self, whole: &'a str) -> Result<(), Refused> {
        let before = self.rest;
        let (low, rest) = char_of_class(before, whole)?;
        literal(&mut self.out, low);
        self.rest = rest;
        // A minus before the closing bracket is a literal.
        if let Some(after) =
            rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']'))
        {
            let (high, rest) = char_of_class(after, whole)?;
            if high < low {
                return refused(RANGE, until(before, rest));
            }
            self.out.push('-');
            literal(&mut self.out, high);
            self.rest = rest;
        }
        Ok(())
    }

    /// Reads `[:alpha:]`; without `:]` it is not a class name.
    fn named_class(&mut self, before: &'a str) -> Result<bool, Refused> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "word", "xdigit",
        ];
        let Some((name, rest)) = before[2..].split_once(":]") else {
            self.may_name_class = false;
            return Ok(false);
        };
        let written = until(before, rest);
        if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return refused(RANGE, written);
        }
        self.out.push_str(written);
        self.rest = rest;
        Ok(true)
    }
}

/// The counts of a repetition after its brace, and the rest of the text.
fn counts_of(rest: &str) -> Option<(u32, Option<u32>, &str)> {
    let number = |text: &'_ str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let leads = digits == 0 || digits > 1 && text.starts_with('0');
        // A number that overflows also exceeds the highest count.
        if leads { None } else { Some((text[..digits].parse().unwrap_or(u32::MAX), digits)) }
    };
    let (least, digits) = number(rest)?;
    let rest = &rest[digits..];
    let Some(following) = rest.strip_prefix(',') else {
        return Some((least, Some(least), rest.strip_prefix('}')?));
    };
    if let Some(rest) = following.strip_prefix('}') {
        return Some((least, None, rest));
    }
    let (most, digits) = number(following)?;
    Some((least, Some(most), following[digits..].strip_prefix('}')?))
}

fn char_of_class<'a>(text: &'a str, whole: &str) -> Result<(char, &'a str), Refused> {
    match text.chars().next() {
        None => refused("missing closing ]", whole),
        Some('\\') => escaped(text),
        Some(c) => Ok((c, &text[c.len_utf8()..])),
    }
}

/// The character that an escape sequence stands for, and the rest of the text.
fn escaped(text: &str) -> Result<(char, &str), Refused> {
    let mut chars = text[1..].chars();
    let Some(c) = chars.next() else { return refused("trailing backslash at end of expression", "") };
    let is_octal = |c: &char| ('0'..='7').contains(c);
    let found = match c {
        // A single digit other than zero would be a back-reference.
        '0'..='7' if c == '0' || chars.clone().next().as_ref().is_some_and(is_octal) => {
            let mut value = u32::from(c) - u32::from('0');
            for _ in 0..2 {
                let Some(digit) = chars.clone().next().filter(is_octal) else { break };
                value = value * 8 + (u32::from(digit) - u32::from('0'));
                chars.next();
            }
            char::from_u32(value)
        }
        'x' => hexadecimal(&mut chars),
        'a' => Some('\u{7}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    };
    match found {
        Some(c) => Ok((c, chars.as_str())),
        None => refused(ESCAPE, until(text, chars.as_str())),
    }
}

/// Reads `41` or `{10FFFF}`; consumes what it has read even when it fails.
fn hexadecimal(chars: &mut Chars<'_>) -> Option<char> {
    let first = chars.next()?;
    if first != '{' {
        let second = chars.next()?;
        return char::from_u32(first.to_digit(16)? * 16 + second.to_digit(16)?);
    }
    let (mut value, mut digits) = (0u32, 0);
    loop {
        match chars.next()? {
            '}' if digits == 0 => return None,
            '}' => return char::from_u32(value),
            c => value = value * 16 + c.to_digit(16)?,
        }
        digits += 1;
        if value > u32::from(char::MAX) {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_regex::{BoundedRegex, RegexOptions};

    fn matches(pattern: &str, text: &str) -> bool {
        let options = RegexOptions { utf8: true, prefilter: false, groups: true };
        let translated = translate(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        let hir = BoundedRegex::parse(&translated, true).unwrap_or_else(|e| panic!("{translated}: {e}"));
        BoundedRegex::new(&hir, options).unwrap().is_match(text.as_bytes()).unwrap()
    }

    #[test]
    fn translated_expressions_match_as_in_go() {
        for (pattern, text, expected) in [
            (r"^[\w-.]+$", "a-b.c_", true),
            (r"^[\w-.]+$", "a/b", false),
            (r"^[\w--/]+$", "a.-", true),
            (r"^[a-]+$", "a-", true),
            (r"^[-a]+$", "a-", true),
            (r"[]a]", "]", true),
            (r"^[[a]]$", "[]", true),
            (r"^[a&&b]$", "&", true),
            (r"^[a~~b]$", "~", true),
            (r"^[+--b]+$", ",", true),
            (r"[[:^alpha:]]", "a", false),
            (r"[[:alpha]", "[", true),
            (r"\d", "٣", false),
            (r"[^\D]", "1", true),
            (r"^\Qa.b|\E+$", "a.b||", true),
            (r"\Qa.b", "axb", false),
            (r"^\101\x42\x{43}\07$", "ABC\u{7}", true),
            (r"a{,2}", "a{,2}", true),
            (r"a{01}", "a{01}", true),
            (r"{", "{", true),
            (r"^\p{^Greek}\P{^Greek}\pL$", "aαb", true),
            (r"\Bb\b", "éb", false),
            (r"(?i-i:A)(?)", "a", false),
            (r"(?ii)A", "a", true),
            (r"(?U)(?<n>a)??", "", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn syntax_errors_have_the_text_of_go() {
        for (pattern, words) in [
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+?{2}", "invalid nested repetition operator: `+?{2}`"),
            ("(|*)", "missing argument to repetition operator: `*`"),
            ("+?", "missing argument to repetition operator: `+?`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("(a", "missing closing ): `(a`"),
            ("a)|(b", "unexpected ): `a)|(b`"),
            ("x[a", "missing closing ]: `[a`"),
            ("[]", "missing closing ]: `[]`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{Greek", r"invalid character class range: `\p{Greek`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"[\b]", r"invalid escape sequence: `\b`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
            ("(?P<é>a)", "invalid named capture: `(?P<é>`"),
            ("(?P<", "invalid or unsupported Perl syntax: `(?P`"),
            ("a(?<b", "invalid named capture: `(?<b`"),
        ] {
            let error = translate(pattern).unwrap_err();
            assert_eq!(reason(pattern, &error), format!("error parsing regexp: {words}"), "{pattern}");
        }
        let error = BoundedRegex::parse(&translate(r"\p{Nope}").unwrap(), true).unwrap_err();
        let words = r"error parsing regexp: invalid character class range: `\p{Nope}`";
        assert_eq!(reason(r"\p{Nope}", &error), words);
    }

    #[test]
    fn failed_searches_are_not_repeated() {
        for piece in ["[:", "[[:a", r"\p{", "(?P<a", "{1", r"\Q", "(?i", r"\x{", "[^"] {
            // This would take minutes if each piece searched the complete rest of the expression.
            let pattern = piece.repeat(PATTERN_BYTES_MAX / piece.len());
            let _ = translate(&pattern);
        }
    }
}
