//! Patterns of literal text and captures, `<name>` or `<_>`, for the `pattern` stage and for `|>`.

use memchr::memmem::Finder;

/// A piece of a pattern.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Text that must occur.
    Literal(Box<Finder<'static>>),
    /// Any text; named unless it is `<_>`.
    Capture(Option<String>),
}

/// A pattern without adjacent captures.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The literals and captures, alternating.
    pub pieces: Vec<Piece>,
}

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(name) = capture_at(rest) {
                if !literal.is_empty() {
                    pieces.push(literal_piece(&std::mem::take(&mut literal)));
                } else if let Some(Piece::Capture(before)) = pieces.last() {
                    let before = before.as_deref().unwrap_or("_");
                    return Err(format!(
                        "found consecutive capture '<{before}><{name}>': invalid expression"
                    ));
                }
                pieces.push(Piece::Capture((name != "_").then(|| name.to_owned())));
                rest = &rest[name.len() + 2..];
            } else {
                literal.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if !literal.is_empty() {
            pieces.push(literal_piece(&literal));
        }
        Ok(Self { pieces })
    }

    /// The names of the captures, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Capture(name) => name.as_deref(),
            Piece::Literal(_) => None,
        })
    }

    /// The literals, in order.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(finder) => Some(finder.needle()),
            Piece::Capture(_) => None,
        })
    }

    /// Whether the complete line matches; captures are never empty. As in Loki, a literal at the start of
    /// the pattern may occur anywhere.
    pub fn matches(&self, line: &[u8]) -> bool {
        if line.is_empty() || self.pieces.is_empty() {
            return line.is_empty() && self.pieces.is_empty();
        }
        let mut at = 0;
        for (n, piece) in self.pieces.iter().enumerate() {
            let Piece::Literal(finder) = piece else { continue };
            let Some(found) = finder.find(&line[at..]) else { return false };
            // Every literal except the first is preceded by a capture, which must not be empty.
            if n != 0 && found == 0 {
                return false;
            }
            at += found + finder.needle().len();
        }
        let open_end = matches!(self.pieces.last(), Some(Piece::Capture(_)));
        open_end == (at != line.len())
    }

    /// Calls `f` with the position and text of each named capture, as far as the line matches.
    pub fn captures<'a>(&self, line: &'a [u8], mut f: impl FnMut(usize, &'a [u8])) {
        let mut pieces = self.pieces.iter();
        let mut rest = line;
        if let Some(Piece::Literal(finder)) = self.pieces.first() {
            let Some(after) = rest.strip_prefix(finder.needle()) else { return };
            rest = after;
            pieces.next();
        }
        let mut position = 0;
        while let Some(Piece::Capture(name)) = pieces.next() {
            let (text, after) = match pieces.next() {
                Some(Piece::Literal(finder)) => match finder.find(rest) {
                    Some(n) => (&rest[..n], Some(&rest[n + finder.needle().len()..])),
                    None => (rest, None),
                },
                _ => (rest, None),
            };
            if name.is_some() {
                f(position, text);
                position += 1;
            }
            let Some(after) = after else { return };
            rest = after;
        }
    }
}

fn literal_piece(text: &str) -> Piece {
    Piece::Literal(Box::new(Finder::new(text.as_bytes()).into_owned()))
}

/// The name of the capture at the start of the text.
fn capture_at(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let name = &inside[..inside.find('>')?];
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (first && rest).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_complete_lines() {
        for (pattern, line, expected) in [
            ("foo <_> baz", "foo bar baz", true),
            ("<_> bar", "foo bar baz", false),
            ("<_> baz", "foo bar baz", true),
            ("foo <_>", "foo bar baz", true),
            ("<_> bar <_>", " bar ", false),
            ("<_>bar<_>", " bar ", true),
            ("foo", "foo", true),
            ("foo", "foo bar", false),
            ("foo", "a foo", true),
            ("foo <_>", "a foo bar", true),
            ("", "", true),
            ("", "x", false),
            ("x", "", false),
            ("<_>", "x", true),
        ] {
            assert_eq!(
                Pattern::parse(pattern).unwrap().matches(line.as_bytes()),
                expected,
                "{pattern} on {line}"
            );
        }
    }

    #[test]
    fn captures_are_the_text_between_literals() {
        let captures = |pattern: &str, line: &str| {
            let mut all = Vec::new();
            let pattern = Pattern::parse(pattern).unwrap();
            pattern.captures(line.as_bytes(), |n, text| {
                all.push((n, String::from_utf8_lossy(text).into_owned()))
            });
            all.into_iter().map(|(n, t)| format!("{n}:{t}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(captures("<ip> - <_> [<ts>]", "1.2.3.4 - bob [now] rest"), "0:1.2.3.4 1:now");
        assert_eq!(captures("<a>,<b>", "x,y"), "0:x 1:y");
        assert_eq!(captures("<a>,<b>", "only"), "0:only");
        assert_eq!(captures("pre <a>", "no pre x"), "");
        assert_eq!(captures("<a >", "x"), "", "the pattern has no capture");
    }

    #[test]
    fn adjacent_captures_are_refused() {
        let error = Pattern::parse("<a><b>").unwrap_err();
        assert_eq!(error, "found consecutive capture '<a><b>': invalid expression");
        assert!(Pattern::parse("<_><_>").is_err());
    }
}
