//! Anchored regular expressions that need no automaton: lists of values, anything, and a literal at the
//! start, at the end or inside. Most matchers that users write have one of these forms (`a|b|c`, `.+`,
//! `api-.*`).
//!
//! **Invariants.** A plain pattern accepts exactly the texts that the expression accepts. It has at most
//! `VALUES_MAX` values with together at most `BYTES_MAX` bytes. They are charged to the job that parses
//! the pattern until the pattern is dropped.

use std::sync::Arc;

use regex_syntax::hir::{Class, Hir, HirKind, Look};
use sandur_memory::job::JobMemory;

use crate::matcher_form::MatcherForm;

/// The most values of a list; longer lists stay regular expressions.
const VALUES_MAX: usize = 1_024;

/// The most bytes of all values of a list.
const BYTES_MAX: usize = 64 << 10;

/// The most levels of nested groups and alternatives.
const DEPTH_MAX: usize = 16;

/// Bytes of a value besides its text: pointer and length, in this list and in the list that it is built
/// from.
const VALUE_BYTES: usize = 2 * size_of::<Box<str>>();

#[derive(Clone, Debug)]
pub(crate) struct PlainPattern {
    form: Form,
    held: Arc<JobMemory>,
}

#[derive(Clone, Debug)]
enum Form {
    Anything,
    NotEmpty,
    /// Sorted.
    OneOf(Arc<[Box<str>]>),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
    Contains(Box<str>),
}

impl PlainPattern {
    /// The plain form of `^(?s:...)$`, if it has one.
    pub fn of(anchored: &Hir) -> Option<Self> {
        let HirKind::Concat(parts) = anchored.kind() else { return None };
        let [first, between @ .., last] = parts.as_slice() else { return None };
        let is_look = |hir: &Hir, look| matches!(hir.kind(), HirKind::Look(found) if *found == look);
        if !is_look(first, Look::Start) || !is_look(last, Look::End) {
            return None;
        }
        let form = match between {
            [all] if least_of_any(all) == Some(0) => Form::Anything,
            [all] if least_of_any(all) == Some(1) => Form::NotEmpty,
            [any, rest @ .., end] if least_of_any(any) == Some(0) && least_of_any(end) == Some(0) => {
                Form::Contains(only(values_of(rest)?)?)
            }
            [rest @ .., end] if least_of_any(end) == Some(0) => Form::StartsWith(only(values_of(rest)?)?),
            [any, rest @ ..] if least_of_any(any) == Some(0) => Form::EndsWith(only(values_of(rest)?)?),
            all => {
                let mut values: Vec<Box<str>> = values_of(all)?.into_iter().map(String::into).collect();
                values.sort_unstable();
                Form::OneOf(values.into())
            }
        };
        let mut pattern = Self { form, held: Arc::default() };
        let mut held = JobMemory::default();
        held.at_least(pattern.whole_bytes()).ok()?;
        pattern.held = Arc::new(held);
        Some(pattern)
    }

    pub fn matches(&self, value: &str) -> bool {
        match &self.form {
            Form::Anything => true,
            Form::NotEmpty => !value.is_empty(),
            Form::OneOf(values) => values.binary_search_by(|known| (**known).cmp(value)).is_ok(),
            Form::StartsWith(start) => value.starts_with(&**start),
            Form::EndsWith(end) => value.ends_with(&**end),
            Form::Contains(part) => value.contains(&**part),
        }
    }

    /// The values that the pattern accepts.
    pub fn form(&self) -> MatcherForm<'_> {
        match &self.form {
            Form::Anything => MatcherForm::Anything,
            Form::NotEmpty => MatcherForm::NotEmpty,
            Form::OneOf(values) => MatcherForm::Values(values),
            Form::StartsWith(start) => MatcherForm::Start(start),
            Form::EndsWith(_) | Form::Contains(_) => MatcherForm::Other,
        }
    }

    /// Bytes of memory that no job was charged with.
    pub fn memory_bytes(&self) -> u64 {
        self.whole_bytes().saturating_sub(self.held.reserved_bytes())
    }

    fn whole_bytes(&self) -> u64 {
        match &self.form {
            Form::Anything | Form::NotEmpty => 0,
            Form::OneOf(values) => values.iter().map(|value| (value.len() + VALUE_BYTES) as u64).sum(),
            Form::StartsWith(text) | Form::EndsWith(text) | Form::Contains(text) => text.len() as u64,
        }
    }
}

/// The minimum of a repetition of any characters without a maximum (`.*`: 0, `.+`: 1); `None` for
/// anything else.
fn least_of_any(hir: &Hir) -> Option<u32> {
    let HirKind::Repetition(repetition) = without_groups(hir).kind() else { return None };
    let HirKind::Class(Class::Unicode(class)) = without_groups(&repetition.sub).kind() else { return None };
    let is_whole = matches!(class.ranges(), [all] if all.start() == '\0' && all.end() == char::MAX);
    (repetition.max.is_none() && is_whole).then_some(repetition.min)
}

