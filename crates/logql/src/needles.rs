//! Literals that every passing line contains, for skipping pages: the texts of `|=`, and texts without
//! which a `|~` cannot match.
//!
//! The needles are sound but not complete: every line that passes the filters contains them. Only filters
//! before any stage that changes the line contribute.

use regex_syntax::hir::{Class, Hir, HirKind, literal};
use sandur_query::{Needle, Needles};

use crate::line_filter::LineFilter;
use crate::line_test::LineTest;

/// Shorter needles occur in nearly every page.
const LENGTH_MIN: usize = 3;
/// A set of more alternatives hardly ever excludes a page.
const ALTERNATIVES_MAX: usize = 16;
/// The most spellings of a text, apart from the case of ASCII letters.
const FOLDED_WAYS_MAX: usize = 4;

/// The needles that every line contains which passes all filters.
pub fn required<'a>(filters: impl Iterator<Item = &'a LineFilter>) -> Needles {
    let mut all: Vec<Vec<Needle>> = Vec::new();
    for filter in filters.filter(|f| !f.negated) {
        // If one alternative requires nothing, neither does the filter.
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

/// The requirement if either of two holds: any needle of one or any needle of the other.
fn either(left: Vec<Vec<Needle>>, right: Vec<Vec<Needle>>) -> Vec<Vec<Needle>> {
    // The longest needles of each side exclude the most pages.
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

/// The needles of an expression. Every part of a sequence must match, so each part contributes.
fn of_hir(hir: &Hir) -> Vec<Vec<Needle>> {
    let parts: &[Hir] = match hir.kind() {
        HirKind::Concat(parts) => parts,
        _ => std::slice::from_ref(hir),
    };
    let mut needles = Vec::new();
    let mut text = Text::default();
    for part in parts {
        match (part.kind(), folded_letter(part)) {
            (HirKind::Literal(found), _) => text.push_exact(&found.0),
            (_, Some((letter, other))) => text.push_folded(letter, other),
            _ => {
                needles.extend(std::mem::take(&mut text).needles());
                of_part(part, &mut needles);
            }
        }
    }
    needles.extend(text.needles());
    needles
}

fn of_part(part: &Hir, needles: &mut Vec<Vec<Needle>>) {
    match part.kind() {
        HirKind::Capture(capture) => needles.extend(of_hir(&capture.sub)),
        HirKind::Repetition(repetition) if repetition.min > 0 => needles.extend(of_hir(&repetition.sub)),
        HirKind::Alternation(branches) => {
            let mut branches = branches.iter().map(of_hir);
            let first = branches.next().unwrap_or_default();
            let found = branches.fold(first, either);
            if found.iter().flatten().any(|needle| needle.literal.len() >= LENGTH_MIN) {
                return needles.extend(found);
            }
            let mut extractor = literal::Extractor::new();
            extractor.limit_total(ALTERNATIVES_MAX);
            let mut found = extractor.extract(part);
            found.dedup();
            let Some(literals) = found.literals() else { return };
            if !literals.is_empty() && literals.len() <= ALTERNATIVES_MAX {
                needles.push(literals.iter().map(|l| exact(l.as_bytes())).collect());
            }
        }
        HirKind::Concat(_) => needles.extend(of_hir(part)),
        _ => {}
    }
}

/// A contiguous text with its possible spellings. If any letter of it may be in either case, as with
/// `(?i)`, the complete text is searched without regard to case.
struct Text {
    /// All spellings, apart from the case of ASCII letters; never empty.
    ways: Vec<Vec<u8>>,
    ignore_ascii_case: bool,
    /// The needles of the text before this one, which was cut off because another letter would have made
    /// too many spellings.
    before: Vec<Vec<Needle>>,
}

impl Default for Text {
    fn default() -> Self {
        Self { ways: vec![Vec::new()], ignore_ascii_case: false, before: Vec::new() }
    }
}

impl Text {
    fn push_exact(&mut self, bytes: &[u8]) {
        self.ways.iter_mut().for_each(|way| way.extend_from_slice(bytes));
    }

    /// Appends a letter in either case, or another character that folds to it.
    fn push_folded(&mut self, letter: u8, other: Option<char>) {
        if other.is_some() && self.ways.len() * 2 > FOLDED_WAYS_MAX {
            let before = std::mem::take(self).needles();
            self.before = before;
        }
        self.ignore_ascii_case = true;
        let mut others = Vec::new();
        if let Some(other) = other {
            others.clone_from(&self.ways);
            let mut bytes = [0; 4];
            let bytes = other.encode_utf8(&mut bytes).as_bytes();
            others.iter_mut().for_each(|way| way.extend_from_slice(bytes));
        }
        self.push_exact(&[letter]);
        self.ways.extend(others);
    }

    fn needles(mut self) -> Vec<Vec<Needle>> {
        let ignore_ascii_case = self.ignore_ascii_case;
        if ignore_ascii_case {
            self.ways.iter_mut().for_each(|way| way.make_ascii_lowercase());
        }
        if self.ways.iter().all(|way| !way.is_empty()) {
            let needle = |literal| Needle { literal, ignore_ascii_case };
            self.before.push(self.ways.into_iter().map(needle).collect());
        }
        self.before
    }
}

/// For a class of one ASCII letter in both cases: the letter in lower case, and the other character in the
/// class. `k` folds with the Kelvin sign, and `s` with the long s.
fn folded_letter(hir: &Hir) -> Option<(u8, Option<char>)> {
    let HirKind::Class(class) = hir.kind() else { return None };
    let mut members = Vec::with_capacity(3);
    match class {
        Class::Unicode(class) if class.ranges().len() <= 3 => {
            for range in class.ranges() {
                members.push((range.start() == range.end()).then_some(range.start())?);
            }
        }
        Class::Bytes(class) if class.ranges().len() == 2 => {
            for range in class.ranges() {
                members.push((range.start() == range.end()).then_some(char::from(range.start()))?);
            }
        }
        _ => return None,
    }
    let (upper, lower, other) = match *members {
        [upper, lower] => (upper, lower, None),
        [upper, lower, other] if !other.is_ascii() => (upper, lower, Some(other)),
        _ => return None,
    };
    (lower.is_ascii_lowercase() && upper == lower.to_ascii_uppercase()).then_some((lower as u8, other))
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
    fn needles_are_literals_that_every_passing_line_contains() {
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
            (r#"|~ "(?i)task""#, "~task/~ta\u{17f}k/~tas\u{212a}/~ta\u{17f}\u{212a}"),
            (r#"|~ "(?i)disconnect""#, "~disconnect/~di\u{17f}connect"),
            (r#"|~ "(?i)kiosks""#, "~kios/~\u{212a}ios/~kio\u{17f}/~\u{212a}io\u{17f}"),
            (r#"|~ "(?i)time OUT 7""#, "~time out 7"),
            (r#"|~ "(?i)(refuse|time)d""#, "~refuse/~refu\u{17f}e/~time"),
            (r#"|~ "up (timed out|reset by peer).*x""#, "up  timed out/reset by peer"),
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
