//! Compiles regular expressions in Go's syntax for Rust's engine. Both engines run in linear time.

use regex_syntax::hir::{Hir, literal};
use sandur_memory::job::spend;
pub use sandur_model::go_regex::{reason, translate};
use sandur_model::{BoundedRegex, RegexError, RegexOptions, Slots, go_replacement, group_span};

/// Compiles an expression that matches bytes.
pub fn compile_bytes(pattern: &str) -> Result<BoundedRegex, String> {
    compile(pattern, RegexOptions { utf8: false, prefilter: true, groups: true })
}

/// Compiles an expression that matches UTF-8 text.
pub fn compile_text(pattern: &str) -> Result<BoundedRegex, String> {
    compile(pattern, RegexOptions { utf8: true, prefilter: true, groups: true })
}

fn compile(pattern: &str, options: RegexOptions) -> Result<BoundedRegex, String> {
    let hir = parse(pattern, options.utf8);
    let compiled = hir.and_then(|hir| BoundedRegex::new(&hir, options));
    compiled.map_err(|error| reason(pattern, &error))
}

/// Parses an expression over bytes, which need not be UTF-8.
pub fn parse_hir(pattern: &str) -> Result<Hir, String> {
    parse(pattern, false).map_err(|error| reason(pattern, &error))
}

fn parse(pattern: &str, utf8: bool) -> Result<Hir, RegexError> {
    BoundedRegex::parse(&translate(pattern)?, utf8)
}

/// Compiles a parsed expression for searching.
pub fn compile_hir(hir: &Hir) -> Result<BoundedRegex, RegexError> {
    BoundedRegex::new(hir, RegexOptions { utf8: false, prefilter: begins_rarely(hir), groups: false })
}

/// Calls `f` with the group positions of each match in order; `slots` is the number of positions.
pub fn each_match(
    regex: &BoundedRegex,
    text: &str,
    slots: usize,
    mut f: impl FnMut(&Slots) -> Result<(), String>,
) -> Result<(), String> {
    let mut slots = vec![None; slots];
    let (mut at, mut last) = (0, None);
    while at <= text.len() && regex.find(text.as_bytes(), at, &mut slots).map_err(|e| e.to_string())? {
        let Some((from, to)) = group_span(&slots, 0) else { break };
        // Go skips an empty match directly after another match.
        if from == to && last == Some(to) {
            at += 1;
            continue;
        }
        f(&slots)?;
        (at, last) = (to, Some(to));
    }
    Ok(())
}

/// Writes the replacement with its group references expanded; a missing group is empty.
pub fn expand<'t>(
    regex: &BoundedRegex,
    replacement: &'t str,
    group: impl Fn(usize) -> &'t str,
    write: impl FnMut(&'t str) -> Result<(), String>,
) -> Result<(), String> {
    spend(replacement.len()).map_err(|stopped| stopped.to_string())?;
    go_replacement::expand(regex, replacement, group, write)
}

/// Whether searching for the literals at the start of a match pays off. Digits and short literals occur
/// everywhere in logs, and stopping at each of them is slower than running the automaton.
fn begins_rarely(hir: &Hir) -> bool {
    let prefixes = literal::Extractor::new().extract(hir);
    let Some(literals) = prefixes.literals() else { return true };
    literals.len() <= 3 || literals.iter().all(|l| l.len() >= 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_expressions_match_the_same_texts() {
        for (pattern, text, expected) in [
            (r"\d+", "٣", false),
            (r"^\w+$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"\s", "\u{a0}", false),
            (r"\Qa.b\E+", "a.bb", true),
            (r"\Qa.b", "axb", false),
            (r"[[]x", "[x", true),
            (r"[]x]", "]", true),
            (r"[a&&b]", "&", true),
            (r"[[:digit:]]+z", "12z", true),
            (r"[^\d]", "1", false),
            (r"\bfoo\b", "a foo b", true),
            (r"\bfoo\b", "éfooé", true),
            (r"\<x", "<x", true),
            (r"(?i)ERROR", "error", true),
            (r"[\D]", "1", false),
        ] {
            let regex = compile_bytes(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(regex.is_match(text.as_bytes()), Ok(expected), "{pattern} on {text}");
        }
        for (pattern, words) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("*a", "missing argument to repetition operator: `*`"),
            (r"a\q", r"invalid escape sequence: `\q`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("a(?P<", "invalid or unsupported Perl syntax: `(?P`"),
            ("a(?P<name", "invalid named capture: `(?P<name`"),
        ] {
            assert_eq!(compile_bytes(pattern).unwrap_err(), format!("error parsing regexp: {words}"));
        }
        assert!(compile_text("a{1001}{1001}{1001}").is_err());
    }
}
