//! Converts anchored regular expressions with many alternatives to text forms: `.*a1.*|b[0-9]|c.+`.
//!
//! An automaton for such an expression has a state for each set of alternatives that are still possible,
//! and follows a set of thousands at nearly every byte. Text forms are found by their literals instead
//! (see [`TextForms`](crate::TextForms)).
//!
//! **Invariant.** The forms accept exactly the texts that the expression accepts.

use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look, Repetition};

use crate::text_form::{CharSet, FormPiece, TextForm};

/// With fewer alternatives an automaton is as fast.
const FORMS_MIN: usize = 16;
/// The most alternatives, and the most bytes of all forms together.
const FORMS_MAX: usize = 16 << 10;
const BYTES_MAX: usize = 8 << 20;
/// The most pieces of a form that contains repeated character sets: comparing such a form follows all of
/// its positions at once.
const SET_PIECES_MAX: usize = 16;
/// The most ranges of a character set.
const RANGES_MAX: usize = 64;
/// The most repetitions of a character.
const REPEATED_MAX: u32 = 64;
/// The most levels of nested groups and alternatives.
const DEPTH_MAX: usize = 16;

/// The forms of `^(?s:...)$`, if the expression consists of many alternatives that all have a form.
pub(crate) fn forms_of(anchored: &Hir) -> Option<Vec<TextForm>> {
    let HirKind::Concat(parts) = anchored.kind() else { return None };
    let [first, between @ .., last] = parts.as_slice() else { return None };
    let is_look = |hir: &Hir, look| matches!(hir.kind(), HirKind::Look(found) if *found == look);
    if !is_look(first, Look::Start) || !is_look(last, Look::End) {
        return None;
    }
    let Forms { all, .. } = continued(Forms::start(), between, 0)?;
    (all.len() >= FORMS_MIN && all.iter().all(is_followed)).then_some(all)
}

/// Whether comparing the form follows few positions at a time.
fn is_followed(form: &TextForm) -> bool {
    let is_set = |piece: &FormPiece| matches!(piece, FormPiece::Many(CharSet::Ranges { .. }));
    form.pieces().len() <= SET_PIECES_MAX || !form.pieces().iter().any(is_set)
}

/// A list of forms within the bounds.
#[derive(Clone)]
struct Forms {
    all: Vec<TextForm>,
    /// An upper bound of their bytes. It is a running sum, because an expression has as many parts as
    /// its text has characters, and each part adds to all forms.
    bytes: usize,
}

impl Forms {
    /// The empty list.
    fn none() -> Self {
        Self { all: Vec::new(), bytes: 0 }
    }

    /// The list with one form, which accepts the empty text.
    fn start() -> Self {
        Self { all: vec![TextForm::default()], bytes: size_of::<TextForm>() }
    }

    fn within_bounds(self) -> Option<Self> {
        (self.all.len() <= FORMS_MAX && self.bytes <= BYTES_MAX).then_some(self)
    }

    /// Appends pieces to each form.
    fn with(self, pieces: &[FormPiece]) -> Option<Self> {
        let more = pieces.iter().map(FormPiece::bytes_at_most).sum::<usize>();
        let bytes = self.bytes.saturating_add(more.saturating_mul(self.all.len()));
        let mut forms = Self { bytes, ..self }.within_bounds()?;
        for form in &mut forms.all {
            pieces.iter().for_each(|piece| form.push(piece.clone()));
        }
        Some(forms)
    }

    /// The union of both lists.
    fn or(mut self, others: Self) -> Option<Self> {
        self.all.extend(others.all);
        self.bytes += others.bytes;
        self.within_bounds()
    }

    /// Each of these forms followed by each form of `ends`.
    fn then(self, ends: &Self) -> Option<Self> {
        if let [end] = ends.all.as_slice() {
            return self.with(end.pieces());
        }
        let count = self.all.len().checked_mul(ends.all.len())?;
        let bytes = self.bytes * ends.all.len() + ends.bytes * self.all.len();
        if count > FORMS_MAX || bytes > BYTES_MAX {
            return None;
        }
        let joined = |start: &TextForm| {
            let start = start.clone();
            ends.all.iter().map(move |end| {
                let mut whole = start.clone();
                end.pieces().iter().for_each(|piece| whole.push(piece.clone()));
                whole
            })
        };
        Some(Self { all: self.all.iter().flat_map(joined).collect(), bytes })
    }
}

fn continued(starts: Forms, parts: &[Hir], depth: usize) -> Option<Forms> {
    parts.iter().try_fold(starts, |starts, part| followed_by(starts, part, depth))
}

fn followed_by(starts: Forms, part: &Hir, depth: usize) -> Option<Forms> {
    if depth == DEPTH_MAX {
        return None;
    }
    match part.kind() {
        HirKind::Empty => Some(starts),
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            starts.with(&[FormPiece::Text(text.to_owned())])
        }
        HirKind::Class(Class::Unicode(class)) => match class.ranges() {
            [] => Some(Forms::none()),
            _ => starts.with(&[FormPiece::One(set_of(class)?)]),
        },
        HirKind::Capture(group) => followed_by(starts, &group.sub, depth + 1),
        HirKind::Concat(parts) => continued(starts, parts, depth + 1),
        HirKind::Alternation(branches) => {
            let ends = branches.iter().try_fold(Forms::none(), |ends, branch| {
                ends.or(followed_by(Forms::start(), branch, depth + 1)?)
            })?;
            starts.then(&ends)
        }
        HirKind::Repetition(of) => repeated(starts, of, depth),
        HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => None,
    }
}

