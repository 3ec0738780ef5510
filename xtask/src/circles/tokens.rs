//! Splits a Rust source into words and punctuation, without comments, literals and lifetimes.
//!
//! Invariant: the brackets among the tokens are those of the code, since brackets in comments, texts and
//! characters are left out.

/// A token. Numbers are words too, since no path begins with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    Word(&'a str),
    /// `::`
    Colons,
    Sign(u8),
}

/// Returns the tokens of a source.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::with_capacity(bytes.len() / 5);
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        at += match byte {
            b' ' | b'\n' | b'\t' | b'\r' => 1,
            b'/' if rest.starts_with(b"//") => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => comment_length(rest),
            b'"' => quoted_length(rest),
            b'\'' => character_length(rest),
            b':' if rest.starts_with(b"::") => {
                tokens.push(Token::Colons);
                2
            }
            _ if is_in_word(byte) => {
                let length = rest.iter().position(|b| !is_in_word(*b)).unwrap_or(rest.len());
                match raw_text_length(rest, length) {
                    Some(length) => length,
                    None => {
                        tokens.push(Token::Word(&text[at..at + length]));
                        length
                    }
                }
            }
            _ => {
                tokens.push(Token::Sign(byte));
                1
            }
        };
    }
    tokens
}

fn is_in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The length of a block comment, which may contain others.
fn comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The length of a text in quotes, whose first byte is the quote.
fn quoted_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != rest[0] {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of a character or a lifetime.
fn character_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return quoted_length(rest);
    }
    let first = rest.get(1).map_or(1, |byte| byte.leading_ones().max(1) as usize);
    if rest.get(first + 1) == Some(&b'\'') {
        return first + 2;
    }
    1 + rest[1..].iter().take_while(|byte| is_in_word(**byte)).count()
}

/// The length of a raw text, such as `r#"a"#`, if the word at its start is the prefix of one.
fn raw_text_length(rest: &[u8], word: usize) -> Option<usize> {
    if !matches!(&rest[..word], b"r" | b"br" | b"cr") {
        return None;
    }
    let hashes = rest[word..].iter().take_while(|b| **b == b'#').count();
    let start = word + hashes + 1;
    if rest.get(start - 1) != Some(&b'"') {
        return None;
    }
    let is_end = |at: &usize| {
        rest[*at] == b'"' && rest[*at + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes
    };
    let end = (start..rest.len()).find(is_end)?;
    Some(end + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let word = |token| if let Token::Word(word) = token { Some(word) } else { None };
        tokens(text).into_iter().filter_map(word).collect()
    }

    #[test]
    fn comments_and_literals_are_left_out() {
        let text = "a // b {\n /* c /* d */ { */ e \"f { \\\" g\" r#\"h \" {\"# b\"i\" '{' '\\'' 'é' j<'k>";
        assert_eq!(words(text), ["a", "e", "b", "j"]);
        assert!(!tokens(text).contains(&Token::Sign(b'{')));
    }

    #[test]
    fn paths_and_brackets_are_kept() {
        let expected = [Token::Word("a"), Token::Colons, Token::Sign(b'{'), Token::Word("b")];
        assert_eq!(tokens("a::{b"), expected);
    }
}
