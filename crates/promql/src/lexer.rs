//! Splits the text of a query into tokens.
//!
//! The lexer has three modes. Within braces, keywords are plain names. Within brackets, only durations and
//! their arithmetic are valid. Elsewhere, all of the language is. The lexer stops at the first invalid
//! character, with an error token.

use crate::names;
use crate::span::Span;
use crate::text::{debug_char, numbered_char, quote};
use crate::token::{Kind, Token};

/// The tokens of a query. The last one is `End`, or `Error` with a message.
pub struct Tokens {
    /// The tokens.
    pub list: Vec<Token>,
    /// The place and message of the error, if the last token is one.
    pub error: Option<(Span, String)>,
}

/// Reads all tokens of a text.
pub fn tokenize(text: &str) -> Tokens {
    let mut lexer = Lexer {
        text,
        at: 0,
        parens: 0,
        brace: false,
        bracket: false,
        colon: false,
        duration: false,
        number: false,
        error_is_after: false,
    };
    let mut list = Vec::with_capacity(text.len() / 4 + 2);
    loop {
        let start = lexer.skip_blank();
        let end = lexer.text.len();
        match lexer.next() {
            Ok(kind) => {
                list.push(Token { kind, span: Span::new(start, lexer.at) });
                if kind == Kind::End {
                    return Tokens { list, error: None };
                }
            }
            Err(what) => {
                let start = if lexer.error_is_after { lexer.at } else { start };
                list.push(Token { kind: Kind::Error, span: Span::new(start, end) });
                return Tokens { list, error: Some((Span::new(start, end), what)) };
            }
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    parens: usize,
    brace: bool,
    bracket: bool,
    /// Whether a colon was read in the current brackets.
    colon: bool,
    /// Whether a duration was read in the current brackets.
    duration: bool,
    /// Whether a number or duration was read in the current brackets; after it, all of the language is
    /// valid.
    number: bool,
    /// Whether the error's place is after the token.
    error_is_after: bool,
}

fn is_alpha(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic()
}

fn is_alphanumeric(c: char) -> bool {
    is_alpha(c) || c.is_ascii_digit()
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn take_while(&mut self, f: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&f) {
            self.bump();
        }
    }

    fn skip_blank(&mut self) -> usize {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            if (self.bracket && !self.number) || !self.take('#') {
                return self.at;
            }
            self.take_while(|c| c != '\n' && c != '\r');
        }
    }

    fn next(&mut self) -> Result<Kind, String> {
        match (self.brace, self.bracket) {
            (true, _) => self.in_braces(),
            (_, true) if !self.number => self.in_brackets(),
            _ => self.anywhere(),
        }
    }

    fn in_braces(&mut self) -> Result<Kind, String> {
        let Some(c) = self.bump() else { return Err("unexpected end of input inside braces".to_owned()) };
        Ok(match c {
            ',' => Kind::Comma,
            '"' | '\'' | '`' => return self.string(c),
            '=' if self.take('~') => Kind::EqlRegex,
            '=' => Kind::Equal,
            '!' if self.take('~') => Kind::NeqRegex,
            '!' if self.take('=') => Kind::Neq,
            '!' => {
                let next = self.peek().map_or_else(|| "'\u{fffd}'".to_owned(), debug_char);
                return Err(format!("unexpected character after '!' inside braces: {next}"));
            }
            '{' => return Err("unexpected left brace '{'".to_owned()),
            '}' => {
                self.brace = false;
                Kind::RightBrace
            }
            c if names::begins(c) => {
                self.take_while(names::goes_on);
                Kind::Identifier
            }
            c => return Err(format!("unexpected character inside braces: {}", debug_char(c))),
        })
    }

    fn in_brackets(&mut self) -> Result<Kind, String> {
        let start = self.at;
        let Some(c) = self.bump() else {
            return Err("unexpected end of input in duration expression".to_owned());
        };
        Ok(match c {
            ']' => {
                self.bracket = false;
                Kind::RightBracket
            }
            ':' if !self.duration => {
                self.error_is_after = true;
                return Err("unexpected colon before duration in duration expression".to_owned());
            }
            ':' if self.colon => {
                self.error_is_after = true;
                return Err("unexpected repeated colon in duration expression".to_owned());
            }
            ':' => {
                self.colon = true;
                Kind::Colon
            }
            '(' => {
                self.parens += 1;
                Kind::LeftParen
            }
            ')' => return self.right_paren(),
            ',' => Kind::Comma,
            '+' => Kind::Add,
            '-' => Kind::Sub,
            '*' => Kind::Mul,
            '/' => Kind::Div,
            '%' => Kind::Mod,
            '^' => Kind::Pow,
            c if c.is_ascii_digit() || (c == '.' && self.peek().is_some_and(|c| c.is_ascii_digit())) => {
                self.at = start;
                self.duration = true;
                return self.number_or_duration();
            }
            c if is_alpha(c) => {
                let what = || format!("unexpected character in duration expression: {}", debug_char(c));
                return self.duration_word(start).ok_or_else(what);
            }
            c => return Err(format!("unexpected character in duration expression: {}", debug_char(c))),
        })
    }

    /// Reads a keyword of duration expressions.
    fn duration_word(&mut self, start: usize) -> Option<Kind> {
        self.take_while(is_alpha);
        let word = Kind::of_word(&self.text[start..self.at])?;
        let is_part = matches!(word, Kind::Step | Kind::Range | Kind::MaxOf | Kind::MinOf);
        self.duration |= is_part;
        is_part.then_some(word)
    }

    fn left_bracket(&mut self) -> Result<Kind, String> {
        if self.bracket {
            return Err("unexpected left bracket '['".to_owned());
        }
        (self.bracket, self.colon, self.duration, self.number) = (true, false, false, false);
        Ok(Kind::LeftBracket)
    }

    fn right_paren(&mut self) -> Result<Kind, String> {
        let Some(parens) = self.parens.checked_sub(1) else {
            self.error_is_after = true;
            return Err("unexpected right parenthesis ')'".to_owned());
        };
        self.parens = parens;
        Ok(Kind::RightParen)
    }

    fn anywhere(&mut self) -> Result<Kind, String> {
        let start = self.at;
        let Some(c) = self.bump() else {
            return match (self.parens, self.bracket) {
                (0, false) => Ok(Kind::End),
                (0, true) => Err("unclosed left bracket".to_owned()),
                _ => Err("unclosed left parenthesis".to_owned()),
            };
        };
        Ok(match c {
            ',' => Kind::Comma,
            '*' => Kind::Mul,
            '/' => Kind::Div,
            '%' => Kind::Mod,
            '+' => Kind::Add,
            '-' => Kind::Sub,
            '^' => Kind::Pow,
            '@' => Kind::At,
            '=' if self.take('=') => Kind::Eqlc,
            '=' if self.peek() == Some('~') => {
                return Err("unexpected character after '=': '~'".to_owned());
            }
            '=' => Kind::Equal,
            '!' if self.take('=') => Kind::Neq,
            '!' => {
                let next = self.peek().map_or_else(|| "'\u{fffd}'".to_owned(), debug_char);
                return Err(format!("unexpected character after '!': {next}"));
            }
            '<' if self.take('=') => Kind::Lte,
            '<' if self.take('/') => Kind::TrimUpper,
            '<' => Kind::Lss,
            '>' if self.take('=') => Kind::Gte,
            '>' if self.take('/') => Kind::TrimLower,
            '>' => Kind::Gtr,
            '"' | '\'' | '`' => return self.string(c),
            '(' => {
                self.parens += 1;
                Kind::LeftParen
            }
            ')' => return self.right_paren(),
            '{' => {
                self.brace = true;
                Kind::LeftBrace
            }
            '[' => return self.left_bracket(),
            ']' if self.bracket => {
                self.bracket = false;
                Kind::RightBracket
            }
            ']' => return Err("unexpected right bracket ']'".to_owned()),
            c if c.is_ascii_digit() || (c == '.' && self.peek().is_some_and(|c| c.is_ascii_digit())) => {
                self.at = start;
                return self.number_or_duration();
            }
            ':' if self.bracket && self.colon => return Err("unexpected colon ':'".to_owned()),
            ':' if self.bracket => {
                self.colon = true;
                Kind::Colon
            }
            c if names::begins(c) && self.bracket => {
                let what = || format!("unexpected character: {}, expected ':'", debug_char(c));
                return self.duration_word(start).ok_or_else(what);
            }
            c if names::begins(c) || c == ':' => self.word(start),
            c => return Err(format!("unexpected character: {}", debug_char(c))),
        })
    }

    fn word(&mut self, start: usize) -> Kind {
        self.take_while(|c| names::goes_on(c) || c == ':');
        let word = &self.text[start..self.at];
        match Kind::of_word(word) {
            // These are metric names unless a parenthesis follows: the keywords are newer than such names.
            Some(kind @ (Kind::Fill | Kind::FillLeft | Kind::FillRight)) => {
                let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\n', '\r']);
                if rest.starts_with('(') { kind } else { Kind::Identifier }
            }
            Some(kind) => kind,
            None if word.contains(':') => Kind::MetricIdentifier,
            None => Kind::Identifier,
        }
    }

    fn string(&mut self, open: char) -> Result<Kind, String> {
        loop {
            match self.bump() {
                Some('`') if open == '`' => return Ok(Kind::String),
                None if open == '`' => return Err("unterminated raw string".to_owned()),
                Some(char::REPLACEMENT_CHARACTER) => return Err("invalid UTF-8 rune".to_owned()),
                Some(_) if open == '`' => {}
                None | Some('\n') => return Err("unterminated quoted string".to_owned()),
                Some('\\') => self.escape(open)?,
                Some(c) if c == open => return Ok(Kind::String),
                Some(_) => {}
            }
        }
    }

    fn escape(&mut self, open: char) -> Result<(), String> {
        let not_terminated = || "escape sequence not terminated".to_owned();
        let first = self.bump().ok_or_else(not_terminated)?;
        let (digits, base, most) = match first {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return Ok(()),
            c if c == open => return Ok(()),
            '0'..='7' => {
                self.at -= 1;
                (3, 8, 255)
            }
            'x' => (2, 16, 255),
            'u' => (4, 16, 0x10_ffff),
            'U' => (8, 16, 0x10_ffff),
            c => return Err(format!("unknown escape sequence {}", numbered_char(c))),
        };
        let mut value = 0u32;
        for _ in 0..digits {
            let c = self.bump().ok_or_else(not_terminated)?;
            let illegal = || format!("illegal character {} in escape sequence", numbered_char(c));
            let digit = c.to_digit(base).ok_or_else(illegal)?;
            value = value.wrapping_mul(base).wrapping_add(digit);
        }
        if value > most || (0xd800..0xe000).contains(&value) {
            return Err("escape sequence is an invalid Unicode code point".to_owned());
        }
        Ok(())
    }

    fn number_or_duration(&mut self) -> Result<Kind, String> {
        let start = self.at;
        self.number = self.bracket;
        if self.number() {
            return Ok(Kind::Number);
        }
        if self.rest_of_duration() {
            return Ok(Kind::Duration);
        }
        Err(format!("bad number or duration syntax: {}", quote(&self.text[start..self.at])))
    }

    /// Skips what looks like a number; the parser checks whether it is one. Returns whether a number can
    /// end here.
    fn number(&mut self) -> bool {
        let start = self.at;
        let mut hex = false;
        if self.take('0') && (self.take('x') || self.take('X')) {
            self.take('_');
            hex = true;
        }
        let is_digit = |c: char| if hex { c.is_ascii_hexdigit() } else { c.is_ascii_digit() };
        let (mut dot, mut exponent) = (false, false);
        self.take('.');
        while let Some(c) = self.peek() {
            match c {
                c if is_digit(c) => self.take_while(is_digit),
                '.' => {
                    self.bump();
                    if dot || self.take('_') || self.take('.') || hex {
                        return false;
                    }
                    dot = true;
                }
                'e' | 'E' => {
                    self.bump();
                    if exponent {
                        return false;
                    }
                    exponent = true;
                    if matches!(self.peek(), Some('+' | '-')) {
                        self.bump();
                    }
                    if self.cannot_follow() {
                        return false;
                    }
                }
                '_' => {
                    self.bump();
                    if self.cannot_follow() {
                        return false;
                    }
                }
                _ => break,
            }
        }
        self.at > start && !self.peek().is_some_and(is_alphanumeric)
    }

    /// Skips a character that may not follow an exponent or an underscore; returns whether there was one,
    /// or the end.
    fn cannot_follow(&mut self) -> bool {
        self.peek().is_none() || ['.', '_', 'e', 'E'].into_iter().any(|c| self.take(c))
    }

    /// Skips the unit of a duration and its further parts; returns whether the duration can end here.
    fn rest_of_duration(&mut self) -> bool {
        let mut units = "smhdwy";
        loop {
            let Some(unit) = self.peek().filter(|c| units.contains(*c)) else { return false };
            self.take(unit);
            self.take('s');
            if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
                let ends = !self.peek().is_some_and(is_alphanumeric);
                if !ends {
                    self.bump();
                }
                return ends;
            }
            self.take_while(|c| c.is_ascii_digit());
            units = "smhdw";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokenize(text).list.iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_are_names_in_braces_and_durations_in_brackets() {
        use Kind::*;
        let expected =
            [Sum, LeftBrace, Identifier, Equal, String, RightBrace, LeftBracket, Duration, RightBracket];
        assert_eq!(kinds("SUM{by='x'}[5m] # end")[..9], expected);
        assert_eq!(
            kinds("a:b fill fill (1)"),
            [MetricIdentifier, Identifier, Fill, LeftParen, Number, RightParen, End]
        );
        assert_eq!(
            kinds("x</1>/2<=3 Inf"),
            [Identifier, TrimUpper, Number, TrimLower, Number, Lte, Number, Number, End]
        );
        assert_eq!(
            kinds("x[step()+1h30m:.5]")[..9],
            [Identifier, LeftBracket, Step, LeftParen, RightParen, Add, Duration, Colon, Number]
        );
        assert_eq!(kinds("0x1F 1e-3 1_000"), [Number, Number, Number, End]);
    }

    #[test]
    fn unquoted_names_may_have_letters_of_any_script_and_dots() {
        use Kind::*;
        assert_eq!(kinds("http.server +温度"), [Identifier, Add, Identifier, End]);
        assert_eq!(kinds("foo..bar. rate.total Inf.total"), [Identifier, Identifier, Identifier, End]);
        assert_eq!(kinds("_:温度.total"), [MetricIdentifier, End]);
        assert_eq!(kinds("{service.name='x'}"), [LeftBrace, Identifier, Equal, String, RightBrace, End]);
        // `İnf` and the Kelvin sign are names, although lower-casing would make them `inf` and `k`.
        assert_eq!(kinds("İnf \u{212a}"), [Identifier, Identifier, End]);
        assert_eq!(kinds("a + .5"), [Identifier, Add, Number, End]);
        assert_eq!(kinds("a offset.b"), [Identifier, Identifier, End]);
    }

    #[test]
    fn syntax_errors_have_the_messages_of_prometheus() {
        for (text, what) in [
            ("(", "unclosed left parenthesis"),
            (")", "unexpected right parenthesis ')'"),
            ("{a", "unexpected end of input inside braces"),
            ("'a", "unterminated quoted string"),
            ("\"\\q\"", "unknown escape sequence U+0071 'q'"),
            ("x[5m:5m:", "unexpected colon ':'"),
            ("x[5m", "unclosed left bracket"),
            ("x[5m+y]", "unexpected character: 'y', expected ':'"),
            ("1x", "bad number or duration syntax: \"1\""),
            ("0deadbeef", "bad number or duration syntax: \"0de\""),
            ("100..", "bad number or duration syntax: \"100..\""),
            ("5m1", "bad number or duration syntax: \"5m1\""),
            ("x[1#]\n", "unclosed left bracket"),
            ("a = ~ b", ""),
            ("!a", "unexpected character after '!': 'a'"),
            ("foo😀", "unexpected character: '😀'"),
            (".foo", "unexpected character: '.'"),
            ("o\u{308}", "unexpected character: '\u{308}'"),
            ("{a:b=''}", "unexpected character inside braces: ':'"),
            ("x[5m:ä]", "unexpected character: 'ä', expected ':'"),
            ("x[ä]", "unexpected character in duration expression: 'ä'"),
            ("x[:5m]", "unexpected colon before duration in duration expression"),
        ] {
            let found = tokenize(text).error.map(|error| error.1).unwrap_or_default();
            assert!(found == what || what.is_empty(), "{text}: {found}");
        }
    }
}