/// Forms of optional parts, and of characters with a fixed or unlimited number of repetitions.
fn repeated(starts: Forms, of: &Repetition, depth: usize) -> Option<Forms> {
    if (of.min, of.max) == (0, Some(1)) {
        return followed_by(starts.clone(), &of.sub, depth + 1)?.or(starts);
    }
    let mut sub = &*of.sub;
    while let HirKind::Capture(group) = sub.kind() {
        sub = &group.sub;
    }
    let set = match sub.kind() {
        HirKind::Class(Class::Unicode(class)) => set_of(class)?,
        HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            let character = chars.next().filter(|_| chars.next().is_none())?;
            CharSet::Ranges { negated: false, ranges: [(character, character)].into() }
        }
        _ => return None,
    };
    if of.min > REPEATED_MAX || of.max.is_some_and(|max| max != of.min) {
        return None;
    }
    let mut pieces = vec![FormPiece::One(set.clone()); of.min as usize];
    pieces.extend(of.max.is_none().then_some(FormPiece::Many(set)));
    starts.with(&pieces)
}

fn set_of(class: &ClassUnicode) -> Option<CharSet> {
    let ranges = class.ranges();
    match ranges {
        [all] if all.start() == '\0' && all.end() == char::MAX => Some(CharSet::Any),
        _ if ranges.len() > RANGES_MAX => None,
        _ => {
            let ranges = ranges.iter().map(|range| (range.start(), range.end())).collect();
            Some(CharSet::Ranges { negated: false, ranges })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_regex::{BoundedRegex, RegexOptions};
    use crate::text_forms::TextForms;

    fn anchored(pattern: &str) -> Hir {
        BoundedRegex::parse(&format!("^(?s:{pattern})$"), true).unwrap()
    }

    /// The expression together with alternatives that no text matches, so that there are enough of them.
    fn among_many(pattern: &str) -> String {
        let others: Vec<String> = (0..FORMS_MIN).map(|n| format!(".*none{n}.*")).collect();
        format!("{}|{pattern}", others.join("|"))
    }

    #[test]
    fn forms_accept_what_the_expression_accepts() {
        let patterns = [
            "a",
            "a.*",
            ".*a",
            ".*a.*",
            ".*a.*b.*",
            "a.b",
            "a?b",
            "(a|b)c+",
            "[ab]{2}.*x",
            ".+é.*",
            "a(b|c.*)?d",
            "(?-s:.*)b",
            "x[0-9]*y",
            "[^a]*b[^a]*",
            "(?i)abc",
            "a+a+b",
            "",
            ".*ab.*ba",
            "é.",
            "a[a-b]*ab*",
        ];
        let letters = ["", "a", "b", "c", "x", "y", "é", "1", "\n"];
        let mut texts: Vec<String> = vec![String::new()];
        for _ in 0..4 {
            texts = texts.iter().flat_map(|start| letters.map(|letter| format!("{start}{letter}"))).collect();
            texts.sort_unstable();
            texts.dedup();
        }
        for pattern in patterns {
            let hir = anchored(&among_many(pattern));
            let forms =
                TextForms::new(forms_of(&hir).unwrap_or_else(|| panic!("{pattern} has forms"))).unwrap();
            let options = RegexOptions { utf8: true, prefilter: true, groups: false };
            let regex = BoundedRegex::new(&anchored(pattern), options).unwrap();
            for text in &texts {
                let expected = regex.is_match(text.as_bytes()).unwrap();
                assert_eq!(forms.matches(text), Ok(expected), "{pattern:?} on {text:?}");
            }
        }
    }

    #[test]
    fn forms_use_at_most_the_estimated_memory() {
        for pattern in ["a(b|c.*)?d", "[ab]{20}.*x", "(a|bc)[x-z]{2}.+(d|e)", "abc(d|)(e|)", "a.b.c.d.e.f.g"]
        {
            let HirKind::Concat(parts) = anchored(pattern).into_kind() else { panic!("{pattern}") };
            let forms = continued(Forms::start(), &parts[1..parts.len() - 1], 0).unwrap();
            let taken = forms.all.iter().map(TextForm::bytes).sum::<usize>();
            assert!(taken <= forms.bytes, "{pattern}: {taken} of {}", forms.bytes);
        }
    }

    #[test]
    fn conversion_takes_time_linear_in_the_expression() {
        let parts = ["a.", "[ab]", "a[bc]+", "(?:a.|[a&&b])", "(?:a|bc?)"];
        for part in parts {
            let hir = anchored(&part.repeat((40 << 10) / part.len()));
            // It would take a minute if each part visited all pieces.
            assert!(forms_of(&hir).is_none(), "{part}");
        }
    }

    #[test]
    fn expressions_without_forms_or_with_few_are_left_to_an_automaton() {
        for pattern in ["(ab)*", "a{2,5}", "^a", r"\bx", r"\p{L}*"] {
            assert!(forms_of(&anchored(&among_many(pattern))).is_none(), "{pattern}");
        }
        assert!(forms_of(&anchored(".*a.*|.*b.*")).is_none());
        let many = "(a|b.*|c.)".repeat(12);
        assert!(forms_of(&anchored(&many)).is_none(), "the product of the alternatives is too large");
    }
}
