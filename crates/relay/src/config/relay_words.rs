//! Splits carbon-c-relay's configuration into words: runs of non-space characters, `;`, and texts in
//! quotation marks. Comments extend from `#` to the end of the line.

use super::source::{ConfigError, Source};

/// Words that are no hosts, as in carbon-c-relay. Where one follows the members of a cluster, the `;` of
/// the cluster is missing.
pub(super) const KEYWORDS: &[&str] = &[
    "aggregate",
    "any_of",
    "blackhole",
    "carbon_ch",
    "cluster",
    "compute",
    "dynamic",
    "else",
    "every",
    "expire",
    "failover",
    "fnv1a_ch",
    "forward",
    "include",
    "into",
    "jump_fnv1a_ch",
    "linemode",
    "listen",
    "match",
    "mtls",
    "proto",
    "replication",
    "rewrite",
    "route",
    "seconds",
    "send",
    "ssl",
    "statistics",
    "stop",
    "tcp",
    "to",
    "transport",
    "type",
    "udp",
    "useall",
    "using",
    "validate",
];

/// A word and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) line: usize,
    /// Whether it was in quotation marks and thus is not a keyword.
    pub(super) is_quoted: bool,
}

/// Splits a file into words; `;` is a word of its own.
pub(super) fn words(source: &Source) -> Result<Vec<Word>, ConfigError> {
    let mut words: Vec<Word> = Vec::new();
    for (index, text) in source.text.lines().enumerate() {
        let line = index + 1;
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else { break };
            match first {
                '#' => break,
                ';' => {
                    words.push(Word { text: ";".to_owned(), line, is_quoted: false });
                    rest = &rest[1..];
                }
                '"' => {
                    let (text, end) = quoted(&rest[1..])
                        .ok_or_else(|| source.wrong(line, "a quoted text does not end on its line"))?;
                    words.push(Word { text, line, is_quoted: true });
                    rest = &rest[1 + end..];
                }
                _ => {
                    let end = plain_end(rest);
                    words.push(Word { text: rest[..end].to_owned(), line, is_quoted: false });
                    rest = &rest[end..];
                }
            }
        }
    }
    Ok(words)
}

/// Returns where an unquoted word ends: at a space, a comment, or a `;` that ends the statement. A space
/// after a backslash that is followed by more of the word belongs to the word. An expression may contain
/// `;` (of tags) only in quotation marks or as `\;`, and `#` as `\#`.
fn plain_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        let is_more = |next: char| !next.is_whitespace() && !matches!(next, ';' | '#');
        let is_end = match letter {
            ' ' if is_escaped => !text[at + 1..].starts_with(is_more),
            ';' | '#' => !is_escaped,
            other => other.is_whitespace(),
        };
        if is_end {
            return at;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.len()
}

/// Returns the text up to the closing mark, and the offset of what follows. A backslash stands for the
/// character after it.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut found = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((found, at + 1)),
            '\\' => found.push(letters.next()?.1),
            _ => found.push(letter),
        }
    }
    None
}
