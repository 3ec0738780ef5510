//! What every wanted line must hold, for skipping pages: literals of `|=`, and literals that a `|~` cannot
//! match without.
//!
//! Sound, not complete: a line that passes the filters holds the needles, whatever they are. Only filters
//! before a stage that changes the line count.

use regex_syntax::hir::{Hir, HirKind, literal};
use sandur_query::{Needle, Needles};

use crate::stage::{LineFilter, LineTest};

/// Shorter needles are in nearly every page.
const LENGTH_MIN: usize = 3;
/// More alternatives than this hardly ever exclude a page.
const ALTERNATIVES_MAX: usize = 16;

/// The needles of the filters, all of which every line passes.
pub fn required<'a>(filters: impl Iterator<Item = &'a LineFilter>) -> Needles {
    let mut all: Vec<Vec<Needle>> = Vec::new();
    for filter in filters.filter(|f| !f.negated) {
        // Each of several alternatives must say something, or none does.
        let mut groups: Option<Vec<Vec<Needle>>> = None;
        for test in &filter.tests {
            let found = of_test(test);
            groups = Some(match groups {
                None => found,
                Some(before) => either(before, found),
            });
        }
        all.extend(groups.unwrap_or_default());
    }
    all.retain(|group| group.iter().all(|n| n.literal.len() >= LENGTH_MIN));
    all.dedup();
    Needles(all)
}

/// What is required when either of two requirements holds: any of the one's with any of the other's.
fn either(left: Vec<Vec<Needle>>, right: Vec<Vec<Needle>>) -> Vec<Vec<Needle>> {
    // The longest needles of each side exclude most.
    let best = |groups: Vec<Vec<Needle>>| {
        groups.into_iter().max_by_key(|g| g.iter().map(|n| n.literal.len()).min().unwrap_or(0))
    };
    match (best(left), best(right)) {
        (Some(mut left), Some(right)) if left.len() + right.len() <= ALTERNATIVES_MAX => {
            left.extend(right);
            vec![left]
        }
        _ => Vec::new(),
    }
}

fn exact(literal: &[u8]) -> Needle {
    Needle { literal: literal.to_vec(), ignore_ascii_case: false }
}

fn of_test(test: &LineTest) -> Vec<Vec<Needle>> {
    match test {
        LineTest::Literal(finder) => vec![vec![exact(finder.needle())]],
        LineTest::Pattern(pattern) => pattern.literals().map(|l| vec![exact(l)]).collect(),
        LineTest::Regex { hir, .. } => of_hir(hir),
        LineTest::Ip(_) => Vec::new(),
    }
}

/// The needles of an expression: of each part of a sequence, as every part must match.
fn of_hir(hir: &Hir) -> Vec<Vec<Needle>> {
    let parts: &[Hir] = match hir.kind() {
        HirKind::Concat(parts) => parts,
        _ => std::slice::from_ref(hir),
    };
    let mut needles = Vec::new();
    let mut folded = Vec::new();
    for part in parts {
        match folded_byte(part) {
            Some(byte) => folded.push(byte),
            None => {
                take_folded(&mut folded, &mut needles);
                of_part(part, &mut needles);
            }
        }
    }
    take_folded(&mut folded, &mut needles);
    needles
}

fn of_part(part: &Hir, needles: &mut Vec<Vec<Needle>>) {
    match part.kind() {
        HirKind::Literal(found) => needles.push(vec![exact(&found.0)]),
        HirKind::Capture(capture) => needles.extend(of_hir(&capture.sub)),
        HirKind::Repetition(repetition) if repetition.min > 0 => needles.extend(of_hir(&repetition.sub)),
        HirKind::Alternation(_) | HirKind::Concat(_) => {
            let mut extractor = literal::Extractor::new();
            extractor.limit_total(ALTERNATIVES_MAX);
            let mut found = extractor.extract(part);
            found.dedup();
            let Some(literals) = found.literals() else { return };
            if !literals.is_empty() && literals.len() <= ALTERNATIVES_MAX {
                needles.push(literals.iter().map(|l| exact(l.as_bytes())).collect());
            }
        }
        _ => {}
    }
}

/// A run of letters in either case and of other characters, as `(?i)` makes it, is one needle.
fn take_folded(folded: &mut Vec<u8>, needles: &mut Vec<Vec<Needle>>) {
    let literal = std::mem::take(folded);
    if !literal.is_empty() {
        let ignore_ascii_case = literal.iter().any(u8::is_ascii_lowercase);
        needles.push(vec![Needle { literal, ignore_ascii_case }]);
    }
}

/// The byte of a class that is one ASCII letter in both cases and nothing else. `k` and `s` have further
/// forms outside of ASCII (the Kelvin sign and the long s), so their classes are larger and do not count.
fn folded_byte(hir: &Hir) -> Option<u8> {
    let HirKind::Class(class) = hir.kind() else { return None };
    let (mut bytes, mut count) = ([0u8; 2], 0);
    match class {
        regex_syntax::hir::Class::Unicode(class) => {
            for range in class.ranges() {
                if range.start() != range.end() || !range.start().is_ascii() || count == 2 {
                    return None;
                }
                bytes[count] = range.start() as u8;
                count += 1;
            }
        }
        regex_syntax::hir::Class::Bytes(class) => {
            for range in class.ranges() {
                if range.start() != range.end() || count == 2 {
                    return None;
                }
                bytes[count] = range.start();
                count += 1;
            }
        }
    }
    let [upper, lower] = bytes;
    let letter = count == 2 && lower.is_ascii_lowercase() && upper == lower.to_ascii_uppercase();
    letter.then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse_log;

    fn needles(filters: &str) -> String {
        let log = parse_log(&format!(r#"{{a="b"}} {filters}"#)).unwrap();
        let needles = required(log.stages.iter().filter_map(|s| s.line_filter()));
        let text = |n: &Needle| {
            format!("{}{}", if n.ignore_ascii_case { "~" } else { "" }, String::from_utf8_lossy(&n.literal))
        };
        let group = |g: &Vec<Needle>| g.iter().map(text).collect::<Vec<_>>().join("/");
        needles.0.iter().map(group).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn literals_that_a_line_must_hold() {
        for (filters, expected) in [
            (r#"|= "error""#, "error"),
            (r#"|= "error" |= "timeout" != "debug""#, "error timeout"),
            (r#"|= "abc" or "defg""#, "abc/defg"),
            (r#"|= "abc" or "x""#, ""),
            (r#"|= "abc" or ip("1.2.3.4")"#, ""),
            (r#"|~ "error.*timeout""#, "error timeout"),
            (r#"|~ "error|timeout""#, "error/timeout"),
            (r#"|~ "(GET|POST) /api""#, "GET/POST  /api"),
            (r#"|~ "(?i)error""#, "~error"),
            (r#"|~ "(?i)task""#, ""),
            (r#"|~ "(?i)disconnect""#, "~connect"),
            (r#"|~ "x?abc+""#, ""),
            (r#"|~ "(abcd)+""#, "abcd"),
            (r#"|~ "(abcd)*""#, ""),
            (r#"|~ "[0-9]+""#, ""),
            (r#"|> "<_> failed: <_>""#, " failed: "),
            (r#"!= "error""#, ""),
            (r#"|= "ab""#, ""),
        ] {
            assert_eq!(needles(filters), expected, "{filters}");
        }
    }
}
