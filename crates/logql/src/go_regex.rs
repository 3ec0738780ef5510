//! Regular expressions in Go's syntax, made ready for Rust's engine.
//!
//! The two differ in a few places: Go's `\d \w \s \b` are ASCII, it knows `\Q..\E`, and inside of `[..]` it
//! takes `[`, `&&`, `--` and `~~` as they are. Everything runs in linear time in both.

use regex_syntax::hir::{Hir, literal};
use sandur_base::job::spend;
use sandur_model::{BoundedRegex, RegexError, RegexOptions, Slots};

/// The same expression in Rust's syntax.
pub fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = escape(&mut out, rest, false),
            '[' => rest = class(&mut out, rest),
            _ => out.push(c),
        }
    }
    out
}

/// What follows a backslash; gives the text after it.
fn escape<'a>(out: &mut String, rest: &'a str, in_class: bool) -> &'a str {
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let after = &rest[c.len_utf8()..];
    match (c, in_class) {
        ('d', true) => out.push_str("0-9"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('s', true) => out.push_str(r"\t\n\f\r "),
        ('d', false) => out.push_str("[0-9]"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('s', false) => out.push_str(r"[\t\n\f\r ]"),
        ('D', _) => out.push_str("[^0-9]"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('S', _) => out.push_str(r"[^\t\n\f\r ]"),
        ('b', false) => out.push_str(r"(?-u:\b)"),
        ('B', false) => out.push_str(r"(?-u:\B)"),
        ('Q', false) => {
            let end = after.find("\\E").unwrap_or(after.len());
            out.push_str(&regex_syntax::escape(&after[..end]));
            return after.get(end + 2..).unwrap_or("");
        }
        ('<' | '>', _) => out.push(c),
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
    after
}

/// What follows an opening bracket; gives the text after the closing one.
fn class<'a>(out: &mut String, mut rest: &'a str) -> &'a str {
    out.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            ']' if !first => {
                out.push(']');
                return after;
            }
            '\\' => rest = escape(out, after, true),
            '[' if after.starts_with(':') && after.contains(":]") => {
                let end = rest.find(":]").map_or(rest.len(), |n| n + 2);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            '[' | ']' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                rest = after;
            }
            '-' if after.starts_with('-') => {
                out.push_str("\\-");
                rest = after;
            }
            _ => {
                out.push(c);
                rest = after;
            }
        }
        first = false;
    }
    rest
}

/// Compiles an expression over bytes.
pub fn compile_bytes(pattern: &str) -> Result<BoundedRegex, String> {
    compile(pattern, RegexOptions { utf8: false, prefilter: true, groups: true })
}

/// Compiles an expression over text.
pub fn compile_text(pattern: &str) -> Result<BoundedRegex, String> {
    compile(pattern, RegexOptions { utf8: true, prefilter: true, groups: true })
}

fn compile(pattern: &str, options: RegexOptions) -> Result<BoundedRegex, String> {
    let hir = BoundedRegex::parse(&translate(pattern), options.utf8);
    let compiled = hir.and_then(|hir| BoundedRegex::new(&hir, options));
    compiled.map_err(|error| reason(pattern, &error))
}

/// The expression's syntax tree over bytes that need not be UTF-8.
pub fn parse_hir(pattern: &str) -> Result<Hir, String> {
    BoundedRegex::parse(&translate(pattern), false).map_err(|error| reason(pattern, &error))
}

/// Compiles a syntax tree for searching.
pub fn compile_hir(hir: &Hir) -> Result<BoundedRegex, RegexError> {
    BoundedRegex::new(hir, RegexOptions { utf8: false, prefilter: begins_rarely(hir), groups: false })
}

/// Where a group is, in bytes of the text.
pub fn span(slots: &Slots, group: usize) -> Option<(usize, usize)> {
    let place = |n: usize| slots.get(n).copied().flatten().map(|place| place.get());
    Some((place(2 * group)?, place(2 * group + 1)?))
}

/// Calls `f` with the places of each match, one after another, as many of them as `slots` says.
pub fn each_match(
    regex: &BoundedRegex,
    text: &str,
    slots: usize,
    mut f: impl FnMut(&Slots) -> Result<(), String>,
) -> Result<(), String> {
    let mut slots = vec![None; slots];
    let (mut at, mut last) = (0, None);
    while at <= text.len() && regex.find(text.as_bytes(), at, &mut slots).map_err(|e| e.to_string())? {
        let Some((from, to)) = span(&slots, 0) else { break };
        // No empty match right behind another one.
        if from == to && last == Some(to) {
            at += 1;
            continue;
        }
        f(&slots)?;
        (at, last) = (to, Some(to));
    }
    Ok(())
}