fn without_groups(mut hir: &Hir) -> &Hir {
    while let HirKind::Capture(group) = hir.kind() {
        hir = &group.sub;
    }
    hir
}

fn only(values: Vec<String>) -> Option<Box<str>> {
    <[String; 1]>::try_from(values).ok().map(|[value]| value.into())
}

/// All texts that a sequence of parts accepts; `None` when there are too many or infinitely many.
fn values_of(parts: &[Hir]) -> Option<Vec<String>> {
    continued(vec![String::new()], parts, 0)
}

fn continued(starts: Vec<String>, parts: &[Hir], depth: usize) -> Option<Vec<String>> {
    parts.iter().try_fold(starts, |starts, part| followed_by(starts, part, depth))
}

fn followed_by(starts: Vec<String>, part: &Hir, depth: usize) -> Option<Vec<String>> {
    if depth == DEPTH_MAX {
        return None;
    }
    match part.kind() {
        HirKind::Empty => Some(starts),
        HirKind::Literal(literal) => product(&starts, &[std::str::from_utf8(&literal.0).ok()?]),
        HirKind::Class(Class::Unicode(class)) => {
            let count: usize = class.ranges().iter().map(|range| range.len()).sum();
            if count > VALUES_MAX {
                return None;
            }
            let texts: Vec<String> =
                class.iter().flat_map(|range| (range.start()..=range.end()).map(String::from)).collect();
            product(&starts, &texts)
        }
        HirKind::Capture(group) => followed_by(starts, &group.sub, depth + 1),
        HirKind::Concat(parts) => continued(starts, parts, depth + 1),
        HirKind::Alternation(branches) => {
            let mut ends = Vec::new();
            for branch in branches {
                ends.extend(followed_by(vec![String::new()], branch, depth + 1)?);
                is_within_bounds(&ends).then_some(())?;
            }
            product(&starts, &ends)
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

fn is_within_bounds(values: &[String]) -> bool {
    values.len() <= VALUES_MAX && values.iter().map(String::len).sum::<usize>() <= BYTES_MAX
}

fn product(starts: &[String], ends: &[impl AsRef<str>]) -> Option<Vec<String>> {
    let bytes = |texts: &mut dyn Iterator<Item = usize>| texts.sum::<usize>();
    let start_bytes = bytes(&mut starts.iter().map(String::len));
    let end_bytes = bytes(&mut ends.iter().map(|end| end.as_ref().len()));
    let count = starts.len().checked_mul(ends.len())?;
    if count > VALUES_MAX || start_bytes * ends.len() + end_bytes * starts.len() > BYTES_MAX {
        return None;
    }
    let joined = |start: &String| {
        let start = start.clone();
        ends.iter().map(move |end| format!("{start}{}", end.as_ref()))
    };
    Some(starts.iter().flat_map(joined).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_regex::{BoundedRegex, RegexOptions};

    fn anchored(pattern: &str) -> Hir {
        BoundedRegex::parse(&format!("^(?s:{pattern})$"), true).unwrap()
    }

    #[test]
    fn common_patterns_are_plain_and_match_as_expressions() {
        let patterns = [
            "",
            ".*",
            ".+",
            "(.*)",
            "(.+)",
            ".*?",
            "a",
            "a|b|c",
            "api-a|api-b|web",
            "(api|web)-[0-9]",
            "api-.*",
            "(?:api)-.*",
            ".*error",
            ".*err.*",
            "a|",
            "x(|y)z",
            "(a|b)(c|d)",
            "GET|POST|get",
            "ä|ö",
            "a\\.b",
            "prod-(eu|us)-[12]",
        ];
        let values = [
            "",
            "a",
            "b",
            "c",
            "d",
            "\n",
            "api-a",
            "api-b",
            "web",
            "api-",
            "api-7",
            "web-3",
            "error",
            "an error",
            "stderr!",
            "err",
            "xz",
            "xyz",
            "ac",
            "bd",
            "POST",
            "ä",
            "a.b",
            "axb",
            "prod-eu-1",
            "prod-us-3",
            "x\nerr\ny",
        ];
        for pattern in patterns {
            let plain = PlainPattern::of(&anchored(pattern)).unwrap_or_else(|| panic!("{pattern} is plain"));
            let options = RegexOptions { utf8: true, prefilter: true, groups: false };
            let regex = BoundedRegex::new(&anchored(pattern), options).unwrap();
            for value in values {
                let expected = regex.is_match(value.as_bytes()).unwrap();
                assert_eq!(plain.matches(value), expected, "{pattern:?} on {value:?}");
            }
        }
    }

    #[test]
    fn patterns_that_need_an_automaton_are_not_plain() {
        let many = "[a-z]".repeat(3);
        for pattern in ["a+", "[a-z]{4}", "a|b.*", ".*a.*b.*", "\\w", "a?.*", "a)|(b", "^a", ".{2,}", &many] {
            assert!(PlainPattern::of(&anchored(pattern)).is_none(), "{pattern}");
        }
        let deep = format!("{}a|b{}", "(".repeat(40), ")".repeat(40));
        assert!(PlainPattern::of(&anchored(&deep)).is_none());
    }
}
