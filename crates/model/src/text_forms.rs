//! Compares a text with many forms at once, like the alternatives of `{*a1*,*b2*,c?.[0-9]}`.
//!
//! Each form with literals is registered under its rarest literal, the one that the fewest other forms
//! contain. An automaton of these literals finds, in one pass over the text, which of them the text
//! contains, and only their forms are compared. So the time depends on the length of the text and not on
//! the number of forms, unless the text contains many of the literals. Forms without a literal are
//! compared one after the other.
//!
//! **Invariants.** A text matches exactly if one of the forms accepts all of it. Every comparison is
//! reported to [`sandur_memory::job`] before it is made. The forms are charged to the job that makes them
//! until they are dropped.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, spend};

use crate::text_form::TextForm;

/// Comparing up to this many forms is faster than searching for literals.
const FEW: usize = 4;
/// Approximate bytes of memory per byte of a literal while the automaton is built.
const LITERAL_BYTES: usize = 64;
/// Units of [`spend`] for a form in addition to its pieces.
const FORM_WORK: usize = 16;

/// A set of text forms. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TextForms(Arc<Forms>);

#[derive(Debug)]
struct Forms {
    /// Forms that accept exactly one text, sorted.
    exact: Vec<Box<str>>,
    literals: Option<Literals>,
    /// Forms without a literal, or all forms if there are few.
    others: Vec<TextForm>,
    count: usize,
    held: JobMemory,
}

/// The forms that have a literal, by their rarest literal.
#[derive(Debug)]
struct Literals {
    automaton: AhoCorasick,
    /// For each literal, its forms.
    forms: Vec<Vec<TextForm>>,
}

impl TextForms {
    /// Prepares these forms; fails when the budget of the job is exhausted.
    pub fn new(forms: Vec<TextForm>) -> Result<Self, Stopped> {
        let mut held = JobMemory::default();
        let bytes = forms.iter().map(|form| form.bytes() + form.literal_bytes() * LITERAL_BYTES);
        held.at_least(bytes.sum::<usize>() as u64)?;
        let count = forms.len();
        let (exact, mut others): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|form| form.exact().is_some());
        let mut exact: Vec<Box<str>> = exact.iter().filter_map(|form| form.exact().map(Box::from)).collect();
        exact.sort_unstable();
        let literals = if others.len() > FEW { Literals::of(&mut others) } else { None };
        let mut made = Forms { exact, literals, others, count, held };
        let bytes = made.bytes();
        made.held.shrink_to(bytes);
        Ok(Self(Arc::new(made)))
    }

    /// Whether one of the forms accepts a text.
    pub fn matches(&self, text: &str) -> Result<bool, Stopped> {
        let Forms { exact, literals, others, .. } = &*self.0;
        spend(text.len() + FORM_WORK)?;
        if exact.binary_search_by(|known| (**known).cmp(text)).is_ok() {
            return Ok(true);
        }
        if literals.is_none() && others.is_empty() {
            return Ok(false);
        }
        if let Some(literals) = literals
            && literals.matches(text)?
        {
            return Ok(true);
        }
        takes(others, text)
    }

    /// Bytes of memory that no job was charged with.
    pub fn memory_bytes(&self) -> u64 {
        self.0.bytes().saturating_sub(self.0.held.reserved_bytes())
    }

    /// The number of forms, which is the most that a text is compared with.
    pub fn count(&self) -> usize {
        self.0.count
    }
}

impl Forms {
    fn bytes(&self) -> u64 {
        let exact = self.exact.iter().map(|text| text.len() + size_of::<Box<str>>()).sum::<usize>();
        let others = self.others.iter().map(TextForm::bytes).sum::<usize>();
        let literals = self.literals.as_ref().map_or(0, |literals| {
            let forms = literals.forms.iter().flatten().map(TextForm::bytes).sum::<usize>();
            forms + literals.automaton.memory_usage() + literals.forms.len() * size_of::<Vec<TextForm>>()
        });
        (exact + others + literals) as u64
    }
}