/// Writes a replacement with its `$1`, `$name` and `${name}`; what does not exist is empty.
pub fn expand<'t>(
    regex: &BoundedRegex,
    replacement: &'t str,
    group: impl Fn(usize) -> &'t str,
    mut write: impl FnMut(&'t str) -> Result<(), String>,
) -> Result<(), String> {
    spend(replacement.len()).map_err(|stopped| stopped.to_string())?;
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        write(&rest[..at])?;
        let after = &rest[at + 1..];
        if let Some(behind) = after.strip_prefix('$') {
            write("$")?;
            rest = behind;
            continue;
        }
        let word = |c: char| c != '_' && !c.is_ascii_alphanumeric();
        let named = match after.strip_prefix('{') {
            Some(inside) => inside.split_once('}'),
            None => Some(after.split_at(after.find(word).unwrap_or(after.len()))).filter(|n| !n.0.is_empty()),
        };
        let Some((name, behind)) = named else {
            write("$")?;
            rest = after;
            continue;
        };
        let number = name.parse().ok().or_else(|| regex.group_of(name));
        write(number.map_or("", &group))?;
        rest = behind;
    }
    write(rest)
}

/// Whether the bytes that a match begins with are worth searching for. Digits and short pieces stand
/// everywhere in logs: stopping at each of them is slower than the automaton.
fn begins_rarely(hir: &Hir) -> bool {
    let prefixes = literal::Extractor::new().extract(hir);
    let Some(literals) = prefixes.literals() else { return true };
    literals.len() <= 3 || literals.iter().all(|l| l.len() >= 3)
}

/// What is wrong with an expression, in Go's words where it has some.
pub fn reason(pattern: &str, error: &RegexError) -> String {
    let RegexError::Invalid(error) = error else { return error.to_string() };
    explain(pattern).unwrap_or_else(|| {
        let what = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("error parsing regexp: {what}: `{pattern}`")
    })
}

/// What Go says of a name of a group that does not end: of `(?P<` alone, that it knows no such flag.
fn unfinished_name(pattern: &str) -> (&'static str, &str) {
    let group = pattern.rfind("(?").map_or(pattern, |at| &pattern[at..]);
    match group {
        "(?P<" => ("invalid or unsupported Perl syntax", "(?P"),
        "(?<" => ("invalid or unsupported Perl syntax", "(?<"),
        _ => ("invalid named capture", group),
    }
}

/// What is wrong with an expression in Go's words; `None` when nothing is, or nothing that Go has words for.
pub fn explain(pattern: &str) -> Option<String> {
    use regex_syntax::ast::ErrorKind;
    let translated = translate(pattern);
    let error = regex_syntax::ast::parse::Parser::new().parse(&translated).err()?;
    let span = error.span();
    // Where an operand is missing the span is empty: what stands there instead is shown.
    let end = if span.is_empty() { span.start.offset + 1 } else { span.end.offset };
    let piece = translated.get(span.start.offset..end).unwrap_or_default();
    let (what, shown) = match error.kind() {
        ErrorKind::GroupUnclosed => ("missing closing )", pattern),
        ErrorKind::GroupUnopened => ("unexpected )", pattern),
        ErrorKind::ClassUnclosed => ("missing closing ]", piece),
        ErrorKind::ClassRangeInvalid => ("invalid character class range", piece),
        ErrorKind::RepetitionMissing => ("missing argument to repetition operator", piece),
        ErrorKind::RepetitionCountInvalid => ("invalid repeat count", piece),
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", ""),
        ErrorKind::EscapeUnrecognized => ("invalid escape sequence", piece),
        ErrorKind::GroupNameInvalid | ErrorKind::GroupNameEmpty => ("invalid named capture", piece),
        ErrorKind::GroupNameUnexpectedEof => unfinished_name(pattern),
        ErrorKind::UnsupportedLookAround | ErrorKind::FlagUnrecognized => {
            ("invalid or unsupported Perl syntax", piece)
        }
        _ => return None,
    };
    Some(format!("error parsing regexp: {what}: `{shown}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_go_mean_the_same() {
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