impl Literals {
    /// Takes the forms that have a literal out of `forms`; `None` when there are none.
    fn of(forms: &mut Vec<TextForm>) -> Option<Self> {
        let mut shared: foldhash::HashMap<Box<str>, usize> = foldhash::HashMap::default();
        for literal in forms.iter().flat_map(TextForm::literals) {
            *shared.entry(literal.into()).or_default() += 1;
        }
        let rarest = |form: &TextForm| -> Option<Box<str>> {
            let others = |literal: &&str| shared.get(*literal).copied().unwrap_or(0);
            form.literals().min_by_key(|literal| (others(literal), usize::MAX - literal.len())).map(Box::from)
        };
        let mut numbers: foldhash::HashMap<Box<str>, usize> = foldhash::HashMap::default();
        let (mut texts, mut by_literal, mut rest): (Vec<Box<str>>, Vec<Vec<TextForm>>, _) =
            Default::default();
        for form in std::mem::take(forms) {
            let Some(literal) = rarest(&form) else {
                Vec::push(&mut rest, form);
                continue;
            };
            let number = *numbers.entry(literal.clone()).or_insert_with(|| {
                texts.push(literal);
                by_literal.push(Vec::new());
                texts.len() - 1
            });
            by_literal[number].push(form);
        }
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let made = AhoCorasick::builder()
            .kind(kind)
            .prefilter(false)
            .build(texts.iter().map(|text| text.as_bytes()));
        match made {
            Ok(automaton) if !texts.is_empty() => {
                *forms = rest;
                Some(Self { automaton, forms: by_literal })
            }
            // There are too many literals for an automaton, or none: compare all forms.
            _ => {
                *forms = rest.into_iter().chain(by_literal.into_iter().flatten()).collect();
                None
            }
        }
    }

    fn matches(&self, text: &str) -> Result<bool, Stopped> {
        let mut seen: Vec<usize> = Vec::new();
        for found in self.automaton.find_overlapping_iter(text) {
            let literal = found.pattern().as_usize();
            spend(1 + seen.len() / 8)?;
            if seen.contains(&literal) {
                continue;
            }
            seen.push(literal);
            if takes(&self.forms[literal], text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn takes(forms: &[TextForm], text: &str) -> Result<bool, Stopped> {
    for form in forms {
        spend(FORM_WORK + form.work(text))?;
        if form.takes(text) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sandur_memory::MemoryBudget;
    use sandur_memory::job::{self, Owner, UNITS};

    use super::*;
    use crate::text_form::{CharSet, FormPiece};

    fn form(glob: &str) -> TextForm {
        let mut form = TextForm::default();
        for character in glob.chars() {
            form.push(match character {
                '*' => FormPiece::Many(CharSet::Any),
                '?' => FormPiece::One(CharSet::Any),
                other => FormPiece::Text(other.to_string()),
            });
        }
        form
    }

    struct Asked {
        questions: AtomicU64,
        most: u64,
        budget: MemoryBudget,
    }

    impl Owner for Asked {
        fn goes_on(&self) -> bool {
            self.questions.fetch_add(1, Ordering::Relaxed) < self.most
        }
        fn budget(&self) -> &MemoryBudget {
            &self.budget
        }
        fn refused(&self, _: sandur_memory::OverBudget) {}
    }

    const NAMES: u64 = 300;

    /// The units spent on comparing the names while the owner permits `most` questions, and how many
    /// names match.
    fn spent(forms: &TextForms, most: u64) -> (u64, Result<usize, Stopped>) {
        let budget = MemoryBudget::root("q", 1 << 30);
        let owner = Arc::new(Asked { questions: AtomicU64::new(0), most, budget });
        let names = (0..NAMES).map(|n| format!("host{n}x{}", n * 7919 % 20_011));
        let fitting = || names.filter(|name| forms.matches(name).unwrap_or(false)).count();
        let found = job::run(Arc::clone(&owner) as Arc<dyn Owner>, fitting);
        (owner.questions.load(Ordering::Relaxed) * UNITS, found)
    }

    #[test]
    fn comparing_with_thousands_of_forms_takes_no_longer_than_with_ten() {
        let forms =
            |count: usize| TextForms::new((0..count).map(|n| form(&format!("*z{n}*"))).collect()).unwrap();
        let (few, many) = (spent(&forms(10), u64::MAX), spent(&forms(3_000), u64::MAX));
        assert_eq!(few.1, Ok(0));
        assert_eq!(few, many);
        let found = forms(3_000).matches("xz2999");
        assert_eq!((found, forms(3_000).matches("xz")), (Ok(true), Ok(false)));
    }

    /// Forms whose literals the text contains, or that have none, are compared one by one; a job can be
    /// stopped meanwhile.
    #[test]
    fn comparisons_are_reported_and_end_when_the_job_is_stopped() {
        for glob in ["h*o*s*9?9?9", "?*?*?*?x??????????????"] {
            let forms = TextForms::new(vec![form(glob); 3_000]).unwrap();
            let (units, found) = spent(&forms, u64::MAX);
            assert!(units > NAMES * 3_000 * 16 && found.is_ok(), "{glob}: {units}");
            assert_eq!(spent(&forms, 3).1, Err(Stopped), "{glob}");
        }
    }
}
